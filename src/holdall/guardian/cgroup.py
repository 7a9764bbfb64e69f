"""A cgroup (version 2) of its own for a command, where this process may make one: it kills at once and completely."""

import contextlib
import os
from pathlib import Path
from typing import Self

_ROOT = Path("/sys/fs/cgroup")


class Cgroup:
    """A folder of the cgroup file system that belongs to one command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(cls, name: str, root: Path = _ROOT) -> Self | None:
        """A new one below the cgroup of this process, or None where that is not possible or can't kill."""
        try:
            lines = Path("/proc/self/cgroup").read_text().splitlines()
            own = next(line.removeprefix("0::").lstrip("/") for line in lines if line.startswith("0::"))
            folder = root / own / name
            if not (root / own / "cgroup.procs").exists():
                return None  # no cgroup file system of version 2 is mounted here
            folder.mkdir()
        except (OSError, StopIteration):
            return None
        made = cls(folder)
        if os.access(folder / "cgroup.kill", os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK):
            return made
        made.remove()
        return None

    def enter(self) -> None:
        """Put the calling process in; where the kernel refuses, it stays where it is (others still find it)."""
        with contextlib.suppress(OSError):
            (self.folder / "cgroup.procs").write_text("0")

    def kill(self) -> None:
        """KILL to everybody in it, also to those who fork in this moment."""
        with contextlib.suppress(OSError):
            (self.folder / "cgroup.kill").write_text("1")

    def remove(self) -> None:
        """Possible when nobody is in it; a leftover folder does no harm."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()

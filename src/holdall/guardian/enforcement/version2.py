"""A cgroup of version 2: kills at once and completely, counts, and keeps limits where controllers were delegated."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from holdall.guardian.enforcement.figures import CPU, MEMORY, PROCESSES, Figures, Kept, Limits
from holdall.guardian.enforcement.files import numbers_in, read_number, try_write

PERIOD_US = 100_000
_CONTROLLERS = {CPU: ("cpu", "cpu.max"), MEMORY: ("memory", "memory.max"), PROCESSES: ("pids", "pids.max")}


class Version2:
    """A folder of its own for one command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(cls, name: str, parent: Path | None, limited: Iterable[str] = ()) -> Self | None:
        """Below `parent`, the cgroup of this process; None where that is not possible, or can't kill.

        `limited`: terms whose controllers it should have.
        """
        if parent is None:
            return None
        folder = parent / name
        # Only the root of a tree, or one without processes of its own, may hand controllers down.
        for term in limited:
            try_write(parent / "cgroup.subtree_control", f"+{_CONTROLLERS[term][0]}")
        try:
            folder.mkdir()
        except OSError:
            return None
        made = cls(folder)
        if os.access(folder / "cgroup.kill", os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK):
            return made
        made.remove()
        return None

    def keeps(self) -> dict[str, Kept]:
        """What the kernel would keep here."""
        return {term: "kernel" for term, (_, file) in _CONTROLLERS.items() if (self.folder / file).exists()}

    def limit(self, limits: Limits) -> set[str]:
        """Put them in force; those that are."""
        values: dict[str, str] = {}
        if limits.cpu is not None:
            values[CPU] = f"{max(1000, limits.cpu * PERIOD_US // 1000)} {PERIOD_US}"
        if limits.mem is not None:
            values[MEMORY] = str(limits.mem)
        if limits.processes is not None:
            values[PROCESSES] = str(limits.processes)
        done = {
            term for term, value in values.items() if try_write(self.folder / _CONTROLLERS[term][1], value)
        }
        if MEMORY in done:
            # Else what is over the limit would go on in swap, where there is any.
            try_write(self.folder / "memory.swap.max", "0")
        return done

    def lift(self, terms: Iterable[str]) -> None:
        """No limit of these any more."""
        for term in terms:
            try_write(self.folder / _CONTROLLERS[term][1], "max")

    def enter(self) -> bool:
        """Put the calling process in. False: the kernel refuses, and it stays where it is."""
        return try_write(self.folder / "cgroup.procs", "0")

    def members(self) -> list[int]:
        """Processes in it; not those in cgroups below, which the command itself may have made."""
        with contextlib.suppress(OSError, ValueError):
            return [int(word) for word in (self.folder / "cgroup.procs").read_text().split()]
        return []

    def kill(self) -> None:
        """KILL to everybody in it, also to those who fork in this moment."""
        try_write(self.folder / "cgroup.kill", "1")

    def figures(self) -> Figures:
        """What is counted here."""
        cpu = numbers_in(self.folder / "cpu.stat")
        return Figures(
            cpu_ms=cpu["usage_usec"] // 1000 if "usage_usec" in cpu else -1,
            mem=read_number(self.folder / "memory.current"),
            mem_peak=read_number(self.folder / "memory.peak"),
            processes=read_number(self.folder / "pids.current"),
            processes_peak=read_number(self.folder / "pids.peak"),
            throttled=cpu.get("nr_throttled", -1),
            oom_kills=numbers_in(self.folder / "memory.events").get("oom_kill", -1),
        )

    def remove(self) -> None:
        """Possible when nobody is in it; a leftover folder does no harm."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()

"""Where the cgroup file systems of both versions are mounted, and where in them this process is."""

import contextlib
import time
from pathlib import Path

import msgspec

LEFT_SECONDS = 30


class Trees(msgspec.Struct, frozen=True):
    """Folders of this process's own cgroups."""

    v2: Path | None = None
    v1: dict[str, Path] = {}
    """By controller."""


def find_trees(proc: Path = Path("/proc/self")) -> Trees:
    """Whatever of them can be found; nothing where `proc` can't be read."""
    try:
        mounts = (proc / "mountinfo").read_text().splitlines()
        memberships = (proc / "cgroup").read_text().splitlines()
    except OSError:
        return Trees()
    places = _places(memberships)
    v2: Path | None = None
    v1: dict[str, Path] = {}
    for line in mounts:
        head, _, tail = line.partition(" - ")
        fields, kinds = head.split(), tail.split()
        if len(fields) < 5 or len(kinds) < 3:
            continue
        inside, mounted = _unescaped(fields[3]), Path(_unescaped(fields[4]))
        if kinds[0] == "cgroup2":
            v2 = _own(mounted, inside, places.get("")) or v2
        elif kinds[0] == "cgroup":
            for controller in set(kinds[2].split(",")) & places.keys():
                folder = _own(mounted, inside, places[controller])
                if folder is not None:
                    v1[controller] = folder
    return Trees(v2, v1)


def _places(memberships: list[str]) -> dict[str, str]:
    """Controller -> path of our cgroup; that of version 2 has the empty name."""
    places: dict[str, str] = {}
    for line in memberships:
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        for name in names.split(",") if number != "0" else [""]:
            places[name] = path
    return places


def _own(mounted: Path, inside: str, path: str | None) -> Path | None:
    """A mount may show a part of the tree only (`inside`), and us not at all."""
    if path is None:
        return None
    if inside not in {"/", path} and not path.startswith(inside.rstrip("/") + "/"):
        return None
    below = path if inside == "/" else path[len(inside) :]
    folder = mounted / below.lstrip("/")
    return folder if (folder / "cgroup.procs").exists() else None


def _unescaped(text: str) -> str:
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def sweep(parent: Path, prefix: str) -> None:
    """Remove what guardians have left that were killed: folders `prefix` + pid of nobody, made a while ago.

    A cgroup in which somebody is can't be removed, so at worst one stays.
    """
    with contextlib.suppress(OSError):
        for folder in parent.iterdir():
            pid = folder.name.removeprefix(prefix)
            if folder.name.startswith(prefix) and pid.isdecimal() and not Path(f"/proc/{pid}").exists():
                with contextlib.suppress(OSError):
                    if time.time() - folder.stat().st_ctime > LEFT_SECONDS:
                        folder.rmdir()

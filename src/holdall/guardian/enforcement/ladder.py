"""The ladder: the best means that this host has for each limit, found by trying. Source: lease negotiation, section 8.2.

From above: a cgroup of version 2, cgroups of version 1, limits of single processes together with the process group and the
subreaper, which finds whoever has left that group, and looking only. A command gets a cgroup of each version that can be
had: the one that kills need not be the one that keeps limits.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec

from holdall.guardian.enforcement.figures import CPU, MEMORY, PROCESSES, TERMS, Figures, Kept, Limits
from holdall.guardian.enforcement.trees import Trees, find_trees, sweep
from holdall.guardian.enforcement.version1 import Version1
from holdall.guardian.enforcement.version2 import Version2
from holdall.guardian.enforcement.watching import limit_processes, limit_this_process, look

PREFIX = "holdall-"

RungName: TypeAlias = Literal["cgroup v2", "cgroup v1", "process limits", "observe"]


class Rung(msgspec.Struct, frozen=True):
    """One means, as it was found on this host."""

    name: RungName
    there: bool
    kills: bool = False
    """Ends everybody in one go; without it, KILL is repeated until nobody is left."""
    keeps: dict[str, Kept] = {}
    why_not: str = ""


def discard(pid: int) -> None:
    """Remove the cgroups that a guardian with this pid has left, as it was killed. Nobody may be in them any more."""
    trees = find_trees()
    parents = [*trees.v1.values()] if trees.v2 is None else [trees.v2, *trees.v1.values()]
    for parent in dict.fromkeys(parents):
        with contextlib.suppress(OSError):
            (parent / f"{PREFIX}{pid}").rmdir()


class Group(Protocol):
    """What both versions of cgroups can do."""

    def keeps(self) -> dict[str, Kept]: ...
    def limit(self, limits: Limits) -> set[str]: ...
    def lift(self, terms: Iterable[str]) -> None: ...
    def members(self) -> list[int]: ...
    def enter(self) -> bool: ...
    def kill(self) -> None: ...
    def figures(self) -> Figures: ...
    def remove(self) -> None: ...


def probe(trees: Trees | None = None) -> tuple[Rung, ...]:
    """What there is here, from above. Makes cgroups of the least kind, and removes them."""
    found = find_trees() if trees is None else trees
    name = f"holdall-probe-{os.getpid()}"
    rungs: list[Rung] = []
    v2, v1 = Version2.make(name, found.v2), Version1.make(name, found.v1)
    if v2 is None:
        why = "none is mounted" if found.v2 is None else f"{found.v2} can't be divided by this user"
        rungs.append(Rung("cgroup v2", there=False, why_not=why))
    else:
        rungs.append(Rung("cgroup v2", there=True, kills=True, keeps=v2.keeps()))
        v2.remove()
    if v1 is None:
        why = "none is mounted" if not found.v1 else "they can't be divided by this user"
        rungs.append(Rung("cgroup v1", there=False, why_not=why))
    else:
        rungs.append(Rung("cgroup v1", there=True, kills="freezer" in v1.folders, keeps=v1.keeps()))
        v1.remove()
    rungs.append(Rung("process limits", there=True, keeps={MEMORY: "process", PROCESSES: "process"}))
    rungs.append(Rung("observe", there=True, keeps=dict.fromkeys(TERMS, "observed")))
    return tuple(rungs)


class Containment:
    """What holds one command: made before it starts, entered by its first process, removed when nobody is left."""

    def __init__(self, limits: Limits, groups: Iterable[Group], *, may_change: bool = False) -> None:
        """`may_change`: `adjust` may be called."""
        self.limits = limits
        self._may_change = may_change
        self.groups = tuple(groups)
        self.enforced: dict[str, Kept] = {}
        """How each limit that was asked for is kept."""
        self._peak = Figures()
        self._is_inside = True
        self._put_in_force()

    def adjust(self, limits: Limits, pids: Iterable[int]) -> None:
        """Other limits for a command that runs: less, more, or none where there were some. `enforced` says what came of it."""
        lifted = self.limits.asked().keys() - limits.asked().keys()
        for group in self.groups:
            group.lift(lifted)
        self.limits = limits
        self._put_in_force()
        if self.enforced.get(MEMORY) == "process" or MEMORY in lifted:
            limit_processes(limits, pids)

    def _put_in_force(self) -> None:
        in_force: set[str] = set()
        for group in self.groups:
            in_force |= group.limit(self.limits)
        self.enforced = {
            term: "kernel"
            if term in in_force and self._is_inside
            else "observed"
            if term == CPU
            else "process"
            for term in self.limits.asked()
        }

    @classmethod
    def make(cls, limits: Limits, trees: Trees | None = None, *, may_change: bool = False) -> "Containment":
        """For a command of this process, by whatever this host offers. `may_change`: `adjust` may be called."""
        found = find_trees() if trees is None else trees
        name = f"{PREFIX}{os.getpid()}"
        parents = [*found.v1.values()] if found.v2 is None else [found.v2, *found.v1.values()]
        for parent in dict.fromkeys(parents):
            sweep(parent, PREFIX)
        groups: list[Group] = []
        v2 = Version2.make(name, found.v2, sorted(limits.asked()))
        if v2 is not None:
            groups.append(v2)
        # Those of version 1 are needed for limits, and to kill where those of version 2 can't.
        needed = bool(set(limits.asked()) - set(v2.keeps() if v2 is not None else ()))
        v1 = Version1.make(name, found.v1) if v2 is None or needed else None
        if v1 is not None:
            groups.append(v1)
        return cls(limits, groups, may_change=may_change)

    def enter(self) -> None:
        """In the command's first process, before it becomes the command; where the kernel refuses, it stays where it is."""
        entered = [group.enter() for group in self.groups]
        if self.enforced.get(MEMORY) == "process" or not all(entered):
            limit_this_process(self.limits, may_change=self._may_change)

    def verify(self, pid: int) -> None:
        """After the start: a command that is not in its cgroups is not held by them, and that is said."""
        if all(pid in group.members() for group in self.groups) or not Path(f"/proc/{pid}").exists():
            return
        self._is_inside = False
        for term, kept in self.enforced.items():
            if kept == "kernel":
                self.enforced[term] = "observed" if term == CPU else "process"

    def kill(self) -> None:
        """Everybody who is in a cgroup, once."""
        for group in self.groups:
            group.kill()

    def figures(self, pids: Iterable[int]) -> Figures:
        """What the command has used: what cgroups count, and of the rest what its processes show."""
        seen = look(pids)
        for group in self.groups:
            counted = group.figures()
            known = {name: value for name, value in msgspec.structs.asdict(counted).items() if value >= 0}
            seen = msgspec.structs.replace(seen, **known)
        self._peak = seen.peaks(self._peak)
        return self._peak

    def over(self, figures: Figures) -> str:
        """Which limit is passed that this guardian has to keep; empty: none."""
        watched = {term for term, kept in self.enforced.items() if kept == "process"}
        return figures.over(
            Limits(
                mem=self.limits.mem if MEMORY in watched else None,
                processes=self.limits.processes if PROCESSES in watched else None,
            )
        )

    def remove(self) -> None:
        """Nobody is left."""
        for group in self.groups:
            group.remove()

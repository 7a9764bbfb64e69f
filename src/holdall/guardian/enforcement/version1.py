"""Cgroups of version 1: one folder for each controller. Limits are the kernel's; killing is freezing, KILL, and thawing."""

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from holdall.guardian.enforcement.figures import CPU, MEMORY, PROCESSES, Figures, Kept, Limits
from holdall.guardian.enforcement.files import numbers_in, read_number, try_write

PERIOD_US = 100_000
CONTROLLERS = ("cpu", "memory", "pids", "freezer", "cpuacct")
_KEPT_BY = {CPU: "cpu", MEMORY: "memory", PROCESSES: "pids"}
_UNLIMITED = {
    CPU: (("cpu.cfs_quota_us", "-1"),),
    MEMORY: (("memory.memsw.limit_in_bytes", "-1"), ("memory.limit_in_bytes", "-1")),
    PROCESSES: (("pids.max", "max"),),
}


class Version1:
    """Folders of one command, by controller."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self.folders = folders

    @classmethod
    def make(cls, name: str, parents: dict[str, Path]) -> Self | None:
        """Below the cgroups of this process; None where not one of them can be made."""
        folders: dict[str, Path] = {}
        for controller in CONTROLLERS:
            if controller not in parents:
                continue
            folder = parents[controller] / name
            with contextlib.suppress(OSError):
                # Where controllers are mounted together they share one folder.
                folder.mkdir(exist_ok=folder in folders.values())
                if os.access(folder / "cgroup.procs", os.W_OK):
                    folders[controller] = folder
        return cls(folders) if folders else None

    def keeps(self) -> dict[str, Kept]:
        """What the kernel would keep here."""
        return {term: "kernel" for term, controller in _KEPT_BY.items() if controller in self.folders}

    def limit(self, limits: Limits) -> set[str]:
        """Put them in force; those that are."""
        done: set[str] = set()
        if limits.cpu is not None and self._write("cpu", "cpu.cfs_period_us", PERIOD_US):
            quota = max(1000, limits.cpu * PERIOD_US // 1000)
            done |= {CPU} if self._write("cpu", "cpu.cfs_quota_us", quota) else set()
        if limits.mem is not None:
            # That with swap may never be below the other one: first where it is raised, last where it is lowered.
            self._write("memory", "memory.memsw.limit_in_bytes", limits.mem)
            if self._write("memory", "memory.limit_in_bytes", limits.mem):
                self._write("memory", "memory.memsw.limit_in_bytes", limits.mem)
                done.add(MEMORY)
        if limits.processes is not None and self._write("pids", "pids.max", limits.processes):
            done.add(PROCESSES)
        return done

    def lift(self, terms: Iterable[str]) -> None:
        """No limit of these any more."""
        for term in terms:
            for file, nothing in _UNLIMITED[term]:
                self._write(_KEPT_BY[term], file, nothing)

    def enter(self) -> bool:
        """Put the calling process in all of them. False: not in all."""
        entered = [try_write(folder / "cgroup.procs", "0") for folder in dict.fromkeys(self.folders.values())]
        return all(entered)

    def kill(self) -> None:
        """KILL to everybody in it. Where it can be frozen nobody forks meanwhile."""
        frozen = self._write("freezer", "freezer.state", "FROZEN")
        for pid in self.members():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if frozen:
            self._write("freezer", "freezer.state", "THAWED")

    def members(self) -> list[int]:
        """Processes in any of them."""
        found: set[int] = set()
        for folder in self.folders.values():
            with contextlib.suppress(OSError, ValueError):
                found |= {int(word) for word in (folder / "cgroup.procs").read_text().split()}
        return sorted(found)

    def figures(self) -> Figures:
        """What is counted here."""
        cpu_ns = self._number("cpuacct", "cpuacct.usage")
        memory = self.folders.get("memory")
        return Figures(
            cpu_ms=cpu_ns // 1_000_000 if cpu_ns >= 0 else -1,
            mem=self._number("memory", "memory.usage_in_bytes"),
            mem_peak=self._number("memory", "memory.max_usage_in_bytes"),
            processes=self._number("pids", "pids.current"),
            throttled=numbers_in(self.folders["cpu"] / "cpu.stat").get("nr_throttled", -1)
            if "cpu" in self.folders
            else -1,
            oom_kills=-1 if memory is None else numbers_in(memory / "memory.oom_control").get("oom_kill", -1),
        )

    def remove(self) -> None:
        """Possible when nobody is in them; leftover folders do no harm."""
        for folder in self.folders.values():
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _write(self, controller: str, file: str, value: object) -> bool:
        return controller in self.folders and try_write(self.folders[controller] / file, str(value))

    def _number(self, controller: str, file: str) -> int:
        return read_number(self.folders[controller] / file) if controller in self.folders else -1

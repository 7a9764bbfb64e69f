"""The lowest rungs: limits that each process has of its own, and looking at all of them in /proc."""

import contextlib
import os
import resource
from collections.abc import Iterable
from pathlib import Path

from holdall.guardian.enforcement.figures import Figures, Limits

_TICK_MS = 1000 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def limit_this_process(limits: Limits, *, may_change: bool) -> None:
    """Its memory, and that of each of its children alone; what they have together is watched.

    `may_change`: the hard limit stays as it is, as an unprivileged guardian could never raise it again; a process may go beyond
    its own then, and is seen by who watches.

    A number of processes is no limit of one process: RLIMIT_NPROC counts all that its user has.
    """
    if limits.mem is None:
        return
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = limits.mem if hard == resource.RLIM_INFINITY else min(limits.mem, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard if may_change else most))


def limit_processes(limits: Limits, pids: Iterable[int]) -> None:
    """The same for others that run; one that has more already gets nothing on top. None: no limit but the hard one."""
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            _, hard = resource.prlimit(pid, resource.RLIMIT_AS)
            most = hard if limits.mem is None else limits.mem
            resource.prlimit(
                pid, resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
            )


def look(pids: Iterable[int]) -> Figures:
    """What live processes use; of those that have been waited for, their time."""
    cpu_ms = mem = processes = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
            # utime, stime, and what of children that it has waited for (proc(5), counted from `state` as 0).
            cpu_ms += sum(int(fields[at]) for at in (11, 12, 13, 14)) * _TICK_MS
            if fields[0] != "Z":
                processes += 1
                mem += int(fields[21]) * _PAGE
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_ms += int((reaped.ru_utime + reaped.ru_stime) * 1000)
    return Figures(cpu_ms=cpu_ms, mem=mem, processes=processes)

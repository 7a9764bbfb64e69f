"""Limits of a command, what is measured against them, and how truly they are kept."""

from typing import Literal, TypeAlias

import msgspec

Kept: TypeAlias = Literal["kernel", "process", "observed", "none"]
"""By whom a limit is kept: the kernel; this guardian, which ends a command that is over it; nobody, it is only measured;
nobody, and it can't even be measured."""

CPU, MEMORY, PROCESSES = "cpu", "mem", "processes"
TERMS = (CPU, MEMORY, PROCESSES)


class Limits(msgspec.Struct, frozen=True):
    """Of all processes of a command together; None: no limit."""

    cpu: int | None = None
    """Thousandths of a processor."""
    mem: int | None = None
    """Bytes."""
    processes: int | None = None
    """Threads count, where the kernel keeps it."""

    def asked(self) -> dict[str, int]:
        """Those there are, by name."""
        pairs = ((CPU, self.cpu), (MEMORY, self.mem), (PROCESSES, self.processes))
        return {name: amount for name, amount in pairs if amount is not None}


class Figures(msgspec.Struct, frozen=True):
    """What a command has used until now. -1: not known here."""

    cpu_ms: int = -1
    """Of processors, in all."""
    mem: int = -1
    """Bytes now."""
    mem_peak: int = -1
    processes: int = -1
    processes_peak: int = -1
    throttled: int = -1
    """How often it was held back by its share of processors."""
    oom_kills: int = -1
    """Processes that the kernel ended for want of memory."""

    def peaks(self, earlier: "Figures") -> "Figures":
        """These, with the larger of both peaks."""
        return msgspec.structs.replace(
            self,
            mem_peak=max(self.mem_peak, earlier.mem_peak, self.mem),
            processes_peak=max(self.processes_peak, earlier.processes_peak, self.processes),
        )

    def over(self, limits: Limits) -> str:
        """The first limit that is passed, as a sentence; empty: none."""
        if limits.mem is not None and self.mem > limits.mem:
            return f"its processes have {self.mem} bytes of memory, and may have {limits.mem}"
        if limits.processes is not None and self.processes > limits.processes:
            return f"it has {self.processes} processes, and may have {limits.processes}"
        return ""

"""What one run consists of, as plain values: enough to do it again, message by message."""

import msgspec

from holdall.simulator.faults import Faults
from holdall.simulator.workload import Workload

DELAY_MS = 1000
"""Milliseconds of virtual time in one mean message delay."""


class Setup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run. Times in mean message delays."""

    protocol: str = "chain"
    workload: Workload = Workload()
    faults: Faults = Faults()
    seed: int = 1
    duration: float = 4000.0
    """Clients begin no claim after it; then everybody who waits must still be served."""
    passes: int = 8
    passes_per_ahead: int = 1
    try_from: int = 1000
    """Chain: a claim over so many nodes or more asks all of them at once first."""
    ttl: float = 60.0
    """Life of a lease without renewal."""

    jitter: bool = True
    """False: every message takes exactly one mean delay, so that delays can be counted."""
    strict: bool = False
    """Check every property of the protocol after every turn, not only capacity and what clients believe."""

    def __post_init__(self) -> None:
        if not 1 <= self.duration <= 1e7:
            raise ValueError("duration is a number of mean message delays from 1 to 10000000")
        if self.passes < 0 or self.passes_per_ahead < 0:
            raise ValueError("passes and passes_per_ahead are not negative")
        if self.ttl < 10:
            raise ValueError("a ttl below 10 mean message delays can't be renewed in time")

    @property
    def repairs(self) -> bool:
        """Whether messages can get lost, so that leases and repair timers matter."""
        return self.faults.any()

    @property
    def ttl_ms(self) -> int:
        """The ttl asked for. Without faults it is far away, so that no renewal disturbs the counts."""
        return int(self.ttl * DELAY_MS) if self.repairs else 1_000_000_000


def to_plain(setup: Setup) -> dict[str, object]:
    """For the header of a trace."""
    plain: dict[str, object] = msgspec.to_builtins(setup)
    return plain


def from_plain(plain: object) -> Setup:
    """The setup of a trace's header. Raises msgspec.ValidationError."""
    return msgspec.convert(plain, Setup)

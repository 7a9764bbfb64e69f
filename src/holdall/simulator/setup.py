"""What one run consists of, as plain values: enough to do it again, message by message."""

import msgspec

from holdall.simulator.faults import Faults
from holdall.simulator.network import Delays
from holdall.simulator.workload import Workload

DELAY_MS = 1000
"""Milliseconds of virtual time in one mean message delay: a simulated hour is 3,600 mean delays."""
RHO_MAX = 0.02
"""Clock rates err by so much at most: what leases are safe for."""


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
    leases: bool = False
    """Leases are renewed and run out, and messages repeated, also where no fault is drawn."""
    patience: float = 6.0
    """How long a claim waits before it lends what it has, or asks others to let it pass."""

    claims: int | None = None
    """Clients begin so many claims in all, and no more; None: as many as `duration` has room for."""
    delays: Delays = Delays()
    rho: float = 0.0
    """Each host's clock goes up to this share too fast or too slow."""

    parks: bool = True
    """Ring token: whether it rests while nobody waits for it."""

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
        if self.claims is not None and self.claims < 1:
            raise ValueError("claims is a number from 1")
        if not 0 <= self.rho <= RHO_MAX:
            raise ValueError(f"rho, the error of clock rates, is 0 to {RHO_MAX}")

    @property
    def repairs(self) -> bool:
        """Whether messages can get lost, so that leases and repair timers matter."""
        return self.faults.any() or self.leases

    @property
    def ttl_ms(self) -> int:
        """The ttl asked for. Without faults it is far away, so that no renewal disturbs the counts."""
        return int(self.ttl * DELAY_MS) if self.repairs else 1_000_000_000

    @property
    def sweep_ms(self) -> int:
        """Ends of claims are remembered for one to two of these spans.

        That is longer than a host stands still, and than any message of such a claim is under way.
        """
        return int(2 * self.ttl * DELAY_MS)


def to_plain(setup: Setup) -> dict[str, object]:
    """For the header of a trace."""
    plain: dict[str, object] = msgspec.to_builtins(setup)
    return plain


def from_plain(plain: object) -> Setup:
    """The setup of a trace's header. Raises msgspec.ValidationError."""
    return msgspec.convert(plain, Setup)

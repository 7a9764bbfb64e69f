"""Hard ends: one timer a lease that has one, at `for` (1 + rho) after this node learned that it is granted."""

from collections.abc import Mapping

from holdall.leases.records import PREFIX, LeaseRecord
from holdall.machine.contract import CancelTimer, ClockRead, SetTimer
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId

HARD_END_TIMER = PREFIX + "end/"


class HardEnds:
    """Which leases have a hard end, and what the node's clocks showed when the turn began.

    Without a reading of the clock since the lease's boot (just after a restart, or in a world without clocks) the
    whole `for` counts from now: late, never early; the next reading shortens it.
    """

    def __init__(self, rho_ppm: int) -> None:
        self.wall_ms = 0
        self.boot_ms = 0
        self._rho_ppm = rho_ppm
        self._claims: dict[str, ClaimId] = {}
        self._unknown = False
        """Some timer was set without a clock."""

    def clock(self, read: ClockRead, leases: Mapping[tuple[ClaimId, int], LeaseRecord], out: Effects) -> None:
        """A reading of both clocks; timers that were set without one are set again."""
        self.wall_ms, self.boot_ms = read.wall_ms, read.boot_ms
        if self._unknown:
            self._unknown = False
            for party in sorted(leases):
                if leases[party].active:
                    self.begin(leases[party], out)

    def begin(self, record: LeaseRecord, out: Effects) -> None:
        """Set the lease's timer, or set it anew after `for` has changed."""
        if record.terms.for_ms is None:
            return
        self._unknown = self._unknown or not self.wall_ms
        timer = f"{HARD_END_TIMER}{record.claim}/{record.attempt}"
        self._claims[timer] = record.claim
        left_ms = record.terms.for_ms - self.elapsed_ms(record.since_wall_ms, record.since_boot_ms)
        out.append(SetTimer(timer, max(0, left_ms) * (1_000_000 + self._rho_ppm) // 1_000_000))

    def finish(self, record: LeaseRecord, out: Effects) -> None:
        """The lease is over: its timer, too."""
        if not self._claims:
            return
        timer = f"{HARD_END_TIMER}{record.claim}/{record.attempt}"
        if self._claims.pop(timer, None) is not None:
            out.append(CancelTimer(timer))

    def claim_of(self, timer: str) -> ClaimId | None:
        """Whose end this timer is; None when that lease is over."""
        return self._claims.get(timer)

    def elapsed_ms(self, since_wall_ms: int, since_boot_ms: int) -> int:
        """Time since these readings, 0 when it can't be known.

        CLOCK_BOOTTIME counts unless it has begun anew (another boot); only then the wall clock serves.
        """
        if not self.wall_ms or not since_wall_ms:
            return 0
        if since_boot_ms and self.boot_ms >= since_boot_ms:
            return self.boot_ms - since_boot_ms
        return max(0, self.wall_ms - since_wall_ms)

    def copy(self) -> "HardEnds":
        """An independent twin."""
        twin = HardEnds(self._rho_ppm)
        twin.wall_ms, twin.boot_ms, twin._unknown = self.wall_ms, self.boot_ms, self._unknown
        twin._claims = dict(self._claims)
        return twin

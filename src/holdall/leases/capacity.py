"""The leases of one capacity on its host: granted, used, over, drained. A holder has one at a time.

A lease that is over admits nothing more. What it admitted before is finished at the rate that was granted, and counts as
used until then, or until it has lingered for its duration (30 s at most) and is cut. Source: lease negotiation,
sections 4.5, 7.1 and 8.1.

Instants are milliseconds of the host's clock; each call looks first what is over by then, so no answer depends on when a
timer fires.
"""

from heapq import heappop, heappush
from typing import Literal, TypeAlias

import msgspec

from holdall.leases.shares import Shares, Wanted

PPM = 1_000_000
LINGER_MS_MAX = 30_000


class Leased(msgspec.Struct, frozen=True, tag=True):
    """The holder has so much from now on, for so long by the host's clock."""

    lease: str
    granted: int
    remaining_ms: int


class Declined(msgspec.Struct, frozen=True, tag=True):
    """Nothing, or less than the floor, is to be had now; the demand is remembered for one duration."""

    best_possible: int
    retry_after_ms: int
    """Until the first lease that lives now is over."""


class Over(msgspec.Struct, frozen=True):
    """A lease has come to its end."""

    holder: str
    lease: str
    how: Literal["expired", "released", "cut"]
    """`cut`: work that it had admitted is not done yet and must stop."""


Outcome: TypeAlias = Leased | Declined


class _Lease(msgspec.Struct):
    name: str
    holder: str
    duration_ms: int
    ends_ms: int
    """Of its life, then of its linger."""
    draining: bool = False
    works: int = 0
    """Admitted and not done."""


class CapacityBook:
    """Who has a lease of the capacity that `shares` divides.

    `rho_ppm`: how wrong clocks may go, in millionths; a lease lives so much longer here than its holder counts.
    `linger_ms`: how long admitted work may go on after the end; None: for the lease's duration, 30 s at most.
    """

    def __init__(self, shares: Shares, *, rho_ppm: int = 0, linger_ms: int | None = None) -> None:
        self.shares = shares
        self.denied: dict[str, int] = {}
        """By holder: uses that had no lease."""
        self._rho_ppm, self._linger_ms = rho_ppm, linger_ms
        self._leases: dict[str, _Lease] = {}
        self._active: dict[str, str] = {}
        """Holder to lease."""
        self._ends: list[tuple[int, str]] = []
        self._counter = 0
        self._over: list[Over] = []

    # ------------------------------------------------------------ holders

    def ask(self, holder: str, wanted: Wanted, *, duration_ms: int, now_ms: int, floor: int = 1) -> Outcome:
        """A lease for one who has none, or the renewal of the one it has, which stays as it is when this is declined.

        A declined renewal of a living lease is no loss: `Declined` tells how long it still lives, at most. Raises ValueError
        for an amount, a weight or a duration of nothing.
        """
        if duration_ms < 1:
            raise ValueError(f"a lease lasts 1 ms or more, not {duration_ms}")
        self._pass(now_ms)
        known = self._active.get(holder)
        if known is None:
            return self._begin(holder, wanted, duration_ms, now_ms, floor)
        lease = self._leases[known]
        granted = self.shares.renew(known, wanted, now_ms=now_ms, floor=floor)
        if not granted:
            return Declined(0, self._first_end_ms(now_ms) - now_ms)
        lease.duration_ms = duration_ms
        self._set_end(lease, now_ms + self._with_margin(duration_ms))
        return Leased(known, granted, lease.ends_ms - now_ms)

    def release(self, holder: str, now_ms: int) -> None:
        """Its lease is over, if it has one, and its demand is not remembered."""
        self._pass(now_ms)
        known = self._active.pop(holder, None)
        if known is None:
            return
        lease = self._leases[known]
        self.shares.release(known, draining=lease.works > 0)
        self._over.append(Over(holder, known, "released"))
        self._drain_or_end(lease, now_ms)

    # ------------------------------------------------------------ uses

    def active(self, holder: str, now_ms: int) -> str | None:
        """The lease that lives at this instant."""
        self._pass(now_ms)
        return self._active.get(holder)

    def admit(self, holder: str, now_ms: int) -> str | None:
        """A piece of work begins under the holder's lease, which is named; None: denied, and counted."""
        lease = self.active(holder, now_ms)
        if lease is None:
            self.denied[holder] = self.denied.get(holder, 0) + 1
            return None
        self._leases[lease].works += 1
        return lease

    def done(self, lease: str, now_ms: int) -> None:
        """A piece of admitted work is done. After a cut this is no news."""
        self._pass(now_ms)
        known = self._leases.get(lease)
        if known is None:
            return
        known.works -= 1
        if known.draining and not known.works:
            del self._leases[lease]
            self.shares.drained(lease)

    # ------------------------------------------------------------ time

    def passed(self, now_ms: int) -> list[Over]:
        """What has come to its end since the last call, in order."""
        self._pass(now_ms)
        over, self._over = self._over, []
        return over

    def due_ms(self) -> int | None:
        """When `passed` will have news at the earliest, unless something is done before."""
        while self._ends and not self._is_end(*self._ends[0]):
            heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    # ------------------------------------------------------------ inside

    def _begin(self, holder: str, wanted: Wanted, duration_ms: int, now_ms: int, floor: int) -> Outcome:
        name = f"L-{self._counter + 1}"
        best = 0 if floor <= 1 else self.shares.best(holder, wanted, now_ms=now_ms)
        granted = self.shares.ask(holder, name, wanted, now_ms=now_ms, duration_ms=duration_ms, floor=floor)
        if not granted:
            return Declined(best, self._first_end_ms(now_ms) - now_ms)
        self._counter += 1
        lease = _Lease(name, holder, duration_ms, 0)
        self._leases[name] = lease
        self._active[holder] = name
        self._set_end(lease, now_ms + self._with_margin(duration_ms))
        return Leased(name, granted, lease.ends_ms - now_ms)

    def _with_margin(self, duration_ms: int) -> int:
        return duration_ms + -(-duration_ms * self._rho_ppm // PPM)

    def _set_end(self, lease: _Lease, ends_ms: int) -> None:
        lease.ends_ms = ends_ms
        heappush(self._ends, (ends_ms, lease.name))

    def _is_end(self, ends_ms: int, name: str) -> bool:
        return name in self._leases and self._leases[name].ends_ms == ends_ms

    def _first_end_ms(self, now_ms: int) -> int:
        """Never before the next millisecond, also where nothing lives that could end."""
        due_ms = self.due_ms()
        return now_ms + 1 if due_ms is None else max(due_ms, now_ms + 1)

    def _pass(self, now_ms: int) -> None:
        while (due_ms := self.due_ms()) is not None and due_ms <= now_ms:
            lease = self._leases[heappop(self._ends)[1]]
            if lease.draining:
                del self._leases[lease.name]
                self.shares.drained(lease.name)
                self._over.append(Over(lease.holder, lease.name, "cut"))
                continue
            del self._active[lease.holder]
            # What is remembered and how long work lingers count from the end, not from when somebody looked.
            self.shares.expire(
                lease.name, now_ms=due_ms, duration_ms=lease.duration_ms, draining=lease.works > 0
            )
            self._over.append(Over(lease.holder, lease.name, "expired"))
            self._drain_or_end(lease, due_ms)

    def _drain_or_end(self, lease: _Lease, now_ms: int) -> None:
        if not lease.works:
            del self._leases[lease.name]
            return
        lease.draining = True
        default_ms = min(lease.duration_ms, LINGER_MS_MAX)
        self._set_end(lease, now_ms + (default_ms if self._linger_ms is None else self._linger_ms))

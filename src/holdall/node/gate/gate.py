"""The gate of a host's link: who may send how fast, by the leases of its capacity, under one root bucket.

Each holder has a way out. It is open while the holder has a lease by this host's clock, and as fast as what was granted.
Those without a lease share one way more, which has what is granted to nobody and sends whole messages in the order in which
they came. Source: lease negotiation, section 8.1.
"""

import asyncio
from collections.abc import Callable

import msgspec

from holdall.leases.buckets import NS, Bucket, depth_for, quantum_for
from holdall.leases.capacity import CapacityBook, Leased, Outcome
from holdall.leases.shares import Wanted
from holdall.leases.windows import BusiestWindow
from holdall.node.clock import boottime_ns
from holdall.node.gate.way import Figures, Way

MS_NS = 1_000_000


class Denied(PermissionError):
    """There is no lease by this host's clock."""


class Change(msgspec.Struct, frozen=True):
    """What a holder has from an instant on."""

    at_ms: int
    """Since the gate was made."""
    holder: str
    granted: int
    """0: nothing any more, given back or over, and no work of it goes on."""


class Passage:
    """A piece of work that was admitted. It may be finished after its lease is over, until it is cut."""

    def __init__(self, way: Way, lease: str | None) -> None:
        self.way, self.lease = way, lease
        self.cut = False
        self.when_cut: Callable[[], None] = _nothing
        """What else must stop, for work that may wait for something other than its way."""

    async def leave(self, most: int) -> int:
        """As `Way.leave`; the caller has the way's turn."""
        return await self.way.leave(most, may=lambda: not self.cut)


def _nothing() -> None:
    """Nothing else waits."""


class Gate:
    """All ways out of a host, and the leases that open them. Made inside a running loop; `close` ends its timer.

    `changed` is told whenever what a holder has changes.
    """

    def __init__(
        self,
        book: CapacityBook,
        *,
        clock_ns: Callable[[], int] = boottime_ns,
        changed: Callable[[Change], None] | None = None,
    ) -> None:
        self.book, self.clock_ns = book, clock_ns
        self._changed = changed
        capacity = book.shares.capacity
        self.quantum = quantum_for(capacity)
        self.root = Bucket(capacity, depth_for(capacity, self.quantum))
        self.late_ms = 0
        self.busiest = BusiestWindow(NS)
        self.unleased = Way(self, "", capacity)
        self._ways: dict[str, Way] = {}
        self._admitted: dict[str, set[Passage]] = {}
        """By lease."""
        self._having: set[str] = set()
        """Holders whose last change was to something."""
        self._began_ms = self._now_ms()
        self._timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ leases

    def ask(self, holder: str, wanted: Wanted, *, duration_ms: int, floor: int = 1) -> Outcome:
        """A lease, or the renewal of the one there is."""
        outcome = self.book.ask(holder, wanted, duration_ms=duration_ms, now_ms=self._now_ms(), floor=floor)
        granted = outcome.granted if isinstance(outcome, Leased) else 0
        if granted:
            self.way(holder).change(granted)
            self._note(holder, granted)
        self._settle()
        return outcome

    def release(self, holder: str) -> None:
        """Its lease is over, if it has one."""
        self.book.release(holder, self._now_ms())
        self._settle()

    # ------------------------------------------------------------ sending

    def way(self, holder: str) -> Way:
        """The holder's own, made when it is first asked for."""
        if holder not in self._ways:
            self._ways[holder] = Way(self, holder, 0)
        return self._ways[holder]

    def is_open(self, holder: str) -> bool:
        """Whether the holder has a lease at this instant."""
        return self.book.active(holder, self._now_ms()) is not None

    def figures(self, holder: str) -> Figures:
        """Of a holder's way; `""` is that of all who have no lease."""
        way = self.way(holder) if holder else self.unleased
        return way.figures(self.book.denied.get(holder, 0))

    def try_open(self, holder: str) -> bool:
        """As `is_open`, for something new that comes: a no is counted as a use that was denied."""
        lease = self.book.admit(holder, self._now_ms())
        if lease is not None:
            self.book.done(lease, self._now_ms())
        return lease is not None

    def admit(self, holder: str | None) -> Passage:
        """A piece of work begins; the caller says `done` when its last byte has left. None: without a lease.

        Raises Denied when the holder has no lease; that is counted.
        """
        if holder is None:
            return Passage(self.unleased, None)
        lease = self.book.admit(holder, self._now_ms())
        self._settle()
        if lease is None:
            raise Denied(f"{holder} has no lease that is valid now: ask for one, or renew it")
        passage = Passage(self.way(holder), lease)
        self._admitted.setdefault(lease, set()).add(passage)
        return passage

    def done(self, passage: Passage) -> None:
        """Its last byte has left, or it was given up."""
        if passage.lease is None or passage not in self._admitted.get(passage.lease, ()):
            return
        self._admitted[passage.lease].discard(passage)
        if not self._admitted[passage.lease]:
            del self._admitted[passage.lease]
        self.book.done(passage.lease, self._now_ms())
        self._settle()
        self._note_when_nothing_is_left(passage.way.holder)

    def close(self) -> None:
        """No timer goes on. Whoever is sending is not touched."""
        if self._timer is not None:
            self._timer.cancel()

    # ------------------------------------------------------------ inside

    def _now_ms(self) -> int:
        return self.clock_ns() // MS_NS

    def _note(self, holder: str, granted: int) -> None:
        if self._changed is not None:
            self._changed(Change(self._now_ms() - self._began_ms, holder, granted))
        (self._having.add if granted else self._having.discard)(holder)

    def _note_when_nothing_is_left(self, holder: str) -> None:
        """What drains is used: a lease that is over counts until its last admitted work is done."""
        if holder in self._having and not self.book.shares.has(holder):
            self.way(holder).ended()
            self._note(holder, 0)

    def _settle(self) -> None:
        """What is over by now stops; what is granted to nobody is the unleased way's; wake at the next end."""
        for over in self.book.passed(self._now_ms()):
            if over.how == "cut":
                for passage in self._admitted.pop(over.lease, set()):
                    passage.cut = True
                    passage.when_cut()
            self._note_when_nothing_is_left(over.holder)
            self.way(over.holder).stir()
        self.unleased.change(self.book.shares.free)
        self.close()
        due_ms = self.book.due_ms()
        if due_ms is not None:
            seconds = (due_ms * MS_NS - self.clock_ns()) / NS
            self._timer = asyncio.get_running_loop().call_later(max(0.0, seconds), self._settle)

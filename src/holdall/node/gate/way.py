"""One way out of a host: pieces of one holder's bytes, paced, in the order in which they asked.

Source: lease negotiation, section 8.1.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from holdall.leases.buckets import NS, Bucket, depth_for, quantum_for
from holdall.leases.meter import Meter
from holdall.leases.windows import BusiestWindow
from holdall.model.terms import Guarantee, TermState, Usage


class Cut(ConnectionError):
    """Admitted work was not done when its lease had lingered long enough: it sends nothing more."""


class Main(Protocol):
    """What all ways out of one capacity have in common. `late_ms`: so long after it was let go a piece may still leave."""

    root: Bucket
    quantum: int
    busiest: BusiestWindow
    clock_ns: Callable[[], int]
    late_ms: int


def depth_within(rate: int, late_ms: int) -> int:
    """Of a bucket whose bytes may leave so late, so that over any window no more leave than `depth_for` allows."""
    quantum = quantum_for(rate)
    return max(quantum, depth_for(rate, quantum) - rate * late_ms // 1_000)


class Figures(msgspec.Struct, frozen=True):
    """What a holder has used of the link, and whether it had what was granted."""

    used: Usage
    state: TermState
    guarantee: Guarantee
    violated_s: int
    """Seconds in which it wanted all that was granted, and had less than 95 % of it."""
    denied: int
    """Uses without a lease."""
    waiting: int
    """Bytes that were admitted and have not left."""


class Way:
    """One way out, paced. Pieces of one way go in the order in which they asked."""

    def __init__(self, main: Main, holder: str, rate: int) -> None:
        self.holder = holder
        self.sent = 0
        """Bytes so far."""
        self.turn = asyncio.Lock()
        """Held by whoever sends a whole message, or one piece of a stream."""
        self._main = main
        self._bucket = Bucket(rate, depth_within(rate, main.late_ms), root=main.root)
        self._meter = Meter(rate, main.clock_ns())
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def rate(self) -> int:
        """Bytes a second."""
        return self._bucket.rate

    @property
    def quantum(self) -> int:
        """The most bytes of one piece."""
        return min(quantum_for(self._bucket.rate), self._main.quantum)

    def offer(self, size: int) -> None:
        """So many bytes are here and wait; then `leave` as often as needed, or `give_up`."""
        self._meter.offered(size, self._main.clock_ns())

    def give_up(self, size: int) -> None:
        """So many of them will not leave."""
        if size:
            self._meter.given_up(size, self._main.clock_ns())

    async def leave(self, most: int, *, may: Callable[[], bool]) -> int:
        """Return how many bytes may leave now, 1 to `most`; the caller, which has the turn, sends so many at once.

        `may` is asked in the same instant. Raises Cut when it says no.
        """
        while True:
            if not may():
                raise Cut(f"the lease of {self.holder} is over, and its time to finish, too")
            # The rate may be another one after a wait, and with it what can leave at once.
            size = min(most, self.quantum)
            now_ns = self._main.clock_ns()
            wait_ns = self._bucket.take(size, now_ns)
            if wait_ns == 0:
                self.sent += size
                self._main.busiest.sent(now_ns, size)
                self._meter.left(size, now_ns)
                return size
            await self.stirred(None if wait_ns is None else wait_ns / NS)

    def put_back(self, size: int, *, is_late: bool = False) -> None:
        """Of what was let go so much has not been sent after all: it may be let go again, unless that comes late."""
        now_ns = self._main.clock_ns()
        self.sent -= size
        if not is_late:
            self._bucket.put_back(size, now_ns)
        self._main.busiest.sent(now_ns, -size)
        self._meter.came_back(size, now_ns)

    async def stirred(self, seconds: float | None = None) -> None:
        """Return when the way has changed, or after so long."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=seconds)
        finally:
            self._waiters.discard(waiter)

    def stir(self) -> None:
        """Whoever waits looks again: the rate or the lease has changed."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def change(self, rate: int) -> None:
        """As fast as this from now on."""
        if rate != self._bucket.rate:
            depth = depth_within(rate, self._main.late_ms)
            self._bucket.change(self._main.clock_ns(), rate=rate, depth=depth)
        self._meter.grants(rate, self._main.clock_ns())
        self.stir()

    def ended(self) -> None:
        """Nothing is granted any more."""
        self._meter.grants(0, self._main.clock_ns())

    def figures(self, denied: int) -> Figures:
        """Until now."""
        used, state, guarantee = self._meter.status(self._main.clock_ns())
        return Figures(used, state, guarantee, self._meter.violated_s, denied, self._meter.waiting)

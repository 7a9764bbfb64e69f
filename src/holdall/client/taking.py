"""What may leave under a negotiated lease, taken piece by piece from the gate of this host's node.

All who send under leases of the node take from there, so all together keep to what is granted. What has come too late to be
sent is put back with the next question. As `Paced` and `Opens` of a forwarding port.
"""

import asyncio
from collections.abc import Callable

from holdall.client.conversation import Conversation
from holdall.guardian.clock import boottime_ms
from holdall.leases.buckets import quantum_for
from holdall.model import frames
from holdall.model.errors import Unreachable
from holdall.node.clock import boottime_ns
from holdall.node.gate.way import Cut

AGAIN_S = 0.1
DENIED_MAX = 1 << 20
PIECE_BYTES_MAX = 1 << 20


class TakenWay:
    """The way out of one capacity of one lease. `converse` is asked for a connection of its own."""

    def __init__(self, converse: Callable[[], Conversation], lease: str, term: str) -> None:
        self.lease, self.term = lease, term
        self.turn = asyncio.Lock()
        self.until_ms = 0
        """The holder's deadline, on CLOCK_BOOTTIME."""
        self._converse = converse
        self._conversation: Conversation | None = None
        self._rate = 0
        self._unused = self._denied = 0
        self._waiters: set[asyncio.Future[None]] = set()
        self._ends: asyncio.TimerHandle | None = None

    @property
    def quantum(self) -> int:
        """The most bytes of one piece."""
        return quantum_for(self._rate)

    # ------------------------------------------------------------ the lease

    def grant(self, rate: int, until_ms: int) -> None:
        """So much may leave a second, until then."""
        self._rate, self.until_ms = rate, max(self.until_ms, until_ms)
        if self._ends is not None:
            self._ends.cancel()
        left_s = max(0, self.until_ms - boottime_ms()) / 1000
        self._ends = asyncio.get_running_loop().call_later(left_s, self._stir)
        self._stir()

    def way(self, holder: str) -> "TakenWay":
        """There is one."""
        del holder
        return self

    def is_open(self, holder: str = "") -> bool:
        """Whether there is a lease at this instant."""
        del holder
        return boottime_ms() < self.until_ms

    def try_open(self, holder: str) -> bool:
        """The same for a new connection: a no is told to the node as a use that was denied."""
        if not self.is_open(holder):
            self._denied = min(self._denied + 1, DENIED_MAX)
        return self.is_open(holder)

    # ------------------------------------------------------------ sending

    def offer(self, size: int) -> None:
        """The node is told with each question."""

    def give_up(self, size: int) -> None:
        """The node is told with each question."""

    async def leave(self, most: int, *, may: Callable[[], bool]) -> int:
        """How many bytes may leave now; the caller, which has the turn, sends so many at once. Raises Cut when `may` says no.

        While the node is away nothing leaves: nobody else knows what others send.
        """
        while may():
            asked_ns = boottime_ns()
            try:
                taken = await self._take(min(most, self.quantum, PIECE_BYTES_MAX))
            except Unreachable:
                self.close()
                await self.stirred(AGAIN_S)
                continue
            late_us = (boottime_ns() - asked_ns) // 1000 - taken.waited_us
            if taken.size and late_us < frames.BYTES_LATE_MS * 1000 and may():
                return taken.size
            self._unused = taken.size
            if not taken.size:
                await self.stirred(AGAIN_S)
        raise Cut(f"lease {self.lease} is over")

    async def tell_denied(self) -> None:
        """Uses that were denied and have not been told yet."""
        if self._denied and not self.turn.locked():
            async with self.turn:
                await self._take(0)

    async def stirred(self, seconds: float | None = None) -> None:
        """Return when rate or deadline have changed, or after so long."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=seconds)
        finally:
            self._waiters.discard(waiter)

    def close(self) -> None:
        """The connection ends; the next question makes another one."""
        if self._ends is not None:
            self._ends.cancel()
        if self._conversation is not None:
            self._conversation.close()
            self._conversation = None

    # ------------------------------------------------------------ inside

    def _stir(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _take(self, size: int) -> frames.BytesTaken:
        unused, denied = self._unused, self._denied
        answer = await asyncio.to_thread(self._ask, size, unused, denied)
        self._unused = 0
        self._denied -= denied
        return answer

    def _ask(self, size: int, unused: int, denied: int) -> frames.BytesTaken:
        """In a thread: the conversation blocks. Raises Unreachable."""
        if self._conversation is None:
            self._conversation = self._converse()
        node = self._conversation
        answer = node.ask(frames.TakeBytes(node.number(), self.lease, self.term, size, unused, denied))
        if not isinstance(answer, frames.BytesTaken):
            raise Unreachable(f"{node.where} gave an unexpected answer ({type(answer).__name__})")
        return answer

"""What may leave under a negotiated lease, taken piece by piece from the gate of this host's node.

All who send under leases of the node take from there, so all together keep to what is granted. What has come too late to be
sent is put back with the next question. `TakenWay` is as `Paced` and `Opens` of a forwarding port.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from holdall.client.conversation import Conversation
from holdall.guardian.clock import boottime_ms
from holdall.leases.buckets import quantum_for
from holdall.model import frames
from holdall.model.errors import BadSpec, Unreachable
from holdall.model.terms import COMMAND_TERMS, LeaseDocument, TermStatus
from holdall.node.clock import boottime_ns
from holdall.node.gate.way import Cut

AGAIN_S = 0.1
END_S = 1.0
"""A node that does not answer for so long learns less of what was denied."""
DENIED_MAX = 1 << 20
PIECE_BYTES_MAX = 1 << 20
_COMMAND = "holdall location request … -- COMMAND"

Converse = Callable[[], Conversation]


class Piece(msgspec.Struct, frozen=True):
    """So much may leave until this instant of CLOCK_BOOTTIME. 0: nothing now."""

    size: int
    until_ns: int


class Taker:
    """Asks the node, one question at a time, from any thread. `converse` is asked for a connection of its own."""

    def __init__(
        self, converse: Converse, lease: str, term: str, *, clock_ns: Callable[[], int] = boottime_ns
    ) -> None:
        self.lease, self.term, self.clock_ns = lease, term, clock_ns
        self._converse = converse
        self._conversation: Conversation | None = None
        self._unused = self._denied = 0

    def take(self, size: int) -> Piece:
        """As much of this as may leave now, or nothing after a while. Raises Unreachable: then nothing may."""
        asked_ns = self.clock_ns()
        question = self._unused, self._denied
        try:
            answer = self._ask(size, *question)
        except BaseException:
            # Interrupted between question and answer a connection is of no use any more.
            self.close()
            raise
        self._unused, self._denied = 0, self._denied - question[1]
        return Piece(answer.size, asked_ns + answer.waited_us * 1000 + frames.BYTES_LATE_MS * 1_000_000)

    def is_late(self, piece: Piece) -> bool:
        """It may not leave any more."""
        return self.clock_ns() >= piece.until_ns

    def put_back(self, size: int) -> None:
        """Of the last piece so much has not left. The node learns it with the next question."""
        self._unused += size

    def deny(self) -> None:
        """A use came without a lease. The node learns it with the next question."""
        self._denied = min(self._denied + 1, DENIED_MAX)

    def tell(self) -> None:
        """What the node has not learned yet. Nothing is taken. Raises Unreachable."""
        if self._unused or self._denied:
            self.take(0)

    def close(self) -> None:
        """The connection ends, also for a question under way, from any thread; the next question makes another one."""
        conversation, self._conversation = self._conversation, None
        self._unused = 0
        if conversation is not None:
            conversation.break_off()

    def _ask(self, size: int, unused: int, denied: int) -> frames.BytesTaken:
        if self._conversation is None:
            self._conversation = self._converse()
        node = self._conversation
        answer = node.ask(frames.TakeBytes(node.number(), self.lease, self.term, size, unused, denied))
        if not isinstance(answer, frames.BytesTaken):
            raise Unreachable(f"the node gave an unexpected answer ({type(answer).__name__})")
        return answer


class TakenWay:
    """The way out of one capacity of one lease, on an event loop."""

    def __init__(self, taker: Taker) -> None:
        self.taker = taker
        self.turn = asyncio.Lock()
        self.until_ms = 0
        """The holder's deadline, on CLOCK_BOOTTIME."""
        self._rate = 0
        self._asking: asyncio.Task[Piece] | None = None
        """The question under way. Who asked may have been cancelled: its answer is the next one's."""
        self._waiters: set[asyncio.Future[None]] = set()
        self._ends: asyncio.TimerHandle | None = None

    @property
    def quantum(self) -> int:
        """The most bytes of one piece."""
        return min(quantum_for(self._rate), PIECE_BYTES_MAX)

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
            self.taker.deny()
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
            try:
                piece = await self._piece(min(most, self.quantum))
            except Unreachable:
                await self.stirred(AGAIN_S)
                continue
            if piece is None:
                continue
            size = min(most, piece.size)
            if size and not self.taker.is_late(piece) and may():
                self.taker.put_back(piece.size - size)
                return size
            self.taker.put_back(piece.size)
            if not piece.size:
                await self.stirred(AGAIN_S)
        raise Cut(f"lease {self.taker.lease} is over")

    async def tell(self) -> None:
        """Uses that were denied. Nobody waits for it who sends, as then it is told anyway. Raises Unreachable."""
        if self._asking is None and not self.turn.locked():
            async with self.turn:
                await asyncio.to_thread(self.taker.tell)

    async def end(self) -> None:
        """As `close`, and before it the node learns what was denied, and what has not left. Nobody may send by now."""
        asking, self._asking = self._asking, None
        if asking is not None and not asking.done():
            # What it would bring the node puts back by itself, as nobody is there any more.
            self.taker.close()
            await asyncio.wait((asking,), timeout=END_S)
        self._stir()
        if asking is None or asking.done():
            async with self.turn:
                if asking is not None and asking.exception() is None:
                    self.taker.put_back(asking.result().size)
                telling = asyncio.ensure_future(asyncio.to_thread(self.taker.tell))
                telling.add_done_callback(_heard)
                await asyncio.wait((telling,), timeout=END_S)
        self.close()

    async def stirred(self, seconds: float | None = None) -> None:
        """Return when rate or deadline have changed, or after so long."""
        await self._stirred_or(seconds)

    def close(self) -> None:
        """The connection ends, and with it what was asked; the next question makes another one."""
        if self._ends is not None:
            self._ends.cancel()
        self.taker.close()
        self._stir()

    # ------------------------------------------------------------ inside

    def _stir(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _piece(self, size: int) -> Piece | None:
        """An answer; None: the way was stirred before it came. Raises Unreachable."""
        if self._asking is None:
            self._asking = asyncio.ensure_future(asyncio.to_thread(self.taker.take, size))
            self._asking.add_done_callback(_heard)
        await self._stirred_or(None, self._asking)
        if not self._asking.done():
            return None
        asking, self._asking = self._asking, None
        return asking.result()

    async def _stirred_or(self, seconds: float | None, *also: "asyncio.Task[Piece]") -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            first: list[asyncio.Future[Any]] = [waiter, *also]
            await asyncio.wait(first, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiters.discard(waiter)


def rate_of(document: LeaseDocument, term: str) -> TermStatus:
    """The capacity of that name, in bytes per second; for an empty name the only one of these. Raises BadSpec."""
    found = {one.name: one for one in document.terms if _is_rate(one)}
    if term in found:
        return found[term]
    if not term and len(found) == 1:
        return next(iter(found.values()))
    has = ", ".join(found) or "none"
    if not term:
        raise BadSpec(
            f"lease {document.lease} has several rates, or none ({has}). Say which (on the command line: --term NAME)"
        )
    if not any(one.name == term for one in document.terms):
        raise BadSpec(f"lease {document.lease} has no term {term[:64]!r}. Rates of it: {has}")
    how = f"; to hold a command to {term}: {_COMMAND}" if term in COMMAND_TERMS else ""
    raise BadSpec(
        f"{term} is no rate: a gate, as a proxy, paces what is sent, in bytes per second. "
        f"Rates of lease {document.lease}: {has}{how}"
    )


def _is_rate(status: TermStatus) -> bool:
    """Of a capacity without a unit it is not known; the names of what commands are held to have one meaning everywhere."""
    is_known = status.unit == "B/s" or (not status.unit and status.name not in COMMAND_TERMS)
    return status.kind == "capacity" and is_known


def _heard(asking: "asyncio.Task[Any]") -> None:
    """Nobody may be there any more to hear of its failure."""
    with contextlib.suppress(asyncio.CancelledError):
        asking.exception()

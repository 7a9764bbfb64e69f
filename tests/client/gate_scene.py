"""A node's gate on a clock that a test moves, and gates of leases that ask it: what leaves is exact, however slow the machine."""

import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from holdall.client.gate import GateFace
from holdall.client.location_tenure import NegotiatedTenure
from holdall.client.taking import Taker
from holdall.guardian.clock import boottime_ms
from holdall.leases.buckets import NS
from holdall.model.errors import Unreachable
from holdall.model.frames import BytesTaken, TakeBytes
from holdall.model.terms import LeaseDocument, TermStatus
from holdall.node.gate.shared import SharedGate
from holdall.parties.location.messages import BytesUsed, Rate

RATE = 100_000
PIECE = 1_500
DEPTH = 3_000
"""At this rate, for bytes that may leave 20 ms late."""
HOUR_MS = 3_600_000
Face = TypeVar("Face", bound=GateFace)


class Town:
    """One lease at one node. Made inside a running loop."""

    def __init__(self) -> None:
        self.now_ns = NS
        self.rate: Rate | None = Rate("h1", RATE, NS // 1_000_000 + HOUR_MS)
        self.told: list[BytesUsed] = []
        self.asked: list[TakeBytes] = []
        self.loop = asyncio.get_running_loop()
        self.after_answer: Callable[[], None] = _nothing
        self.node = SharedGate(self._rate_of, self.told.append, clock_ns=lambda: self.now_ns)
        self._numbers = itertools.count(1)

    def _rate_of(self, user: str, lease: str, term: str) -> Rate | None:
        return self.rate if (user, lease, term) == ("ann", "L-1", "net.tx") else None

    def tenure(self) -> NegotiatedTenure:
        """The lease in the hands of a program."""
        status = TermStatus("net.tx", "capacity", RATE, RATE)
        document = LeaseDocument(
            "L-1", "prague", "h1", 1, "ann", "active", 1, 60_000, "r", (status,), remaining_ms=60_000
        )
        return NegotiatedTenure(document, boottime_ms() + HOUR_MS)

    def gate(self, kind: type[Face], tenure: NegotiatedTenure | None = None) -> Face:
        """One more gate of the lease."""
        name = f"c{next(self._numbers)}"
        talk: Any = Talk(self, name)
        taker = Taker(lambda: talk, "L-1", "net.tx", clock_ns=lambda: self.now_ns)
        return kind(tenure or self.tenure(), taker)

    def passes(self, ms: int) -> None:
        """So much time; whoever waits for credit looks again."""
        self.now_ns += ms * 1_000_000
        for leased in self.node._leased.values():
            leased.way.stir()

    async def quiet(self, questions: int) -> None:
        """Until so many questions wait at the node, the first of them for credit."""

        def all_wait() -> bool:
            waiters = sum(len(leased.way._waiters) for leased in self.node._leased.values())
            return len(self.node._taking) == questions and waiters > 0

        await until(all_wait)

    def sent(self) -> int:
        """What the node has let go and nobody has put back."""
        return sum(leased.way.sent for leased in self.node._leased.values())

    def denied(self) -> int:
        return sum(leased.denied for leased in self.node._leased.values())


class Talk:
    """As a `Conversation` with the node."""

    def __init__(self, town: Town, name: str) -> None:
        self.town, self.name = town, name
        self.number = itertools.count(1).__next__
        self._asking: Any = None

    def ask(self, question: TakeBytes) -> BytesTaken:
        """From any thread but the loop's."""
        self.town.asked.append(question)
        taking = self.town.node.take(self.name, "ann", question)
        self._asking = asyncio.run_coroutine_threadsafe(taking, self.town.loop)
        try:
            answer: BytesTaken = self._asking.result(60)
        except CancelledError:
            raise Unreachable("broken off") from None
        self.town.after_answer()
        return answer

    def break_off(self) -> None:
        self.town.loop.call_soon_threadsafe(self.town.node.closed, self.name)
        if self._asking is not None:
            self._asking.cancel()


class Writer:
    """As much of an `asyncio.StreamWriter` as is used; all write into one log."""

    def __init__(self, log: list[tuple[str, int]], name: str) -> None:
        self.log, self.name = log, name
        self.data = b""
        self.closing = False

    def write(self, data: bytes) -> None:
        self.data += data
        self.log.append((self.name, len(data)))

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def is_closing(self) -> bool:
        return self.closing

    def as_stream(self) -> asyncio.StreamWriter:
        this: Any = self
        stream: asyncio.StreamWriter = this
        return stream


async def until(condition: Callable[[], object]) -> None:
    """Bounded by the test's own minute."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.002)


def _nothing() -> None:
    """Nothing happens between an answer and its use."""

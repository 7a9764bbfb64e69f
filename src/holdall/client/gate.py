"""What a program sends under a lease, paced: `async with lease.gate("net.tx") as gate: await gate.send(writer, data)`.

The gate is the node's: what this program takes there counts in the same buckets as what all others send under the lease.
Source: lease negotiation, section 8.1.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self, TypeAlias
from weakref import WeakKeyDictionary

from holdall.client.conversation import Conversation
from holdall.client.link import Link
from holdall.client.location_tenure import NegotiatedTenure
from holdall.client.taking import AGAIN_S, TakenWay, Taker, rate_of
from holdall.guardian.reaching import is_remote
from holdall.leases.buckets import quantum_for
from holdall.model.durations import finite_duration, show_duration
from holdall.model.errors import BadSpec, LeaseLost, NotGranted, NotHolder
from holdall.node.gate.way import Cut

WAITING_MAX = 10_000
Data: TypeAlias = bytes | bytearray | memoryview


class GateFace:
    """What the asyncio gate and the blocking one have in common."""

    def __init__(self, tenure: NegotiatedTenure, taker: Taker) -> None:
        self._tenure, self._taker = tenure, taker
        self._closed = False

    @property
    def rate(self) -> int:
        """What is granted now, in bytes a second. Raises LeaseLost, NotHolder."""
        self._tenure.check()
        if self._closed:
            raise NotHolder(f"this gate of lease {self._tenure.id} is closed. Make another: lease.gate(…)")
        granted = self._tenure.document.term(self._taker.term).granted
        return granted if isinstance(granted, int) else 0

    @property
    def piece(self) -> int:
        """The most that may leave at once, and what one `take` may ask for. Raises LeaseLost, NotHolder."""
        return quantum_for(self.rate)

    def _begin(self, size: int, waiting: int) -> None:
        """Somebody new comes. Raises LeaseLost and NotHolder, which the lease's host is told, BadSpec, NotGranted."""
        try:
            most = self.piece
        except (LeaseLost, NotHolder):
            self._taker.deny()
            raise
        if not 0 < size <= most:
            raise BadSpec(
                f"{size:,} bytes can't leave at once at this rate: take 1 to {most:,}, or send() them"
            )
        if waiting >= WAITING_MAX:
            raise NotGranted(f"{WAITING_MAX:,} wait at this gate already. Send more slowly, or lease more.")

    def _held(self) -> bool:
        """Whether something may leave in this instant."""
        return self._tenure.left_ms() > 0 and not self._closed

    def _not_within(self, wait_ms: int) -> NotGranted:
        return NotGranted(
            f"nothing could leave under lease {self._tenure.id} within {show_duration(wait_ms)}: others have used "
            "its rate, or the node is away. Wait longer, or lease more."
        )


class Gate(GateFace):
    """For the tasks of one loop, which are let through in turn, a piece each. `async with` closes it."""

    def __init__(self, tenure: NegotiatedTenure, taker: Taker) -> None:
        super().__init__(tenure, taker)
        self._way = TakenWay(taker)
        self._waiting = 0
        self._orders: WeakKeyDictionary[asyncio.StreamWriter, asyncio.Lock] = WeakKeyDictionary()

    async def take(self, size: int = 1, *, wait: float | str | None = None) -> None:
        """Return when so many bytes may leave, at most a `piece`; they must, within 20 ms. Who is cancelled has taken nothing.

        Raises NotGranted when it takes longer than `wait`; LeaseLost or NotHolder, with the reason, when the lease is over;
        BadSpec for more than a piece.
        """
        self._begin(size, self._waiting)
        wait_ms = None if wait is None else finite_duration(wait, what="wait")
        try:
            async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                async with self._let(size, least=size):
                    return
        except TimeoutError as problem:
            if wait_ms is None or isinstance(problem, NotGranted):
                raise
            raise self._not_within(wait_ms) from None

    async def send(self, to: asyncio.StreamWriter, data: Data) -> None:
        """Write all of it at the leased rate, in one piece for the receiver: what others send to this writer waits.

        Cancelled, or with LeaseLost in the middle, a part has been sent: close the writer then. Errors as of `take`.
        """
        self._begin(1, self._waiting)
        view = memoryview(data).cast("B")
        async with self._orders.setdefault(to, asyncio.Lock()):
            while view:
                async with self._let(len(view)) as size:
                    if to.is_closing():
                        self._taker.put_back(size)
                        raise ConnectionResetError("the connection has ended; not all was sent")
                    to.write(bytes(view[:size]))
                view = view[size:]
                await to.drain()

    async def close(self) -> None:
        """Nobody is let through any more. What was taken and has not left is put back."""
        self._closed = True
        await self._way.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @asynccontextmanager
    async def _let(self, most: int, *, least: int = 1) -> AsyncGenerator[int]:
        """So many may leave now, in this turn."""
        self._waiting += 1
        try:
            async with self._way.turn:
                yield await self._leave(most, least)
        finally:
            self._waiting -= 1

    async def _leave(self, most: int, least: int) -> int:
        while True:
            self._way.grant(self.rate, self._tenure.until_ms)
            # Cut at a deadline that has moved since, or at the end: then there is no rate any more.
            with suppress(Cut):
                size = await self._way.leave(most, may=self._held)
                if size >= least:
                    return size
                # The node knows of a smaller rate than we do.
                self._taker.put_back(size)
                await self._way.stirred(AGAIN_S)


def taker_of(link: Link, tenure: NegotiatedTenure, term: str) -> Taker:
    """From this hub's node. Raises BadSpec for a term that is no rate of the lease or a node elsewhere, LeaseLost, NotHolder."""
    tenure.check()
    if is_remote(link.where):
        raise BadSpec(
            f"a gate is kept by a node on the host that sends, and {link.where} is elsewhere. Connect to a node here."
        )
    status = rate_of(tenure.document, term)
    return Taker(lambda: Conversation(link.where), tenure.id, status.name)

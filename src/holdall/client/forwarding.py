"""Forwards connections at the rate that a negotiated lease grants, for as long as it lives.

The gate of this host's node keeps the rate, for all who send under the lease, and tells the lease's host what was used.
The deadline is the holder's: it counts from before that question was sent which the node has answered last.
Source: lease negotiation, section 8.1.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from holdall.client.conversation import Conversation
from holdall.client.location_talk import LocationTalk
from holdall.client.taking import Converse, TakenWay, Taker, rate_of
from holdall.guardian.clock import boottime_ms
from holdall.model import location_frames as f
from holdall.model.errors import LeaseLost, Unreachable
from holdall.model.terms import LeaseDocument
from holdall.node.gate.stream import StreamPort

Address: TypeAlias = tuple[str, int]

SHARE = 4
"""So often within its duration a lease is said to be used."""
PAUSE_S_MAX = 1.0
"""It is said at least so often, as denied uses are told with it."""
AGAIN_S = 0.2
LINGER_MS_MAX = 30_000


class Change(msgspec.Struct, frozen=True):
    """What is granted from now on, in bytes a second."""

    rate: int
    host: str


class Forwarding:
    """One lease, one port. `told` hears each change of the rate."""

    def __init__(
        self, converse: Converse, lease: str, term: str, told: Callable[[Change], None] | None = None
    ) -> None:
        """`term` empty: the only capacity of the lease."""
        self.lease = lease
        self._converse, self._term, self._told = converse, term, told
        self._conversation: Conversation | None = None
        self._document: LeaseDocument | None = None
        self._rate = 0
        self._way = TakenWay(Taker(converse, lease, term))

    async def run(
        self, listen: Address, to: Address, *, opened: Callable[[Address], None], stop: asyncio.Event
    ) -> None:
        """Until `stop`. Raises LeaseLost when the lease is over, BadSpec for a lease without that rate, OSError for the port.

        Then the lease is given back by the node, as nobody uses it any more.
        """
        port: StreamPort | None = None
        try:
            await self._ask()
            linger_ms = min(LINGER_MS_MAX, self._known().duration)
            port = StreamPort(self._way, holder=self.lease, to=to, linger_s=linger_ms / 1000)
            opened(await port.open(*listen))
            while not stop.is_set():
                await _set_within(stop, self._pause_s())
                await self._go_on(linger_ms)
        finally:
            if port is not None:
                await port.close()
            self._way.close()
            if self._conversation is not None:
                self._conversation.close()

    # ------------------------------------------------------------ inside

    def _known(self) -> LeaseDocument:
        if self._document is None:
            raise LeaseLost(f"lease {self.lease} is not held at this node")
        return self._document

    def _pause_s(self) -> float:
        return min(PAUSE_S_MAX, self._known().duration / 1000 / SHARE)

    async def _go_on(self, linger_ms: int) -> None:
        """Ask once more. A node that is away for a while ends nothing before the deadline and the linger are over."""
        try:
            await self._ask()
            await self._way.tell()
        except Unreachable:
            self._conversation = None
            if boottime_ms() >= self._way.until_ms + linger_ms:
                raise LeaseLost(f"lease {self.lease} is over: it could not be renewed in time") from None
            await asyncio.sleep(AGAIN_S)

    async def _ask(self) -> None:
        asked_ms = boottime_ms()
        held = await asyncio.to_thread(self._hold)
        if held.document is None:
            raise LeaseLost(
                f"lease {self.lease} is over: {held.reason or 'expired'}. Ask anew: holdall location request"
            )
        self._document = held.document
        status = rate_of(held.document, self._term)
        granted = status.granted if isinstance(status.granted, int) else 0
        self._way.taker.term = status.name
        self._way.grant(granted, asked_ms + held.valid_for_ms)
        if not self._way.is_open() and held.valid_for_ms == 0:
            raise LeaseLost(f"lease {self.lease} is over: expired. Ask anew: holdall location request")
        if granted != self._rate:
            self._rate = granted
            if self._told is not None:
                self._told(Change(granted, held.document.host))

    def _hold(self) -> f.HeldLease:
        """In a thread: the conversation blocks. Raises Unreachable."""
        if self._conversation is None:
            self._conversation = self._converse()
        talk = LocationTalk(self._conversation)
        (held,) = talk.expect(f.HoldLeases((self.lease,)), f.Held).leases
        if held.reason == "unknown" and self._document is not None:
            return self._take_up(talk, self._document)
        return held

    def _take_up(self, talk: LocationTalk, known: LeaseDocument) -> f.HeldLease:
        """The node has begun anew and holds it for nobody; its host still knows it, and the node takes it up for us."""
        answer = talk.ask(f.RenewLease(self.lease, known.duration))
        match answer:
            case f.LeaseIs(document):
                return f.HeldLease(self.lease, answer.valid_for_ms, document)
            case f.Over(_, reason):
                return f.HeldLease(self.lease, reason=reason)
            case _:
                return f.HeldLease(self.lease, 0, known)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    """Return when it is set, or after so long."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((waiting,), timeout=seconds)
    finally:
        waiting.cancel()

"""Forwards connections at the rate that a negotiated lease grants, for as long as it lives, and tells its host what was used.

One gate of this process keeps the rate; the lease's host knows of it what is told here. The deadline is the holder's: it
counts from before that question was sent which the node has answered last. Source: lease negotiation, section 8.1.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from holdall.client.conversation import Conversation
from holdall.client.location_talk import LocationTalk
from holdall.guardian.clock import boottime_ms
from holdall.leases.capacity import CapacityBook
from holdall.leases.shares import Shares, Wanted
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.errors import BadSpec, LeaseLost, Unreachable
from holdall.model.quantities import AMOUNT_MAX
from holdall.model.terms import LeaseDocument, TermStatus, TermUse
from holdall.node.gate.gate import Gate
from holdall.node.gate.stream import StreamPort

Address: TypeAlias = tuple[str, int]
Converse: TypeAlias = Callable[[], Conversation]

HOLDER = "lease"
"""This gate has one holder."""
SHARE = 4
"""So often within its duration a lease is said to be used."""
PAUSE_S_MAX = 1.0
"""Figures are told at least so often."""
AGAIN_S = 0.2
LINGER_MS_MAX = 30_000
PPM = 1_000_000


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
        self._until_ms = 0
        """Of the holder, on CLOCK_BOOTTIME."""

    async def run(
        self, listen: Address, to: Address, *, opened: Callable[[Address], None], stop: asyncio.Event
    ) -> None:
        """Until `stop`. Raises LeaseLost when the lease is over, BadSpec for a lease without that rate, OSError for the port.

        Then the lease is given back by the node, as nobody uses it any more.
        """
        # The capacity is the host's to divide; of this process the lease is the only limit.
        gate = Gate(CapacityBook(Shares(AMOUNT_MAX), linger_ms=0))
        port: StreamPort | None = None
        try:
            await self._ask(gate, None)
            linger_ms = min(LINGER_MS_MAX, self._known().duration)
            port = StreamPort(gate, holder=HOLDER, to=to, linger_s=linger_ms / 1000)
            opened(await port.open(*listen))
            while not stop.is_set():
                await _set_within(stop, self._pause_s())
                await self._go_on(gate, port, linger_ms)
        finally:
            if port is not None:
                await port.close()
            gate.close()
            if self._conversation is not None:
                self._conversation.close()

    # ------------------------------------------------------------ inside

    def _known(self) -> LeaseDocument:
        if self._document is None:
            raise LeaseLost(f"lease {self.lease} is not held at this node")
        return self._document

    def _pause_s(self) -> float:
        return min(PAUSE_S_MAX, self._known().duration / 1000 / SHARE)

    async def _go_on(self, gate: Gate, port: StreamPort, linger_ms: int) -> None:
        """Ask once more. A node that is away for a while ends nothing before the deadline and the linger are over."""
        try:
            await self._ask(gate, self._use(gate, port))
        except Unreachable:
            self._conversation = None
            if boottime_ms() >= self._until_ms + linger_ms:
                raise LeaseLost(f"lease {self.lease} is over: it could not be renewed in time") from None
            await asyncio.sleep(AGAIN_S)

    async def _ask(self, gate: Gate, use: TermUse | None) -> None:
        used = () if use is None else (f.LeaseUse(self.lease, (use,)),)
        asked_ms = boottime_ms()
        held = await asyncio.to_thread(self._hold, used)
        if held.document is None:
            raise LeaseLost(
                f"lease {self.lease} is over: {held.reason or 'expired'}. Ask anew: holdall location request"
            )
        self._document = held.document
        status = capacity_of(held.document, self._term)
        self._until_ms = max(self._until_ms, asked_ms + held.valid_for_ms)
        left_ms = self._until_ms - boottime_ms()
        if left_ms <= 0 and held.valid_for_ms == 0:
            raise LeaseLost(f"lease {self.lease} is over: expired. Ask anew: holdall location request")
        granted = status.granted if isinstance(status.granted, int) else 0
        if left_ms > 0 and granted > 0:
            gate.ask(HOLDER, Wanted(granted), duration_ms=left_ms)
        if granted != self._rate:
            self._rate = granted
            if self._told is not None:
                self._told(Change(granted, held.document.host))

    def _hold(self, used: tuple[f.LeaseUse, ...]) -> f.HeldLease:
        """In a thread: the conversation blocks. Raises Unreachable."""
        if self._conversation is None:
            self._conversation = self._converse()
        talk = LocationTalk(self._conversation)
        (held,) = talk.expect(f.HoldLeases((self.lease,), used), f.Held).leases
        if held.reason == "unknown" and self._document is not None:
            return self._renew(talk, self._conversation.welcome, self._document)
        return held

    def _renew(self, talk: LocationTalk, node: frames.Welcome, known: LeaseDocument) -> f.HeldLease:
        """The node has begun anew and holds it for nobody; its host still knows it, and the location renews it for us."""
        if self._until_ms - boottime_ms() > known.duration // 2:
            return f.HeldLease(self.lease, 0, known)
        answer = talk.ask(f.RenewLease(self.lease, known.duration))
        match answer:
            case f.LeaseIs(document):
                valid_ms = document.duration * (PPM - node.rho_ppm) // PPM - node.margin_ms
                return f.HeldLease(self.lease, valid_ms, document)
            case f.Over(_, reason):
                return f.HeldLease(self.lease, reason=reason)
            case _:
                return f.HeldLease(self.lease, 0, known)

    def _use(self, gate: Gate, port: StreamPort) -> TermUse:
        """What has been forwarded so far, for the lease's host. Connections that were refused are uses that were denied."""
        figures = gate.figures(HOLDER)
        name = capacity_of(self._known(), self._term).name
        return TermUse(name, figures.used, figures.state, figures.guarantee, port.refused, figures.violated_s)


def capacity_of(document: LeaseDocument, term: str) -> TermStatus:
    """The capacity of that name; for an empty name the only one. Raises BadSpec."""
    found = {one.name: one for one in document.terms if one.kind == "capacity"}
    if term in found:
        return found[term]
    if not term and len(found) == 1:
        return next(iter(found.values()))
    has = ", ".join(found) or "none"
    if term:
        raise BadSpec(f"lease {document.lease} has no capacity {term[:64]!r}. It has: {has}")
    raise BadSpec(f"lease {document.lease} has several capacities, or none ({has}). Say which: --term NAME")


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    """Return when it is set, or after so long."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((waiting,), timeout=seconds)
    finally:
        waiting.cancel()

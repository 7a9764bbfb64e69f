"""The reliable link of a host: between two lives of two nodes, messages arrive once and in order, or not at all.

All that the parts of a host send to one other node in one turn leaves as one frame; an arrival for part `link` is
unpacked into what the parts are to get, in the same turn. Frames carry acknowledgements, are sent again with doubling
pauses until acknowledged, and count only for the pair of ends that they name. Nothing is saved: after a restart of
either side the protocols repeat what matters.

A peer may send anything. What is no frame, can't be decoded, or is for a part that only its own node may speak to, is
refused and counted, and disturbs nobody else.
"""

from collections.abc import Hashable
from typing import NamedTuple, Self

import msgspec

from holdall.machine.codec import CODEC, Codec, CodecError
from holdall.machine.contract import (
    Address,
    Boot,
    CancelTimer,
    Event,
    Message,
    ProtocolViolation,
    Received,
    SetTimer,
    TimerFired,
)
from holdall.machine.link_frames import BODY_MAX, LinkEnd, LinkFrame, LinkMessage, LinkOpen, Parcel
from holdall.machine.link_orders import AllParts, Shun
from holdall.machine.link_peer import LinkSettings, Peer

LINK = "link"
"""The part that frames come from and go to."""

OPEN_PARTS = frozenset(
    {"agent", "claimant", "directory", "host", "location", "manager", "negotiator", "runs"}
)
"""Parts that other nodes may speak to, and that may speak to other nodes."""

CLOSED_FAMILIES = frozenset({"machine", "link", "link order", "negotiation-host", "location order"})
"""What only a driver says to machines, and what no parcel holds."""

HELD_MAX = 1024 * 1024
"""Bytes of one peer that wait for `AllParts`; further frames of it are not taken yet, so it sends them again."""

DEFAULTS = LinkSettings()
_RESEND, _ACK = "resend/", "ack/"


class LinkCounts(msgspec.Struct):
    """What a link has done since it was made; for figures, no part of its state."""

    frames: int = 0
    """Frames with parcels, each counted when it was first sent."""
    parcels: int = 0
    acks: int = 0
    """Frames that were nothing but an acknowledgement."""
    opens: int = 0
    resent: int = 0
    delivered: int = 0
    """Parcels."""
    doubles: int = 0
    """Frames that came again."""
    dropped: int = 0
    """Parcels given up: the peer was silent too long, began anew, or too much was waiting for it."""
    refused: int = 0
    """Frames and parcels that no correct peer sends."""


class Unpacked(NamedTuple):
    """What an arrival at the link is for the parts of the host."""

    deliveries: list[tuple[str, Received]]
    """(part, message from a part of the peer), in order."""
    refusal: str
    """Why parcels were dropped; empty when none was."""


class Link:
    """All peers of one node."""

    def __init__(
        self,
        node: str,
        settings: LinkSettings = DEFAULTS,
        *,
        incarnation: int = 1,
        instance: int = 0,
        parts: frozenset[str] = OPEN_PARTS,
        first: frozenset[str] | None = None,
        codec: Codec = CODEC,
        peer: type[Peer] = Peer,
    ) -> None:
        """`incarnation`: this process start's number; `recover` takes its boot's instead.

        `instance`: a random number of this process below 2**53, by which processes with one journal differ.
        """
        self.node = node
        self.settings = settings
        self.counts = LinkCounts()
        self.peers: dict[str, Peer] = {}
        self._end = LinkEnd(incarnation, 0, instance)
        self._parts = parts
        self._codec = codec
        self._peer = peer
        self._touched: dict[str, None] = {}
        """Peers of this turn, in order."""
        self._armed: set[str] = set()
        self._first = parts if first is None else first
        self._is_open = first is None
        self._held_out: list[tuple[str, Parcel]] = []
        self._held_in: list[tuple[str, Received]] = []
        self._held_bytes: dict[str, int] = {}
        """Peer -> bytes in `_held_in`."""
        self._shunned: frozenset[str] = frozenset()

    def recover(self, boot: Boot) -> None:
        """A new process start: no peer is known."""
        self._end = LinkEnd(boot.incarnation, 0, self._end.instance)

    def arrive(self, event: Event) -> Unpacked:
        """A frame, an opening, a timer, or the driver's order.

        Raises ProtocolViolation for what no link sends; nothing has changed then.
        """
        if isinstance(event, TimerFired):
            self._fired(event.timer)
            return Unpacked([], "")
        sender = event.sender.node
        if sender == self.node:
            return Unpacked(self._ordered(event.message), "")
        match event.message:
            case LinkOpen() as opening:
                self._at(sender).opened(opening)
                return Unpacked([], "")
            case LinkFrame() if self._held_bytes.get(sender, 0) > HELD_MAX:
                return Unpacked([], "")
            case LinkFrame() as frame:
                parcels = self._at(sender).framed(frame)
                return self._unpacked(sender, parcels) if parcels else Unpacked([], "")
            case message:
                self.counts.refused += 1
                raise ProtocolViolation(f"no message for a link: {type(message).__name__}")

    def post(self, sender: str, to: Address, message: Message) -> None:
        """Take a message of a part of this host for another node. Raises ProtocolViolation: it can't be sent."""
        if sender not in self._parts or to.part not in self._parts:
            raise ProtocolViolation(f"{sender} may not speak to {to} over a link")
        try:
            body = self._codec.encode(message)
        except CodecError as error:
            raise ProtocolViolation(str(error)) from None
        if len(body) > BODY_MAX:
            raise ProtocolViolation(
                f"{type(message).__name__} takes {len(body)} bytes; at most {BODY_MAX} fit into a frame"
            )
        parcel = Parcel(sender, to.part, body)
        if self._is_open or sender in self._first:
            self._at(to.node).post(parcel)
        else:
            self._held_out.append((to.node, parcel))

    def flush(self) -> tuple[list[tuple[Address, Address, LinkMessage]], dict[str, SetTimer | CancelTimer]]:
        """What leaves at the end of a turn, as (sender, receiver, frame), and the timers."""
        sends: list[tuple[Address, Address, LinkMessage]] = []
        timers: dict[str, SetTimer | CancelTimer] = {}
        own = Address(self.node, LINK)
        for name in self._touched:
            peer, to = self.peers[name], Address(name, LINK)
            before = peer.last_out
            out = peer.take()
            self._count(peer, out, before)
            sends += ((own, to, message) for message in out)
            if peer.has_progressed and peer.wants_resend:
                self._armed.discard(_RESEND + name)
            self._arm(_RESEND + name, peer.pause_ms if peer.wants_resend else 0, timers)
            self._arm(_ACK + name, self.settings.ack_ms if peer.owes_ack else 0, timers)
            peer.has_progressed = False
        self._touched.clear()
        return sends, timers

    @property
    def is_touched(self) -> bool:
        """Something has happened in this turn, so `flush` must be called."""
        return bool(self._touched)

    def key(self) -> Hashable:
        """Links with equal keys behave alike."""
        peers = tuple((name, self.peers[name].key()) for name in sorted(self.peers))
        held = tuple(self._held_out), tuple(self._held_in)
        return self._end, peers, tuple(sorted(self._armed)), self._is_open, held, self._shunned

    def copy(self) -> Self:
        """An independent twin; it counts for itself."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.peers = {name: peer.copy() for name, peer in self.peers.items()}
        twin._touched, twin._armed = dict(self._touched), set(self._armed)
        twin._held_bytes = dict(self._held_bytes)
        twin._held_out, twin._held_in = list(self._held_out), list(self._held_in)
        twin.counts = msgspec.structs.replace(self.counts)
        return twin

    def _ordered(self, order: Message) -> list[tuple[str, Received]]:
        """An order of the driver; what has waited for it."""
        match order:
            case AllParts():
                self._is_open = True
                for to, parcel in self._held_out:
                    self._at(to).post(parcel)
                waited = self._held_in
                self._held_out, self._held_in = [], []
                self._held_bytes.clear()
                return waited
            case Shun(node):
                self._shunned |= {node}
                return []
            case _:
                raise ProtocolViolation("a link does not speak to itself")

    def _at(self, name: str) -> Peer:
        self._touched[name] = None
        peer = self.peers.get(name)
        if peer is None:
            peer = self.peers[name] = self._peer(self._end, self.settings)
        return peer

    def _fired(self, timer: str) -> None:
        self._armed.discard(timer)
        kind, _, name = timer.partition("/")
        if name in self.peers:
            peer = self._at(name)
            if kind == "resend":
                peer.resend()
            else:
                peer.acknowledge()

    def _unpacked(self, sender: str, parcels: tuple[Parcel, ...]) -> Unpacked:
        deliveries: list[tuple[str, Received]] = []
        refused: list[str] = []
        for parcel in parcels:
            try:
                message = self._opened(sender, parcel)
            except (CodecError, ProtocolViolation) as error:
                refused.append(str(error))
            else:
                reached = deliveries
                if not self._is_open and parcel.to not in self._first:
                    reached = self._held_in
                    self._held_bytes[sender] = self._held_bytes.get(sender, 0) + parcel.size
                reached.append((parcel.to, Received(Address(sender, parcel.sender), message)))
        self.counts.delivered += len(deliveries)
        self.counts.refused += len(refused)
        if not refused:
            return Unpacked(deliveries, "")
        return Unpacked(deliveries, f"{len(refused)} of {len(parcels)} parcels; the first: {refused[0]}")

    def _opened(self, sender: str, parcel: Parcel) -> Message:
        if sender in self._shunned and parcel.to not in self._first:
            raise ProtocolViolation(f"{parcel.to!r} hears nothing of a node that was forgotten")
        if parcel.to not in self._parts or parcel.sender not in self._parts:
            raise ProtocolViolation(f"{parcel.sender!r} of another node may not speak to {parcel.to!r}")
        message: Message = self._codec.decode(parcel.body)
        if self._codec.family_of(message) in CLOSED_FAMILIES:
            raise ProtocolViolation(f"{type(message).__name__} comes from no other node")
        return message

    def _count(self, peer: Peer, out: list[LinkMessage], before: int) -> None:
        """`before`: number of the last frame that had been sent before this turn."""
        counts = self.counts
        for message in out:
            if isinstance(message, LinkOpen):
                counts.opens += 1
            elif message.seq > before:
                counts.frames += 1
                counts.parcels += len(message.parcels)
            elif message.seq:
                counts.resent += 1
            else:
                counts.acks += 1
        counts.dropped += peer.dropped
        counts.doubles += peer.doubles
        peer.dropped = peer.doubles = 0

    def _arm(self, timer: str, after_ms: int, timers: dict[str, SetTimer | CancelTimer]) -> None:
        if after_ms and timer not in self._armed:
            self._armed.add(timer)
            timers[timer] = SetTimer(timer, after_ms, after_ms // 4 if timer.startswith(_RESEND) else 0)
        elif not after_ms and timer in self._armed:
            self._armed.discard(timer)
            timers[timer] = CancelTimer(timer)

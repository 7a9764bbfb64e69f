"""One peer as a link knows it: the pair of ends, frames out until they are acknowledged, frames in in their order.

A pair is (my end, the peer's end). Frames are numbered within a pair, carry both ends, and count only for exactly
this pair, so nothing of an earlier life of either side is ever taken for something of now. A side learns the other's
end from an opening and answers with one that names both; whoever hears its own end named may send frames.
"""

from collections import deque
from collections.abc import Hashable
from itertools import islice
from typing import Self

import msgspec

from holdall.machine.contract import ProtocolViolation
from holdall.machine.link_frames import (
    NUMBER_MAX,
    LinkEnd,
    LinkFrame,
    LinkMessage,
    LinkOpen,
    Parcel,
    fits,
)


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in milliseconds, sizes in bytes, all per peer."""

    ack_ms: int = 25
    """A frame that no other frame acknowledges by then is acknowledged alone."""
    resend_ms: int = 250
    """First pause before what is not acknowledged is sent again; doubles up to `resend_max_ms`."""
    resend_max_ms: int = 4_000
    give_up_ms: int | None = 30_000
    """Nothing acknowledged for so long: everything for this peer is dropped. None: never."""
    window_frames: int = 64
    """So many frames may be out without an acknowledgement; the rest waits."""
    resend_frames: int = 16
    """So many of them are sent again at a time."""
    pending_max: int = 4 * 1024 * 1024
    """More than this for one peer, and everything for it is dropped."""


class Peer:
    """The link's state for one other node. `Link` feeds it and takes what it wants to send."""

    def __init__(self, own: LinkEnd, settings: LinkSettings) -> None:
        self.settings = settings
        self.own = own
        self.yours: LinkEnd | None = None
        self.is_paired = False
        """The peer has named our end: it knows the pair as we do."""
        self.waiting: deque[Parcel] = deque()
        """In no frame yet."""
        self.sent: deque[LinkFrame] = deque()
        """Not acknowledged, in order."""
        self.pending_bytes = 0
        self.last_out = 0
        self.last_in = 0
        self.pause_ms = settings.resend_ms
        self.waited_ms = 0
        """Since something was acknowledged, counted in pauses."""
        self.dropped = 0
        """Parcels that were given up since this was last read; no part of the state."""
        self.doubles = 0
        """Frames that came again since this was last read; no part of the state."""
        self.has_progressed = False
        """The resend timer must begin anew at the end of this turn."""
        self._has_opened = False
        """An opening for this pair has been sent; the resend timer repeats it."""
        self._owes_open = False
        self._owes_ack = False
        self._ack_now = False
        self._resend_now = False

    def key(self) -> Hashable:
        """Everything that has a say in what comes."""
        return (
            self.own,
            self.yours,
            self.is_paired,
            tuple(self.waiting),
            tuple(self.sent),
            self.last_out,
            self.last_in,
            self.pause_ms,
            self.waited_ms,
            self._has_opened,
            self._owes_ack,
        )

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.waiting, twin.sent = deque(self.waiting), deque(self.sent)
        return twin

    @property
    def is_idle(self) -> bool:
        """Nothing is to be sent, acknowledged or waited for."""
        return not (self.waiting or self.sent or self._owes_ack)

    # What arrives

    def opened(self, opening: LinkOpen) -> None:
        """An opening. Raises ProtocolViolation for ends that can't be."""
        was_paired = self.is_paired and opening.mine == self.yours
        if self._is_of_pair(opening.mine, opening.yours):
            # It waits for a sign that we know its end: any frame, and at once when we have just learned it.
            self._owes_ack = True
            self._ack_now = not was_paired

    def framed(self, frame: LinkFrame) -> tuple[Parcel, ...]:
        """A frame; the parcels to deliver now. Raises ProtocolViolation for numbers that can't be."""
        if bool(frame.seq) != bool(frame.parcels):
            raise ProtocolViolation("a frame has a number exactly when it has parcels")
        if frame.yours == self.own and frame.mine == self.yours and frame.ack > self.last_out:
            raise ProtocolViolation(f"frame {frame.ack} is acknowledged, {self.last_out} have been sent")
        if not self._is_of_pair(frame.mine, frame.yours):
            return ()
        self._acknowledged(frame.ack)
        return self._in_order(frame) if frame.seq else ()

    def _is_of_pair(self, mine: LinkEnd, yours: LinkEnd | None) -> bool:
        """Compare ends, learn the peer's newest; whether both are those of the pair of now."""
        if yours is not None and yours > self.own:
            self._go_above(yours)
        if self.yours is not None and mine < self.yours:
            # Of an earlier life; or of a node that has lost count: it learns the last number that was heard of it.
            self._owes_open = True
            return False
        if mine != self.yours:
            self._part(mine)
        if yours != self.own:
            self._owes_open = True
            return False
        self.is_paired = True
        return True

    def _part(self, yours: LinkEnd) -> None:
        """The peer has a new end: what its earlier one has not acknowledged concerns nobody any more."""
        self.yours = yours
        self._begin()

    def _go_above(self, yours: LinkEnd) -> None:
        """The peer has seen a later end of ours than this one: our count was lost, or another process has our name."""
        if yours.session >= NUMBER_MAX:
            raise ProtocolViolation("an end of ours that can't be")
        self.own = LinkEnd(yours.incarnation, yours.session + 1, self.own.instance)
        self._begin()

    def _begin(self) -> None:
        """A new pair: numbers from 1. What is in no frame yet goes to it."""
        self.is_paired = False
        self.dropped += sum(len(frame.parcels) for frame in self.sent)
        self.sent.clear()
        self.pending_bytes = sum(parcel.size for parcel in self.waiting)
        self.last_out = self.last_in = 0
        self._owes_ack = self._has_opened = False
        self._progress()

    def _acknowledged(self, ack: int) -> None:
        before = len(self.sent)
        while self.sent and self.sent[0].seq <= ack:
            self.pending_bytes -= sum(parcel.size for parcel in self.sent.popleft().parcels)
        if len(self.sent) < before:
            self._progress()

    def _in_order(self, frame: LinkFrame) -> tuple[Parcel, ...]:
        if frame.seq > self.last_in + 1:
            return ()  # one before it is missing; it comes again after that one
        self._owes_ack = True
        if frame.seq <= self.last_in:
            self.doubles += 1
            return ()
        self.last_in = frame.seq
        return frame.parcels

    # What is to be sent

    def post(self, parcel: Parcel) -> None:
        """Take one parcel for this peer."""
        if self.pending_bytes + parcel.size > self.settings.pending_max:
            self.give_up()
        self.waiting.append(parcel)
        self.pending_bytes += parcel.size

    def resend(self) -> None:
        """The pause is over and something is not acknowledged."""
        self.waited_ms += self.pause_ms
        if self.settings.give_up_ms is not None and self.waited_ms >= self.settings.give_up_ms:
            self.give_up()
            return
        if self.settings.give_up_ms is None:
            self.waited_ms = 0
        self.pause_ms = min(2 * self.pause_ms, self.settings.resend_max_ms)
        self._resend_now = True

    def acknowledge(self) -> None:
        """No frame has taken the acknowledgement along in time."""
        self._ack_now = True

    def give_up(self) -> None:
        """Drop everything for this peer, and begin a new pair with it: in the old one numbers would be missing."""
        self.dropped += len(self.waiting)
        self.waiting.clear()
        self.own = LinkEnd(self.own.incarnation, self.own.session + 1, self.own.instance)
        self._begin()

    @property
    def wants_resend(self) -> bool:
        """Something waits for the peer's answer, so the resend timer must run."""
        return bool(self.sent or (self.waiting and not self.is_paired))

    @property
    def owes_ack(self) -> bool:
        """Something delivered is not acknowledged yet, so the ack timer must run."""
        return self._owes_ack

    def take(self) -> list[LinkMessage]:
        """What leaves at the end of a turn, in this order: an opening, frames sent before, new ones."""
        out: list[LinkMessage] = []
        if self.waiting and not self.is_paired and (self._resend_now or not self._has_opened):
            self._owes_open = True
        if self._owes_open:
            out.append(self._opening())
            self._has_opened = True
        if self.is_paired and self.yours is not None:
            frames = self._again() if self._resend_now else []
            frames += self._frames(self.yours)
            if self._ack_now and self._owes_ack and not frames:
                frames.append(LinkFrame(self.own, self.yours, ack=self.last_in))
            if frames:
                self._owes_ack = False
            out += frames
        self._owes_open = self._ack_now = self._resend_now = False
        return out

    def _opening(self) -> LinkOpen:
        return LinkOpen(self.own, self.yours)

    def _again(self) -> list[LinkFrame]:
        """The first frames without an acknowledgement, which now tell what has been delivered since."""
        return [
            LinkFrame(frame.mine, frame.yours, frame.seq, self.last_in, frame.parcels)
            for frame in islice(self.sent, self.settings.resend_frames)
        ]

    def _frames(self, yours: LinkEnd) -> list[LinkFrame]:
        """What waits, in as few frames as it fits into, as far as the window goes."""
        made: list[LinkFrame] = []
        while self.waiting and len(self.sent) < self.settings.window_frames:
            count = fits(self.waiting)
            parcels = tuple(self.waiting.popleft() for _ in range(count))
            self.last_out += 1
            frame = LinkFrame(self.own, yours, self.last_out, self.last_in, parcels)
            self.sent.append(frame)
            made.append(frame)
        return made

    def _progress(self) -> None:
        self.has_progressed = True
        self.pause_ms = self.settings.resend_ms
        self.waited_ms = 0

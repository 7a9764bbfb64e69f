"""The link with one rule taken away, and the world in which the search must see it.

Each mutant is the shipped peer with one method changed.
"""

from holdall.explorer.mutants.mutant import LinkMutant
from holdall.machine.link_frames import LinkEnd, LinkFrame, LinkMessage, LinkOpen, Parcel
from holdall.machine.link_peer import LinkSettings
from holdall.world.link import CountedPeer, LinkSystem, LinkWorld, link_world
from holdall.world.plan import BadWorld


class Doubles(CountedPeer):
    """A frame that came before is delivered again."""

    def _in_order(self, frame: LinkFrame) -> tuple[Parcel, ...]:
        if frame.seq > self.last_in:
            return super()._in_order(frame)
        self._owes_ack = True
        return frame.parcels


class AnyOrder(CountedPeer):
    """A frame after a gap is delivered at once."""

    def _in_order(self, frame: LinkFrame) -> tuple[Parcel, ...]:
        if frame.seq <= self.last_in:
            return super()._in_order(frame)
        self.last_in, self._owes_ack = frame.seq, True
        return frame.parcels


class AckUnheard(CountedPeer):
    """A frame after a gap is dropped and acknowledged."""

    def _in_order(self, frame: LinkFrame) -> tuple[Parcel, ...]:
        if frame.seq <= self.last_in + 1:
            return super()._in_order(frame)
        self.last_in, self._owes_ack = frame.seq, True
        return ()


class Mute(CountedPeer):
    """A frame that came before is not acknowledged."""

    def _in_order(self, frame: LinkFrame) -> tuple[Parcel, ...]:
        return () if frame.seq <= self.last_in else super()._in_order(frame)


class AnyPeer(CountedPeer):
    """Frames count whichever process of the peer they are of."""

    def framed(self, frame: LinkFrame) -> tuple[Parcel, ...]:
        if self.yours is not None and frame.mine < self.yours:
            return self._in_order(frame) if frame.seq else ()
        return super().framed(frame)


class OldPeer(CountedPeer):
    """What an earlier process of the peer says is believed as news."""

    def _is_of_pair(self, mine: LinkEnd, yours: LinkEnd | None) -> bool:
        if self.yours is not None and mine < self.yours:
            self._part(mine)
        return super()._is_of_pair(mine, yours)


class AnySelf(CountedPeer):
    """Frames count whichever process of this side they are for."""

    def framed(self, frame: LinkFrame) -> tuple[Parcel, ...]:
        return super().framed(LinkFrame(frame.mine, self.own, frame.seq, frame.ack, frame.parcels))


class AnyAcks(CountedPeer):
    """Acknowledgements of another pair count."""

    def framed(self, frame: LinkFrame) -> tuple[Parcel, ...]:
        if frame.yours != self.own or frame.mine != self.yours:
            self._acknowledged(frame.ack)
        return super().framed(frame)


class NoResend(CountedPeer):
    """Nothing is sent again."""

    def resend(self) -> None:
        pass


class NoAnswer(CountedPeer):
    """Who does not name this side's end is not answered."""

    def _is_of_pair(self, mine: LinkEnd, yours: LinkEnd | None) -> bool:
        owed = self._owes_open
        found = super()._is_of_pair(mine, yours)
        self._owes_open = owed
        return found


class NumbersGoOn(CountedPeer):
    """A new pair goes on with the numbers of the old one."""

    def _begin(self) -> None:
        out, into = self.last_out, self.last_in
        super()._begin()
        self.last_out, self.last_in = out, into


class KeepsFrames(CountedPeer):
    """What an earlier life of the peer has not acknowledged goes to the new one, as it is."""

    def _begin(self) -> None:
        kept = list(self.sent)
        self.sent.clear()
        super()._begin()
        self.sent.extend(kept)


class DeafToLow(CountedPeer):
    """A lower end than the last one is not answered."""

    def _is_of_pair(self, mine: LinkEnd, yours: LinkEnd | None) -> bool:
        owed = self._owes_open
        found = super()._is_of_pair(mine, yours)
        if self.yours is not None and mine < self.yours:
            self._owes_open = owed
        return found


class NotAbove(CountedPeer):
    """A node whose number has gone down stays below."""

    def _go_above(self, yours: LinkEnd) -> None:
        pass


class OneInstance(CountedPeer):
    """Ends of different processes may be equal."""

    def __init__(self, own: LinkEnd, settings: LinkSettings) -> None:
        super().__init__(LinkEnd(own.incarnation), settings)


class OpensWithData(CountedPeer):
    """What waits leaves behind the opening at once, for whatever life of the peer gets it, and again as frame 1."""

    ANYBODY = LinkEnd(0)

    def take(self) -> list[LinkMessage]:
        out = super().take()
        if self.waiting and any(isinstance(message, LinkOpen) for message in out):
            out.append(LinkFrame(self.own, self.ANYBODY, 1, 0, tuple(self.waiting)))
        return out

    def _is_of_pair(self, mine: LinkEnd, yours: LinkEnd | None) -> bool:
        meant = self.own if yours == self.ANYBODY else yours
        return super()._is_of_pair(mine, meant)


_ALL = (
    LinkMutant("doubles", "a frame that came before is dropped", Doubles, "one", ("double",), "duplicate=1"),
    LinkMutant("any-order", "a frame after a gap waits for the one before it", AnyOrder, "two", ("gap",)),
    LinkMutant("ack-unheard", "only what was delivered is acknowledged", AckUnheard, "two", ("acknowledged",)),
    LinkMutant("mute", "a frame that came before is acknowledged", Mute, "one", ("unserved",), "loss=1"),
    LinkMutant("any-peer", "frames of earlier processes are dropped", AnyPeer, "two", ("double",), "restart=1"),
    LinkMutant("old-peer", "an earlier process is no news", OldPeer, "two", ("double",), "restart=1"),
    LinkMutant("any-self", "frames for earlier processes are dropped", AnySelf, "two", ("acknowledged",), "restart=1"),
    LinkMutant("any-acks", "acknowledgements are of their pair", AnyAcks, "two", ("acknowledged",), "restart=1"),
    LinkMutant("no-resend", "what is not acknowledged is sent again", NoResend, "one", ("deadlock",), "loss=1"),
    LinkMutant("no-answer", "who does not name this side's end is told it", NoAnswer, "one", ("unserved",)),
    LinkMutant("numbers-go-on", "a new pair counts from 1", NumbersGoOn, "two", ("refused",), "restart=1"),
    LinkMutant("keeps-frames", "frames to earlier processes are given up", KeepsFrames, "one", ("unserved",), "restart=1"),
    LinkMutant("not-above", "a count that was lost goes above the last", NotAbove, "falling", ("unserved",), "restart=1"),
    LinkMutant(
        "deaf-to-low", "a lower end is told the last one", DeafToLow, "falling", ("unserved",),
        "restart=1",
    ),
    LinkMutant(
        "one-instance", "ends of two processes are never equal", OneInstance, "falling", ("refused",), "restart=2"
    ),
    LinkMutant("opens-with-data", "an opening carries nothing", OpensWithData, "one", ("refused",), "restart=1"),
)  # fmt: skip

LINK_MUTANTS: dict[str, LinkMutant] = {mutant.name: mutant for mutant in _ALL}
"""By name."""


def link_system(world: LinkWorld) -> LinkSystem:
    """The machines of a world; those of its mutant where it names one. Raises BadWorld."""
    if not world.mutant:
        return LinkSystem(world)
    return LinkSystem(world, link_mutant(world.mutant).make)


def link_mutant(name: str) -> LinkMutant:
    """A mutant by its name. Raises BadWorld."""
    found = LINK_MUTANTS.get(name)
    if found is None:
        raise BadWorld(f"no mutant {name!r} of the link; there are {', '.join(LINK_MUTANTS)}")
    return found


def mutant_world(mutant: LinkMutant) -> LinkWorld:
    """The world in which a mutant is found."""
    return mutant.world_of(link_world(mutant.world))

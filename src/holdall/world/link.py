"""Two linked hosts as a closed system: each has one part that says numbered words to the other and keeps what it hears.

Within one process of the speaker the words that one process of the hearer gets must be consecutive: none twice, none
out of order, none left out; and nothing of an earlier process after the first word of a later one. Words that a link
has given up, because the other side began anew or was silent too long, are counted, so that at the end every word is
accounted for: heard, or given up for a reason.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Self

import msgspec

from holdall.machine.codec import CODEC
from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    Effect,
    Event,
    ProtocolViolation,
    Received,
    Record,
    Send,
)
from holdall.machine.host import Arrival, Host
from holdall.machine.link import LINK, Link
from holdall.machine.link_frames import LinkEnd
from holdall.machine.link_orders import AllParts
from holdall.machine.link_peer import LinkSettings, Peer
from holdall.world.plan import BadWorld
from holdall.world.system import TimerKind

HOSTS = ("a", "b")
PART = "claimant"
DRIVER = "node"


class LinkWorld(msgspec.Struct, frozen=True, kw_only=True):
    """What the two say, and how their links are set."""

    name: str
    says: tuple[tuple[int, ...], tuple[int, ...]]
    """For each host: how many words in each of its turns of speaking."""
    give_up: int = 0
    """The peer is given up when what is not acknowledged has been sent again so often; 0: never."""
    window: int = 64
    falling: bool = False
    """Numbers of process starts go down instead of up, as those of a node may that has lost its journal."""
    late: bool = False
    """`b` may hear and speak only when its driver says so, which it does some time after each start."""
    mutant: str = ""
    """A rule that is taken away."""


_ALL = (
    LinkWorld(name="one", says=((1,), ())),
    LinkWorld(name="two", says=((1, 1), ())),
    LinkWorld(name="turns", says=((2, 1), ())),
    LinkWorld(name="both", says=((1,), (1,))),
    LinkWorld(name="talk", says=((1, 1), (1,))),
    LinkWorld(name="much", says=((1, 1), (1, 1))),
    LinkWorld(name="window", says=((1, 1, 1), ()), window=1),
    LinkWorld(name="silent", says=((1, 1), ()), give_up=1),
    LinkWorld(name="silent-both", says=((1,), (1,)), give_up=1),
    LinkWorld(name="late", says=((1, 1), (1,)), late=True),
    LinkWorld(name="falling", says=((1, 1), ()), falling=True),
    LinkWorld(name="falling-both", says=((1,), (1,)), falling=True),
)

LINK_WORLDS: dict[str, LinkWorld] = {world.name: world for world in _ALL}


def link_world(name: str) -> LinkWorld:
    """A named world. Raises BadWorld."""
    found = LINK_WORLDS.get(name)
    if found is None:
        raise BadWorld(f"no world {name!r} for the link; there are {', '.join(LINK_WORLDS)}")
    return found


class Speak(msgspec.Struct, frozen=True, tag="speak"):
    """From outside: say so many words in this turn."""

    words: int


class Word(msgspec.Struct, frozen=True, tag="word"):
    """Which process of the speaker says it, and the word's number in it, both from 1."""

    process: int
    number: int


CODEC.register("words", Speak | Word)


FALLING_FROM = 10
"""Where numbers of process starts begin that go down."""


class Speaker:
    """Says and hears words. `heard`: (speaker's process, number of the word), in order."""

    def __init__(self, other: str, *, falling: bool = False) -> None:
        self.to = Address(other, PART)
        self.process = 1
        self.said = 0
        self.heard: tuple[tuple[int, int], ...] = ()
        self._falling = falling

    def start(self) -> Sequence[Effect]:
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        boot = records[BOOT_KEY]
        if isinstance(boot, Boot):
            self.process = FALLING_FROM - boot.incarnation if self._falling else boot.incarnation
        return ()

    def handle(self, event: Event) -> Sequence[Effect]:
        match event:
            case Received(_, Speak(words)):
                first, self.said = self.said + 1, self.said + words
                return [Send(self.to, Word(self.process, number)) for number in range(first, self.said + 1)]
            case Received(sender, Word(process, number)) if sender == self.to:
                self.heard = (*self.heard, (process, number))
                return ()
            case _:
                raise ProtocolViolation(f"nobody says {event}")

    def key(self) -> Hashable:
        return self.process, self.said, self.heard

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


class CountedPeer(Peer):
    """The shipped peer, which also counts the words that were acknowledged and those given up: they are judged."""

    def __init__(self, own: LinkEnd, settings: LinkSettings) -> None:
        super().__init__(own, settings)
        self.has_given_up = False
        self.given_up = 0
        self.acked_before = 0
        """In earlier pairs of this process."""
        self.acked = 0
        """In the pair of now."""

    def key(self) -> Hashable:
        return super().key(), self.has_given_up, self.given_up, self.acked_before, self.acked

    def _begin(self) -> None:
        before = self.dropped
        super()._begin()
        self.given_up += self.dropped - before
        self.acked_before, self.acked = self.acked_before + self.acked, 0

    def give_up(self) -> None:
        self.has_given_up = True
        self.given_up += len(self.waiting)
        super().give_up()

    def _acknowledged(self, ack: int) -> None:
        before = sum(len(frame.parcels) for frame in self.sent)
        super()._acknowledged(ack)
        self.acked += before - sum(len(frame.parcels) for frame in self.sent)


class _SeenLink(Link):
    """The shipped link, and what waits in it."""

    @property
    def is_shut(self) -> bool:
        """Its parts neither hear nor speak yet."""
        return not self._is_open

    @property
    def held_out(self) -> int:
        """Words of the own part that wait for the driver."""
        return len(self._held_out)

    @property
    def held_in(self) -> int:
        """Words for the own part that do."""
        return len(self._held_in)


class _NumberedLink(_SeenLink):
    """Each process has an instance of its own, as a node's random one; without, going above would meet itself."""

    def recover(self, boot: Boot) -> None:
        self._end = LinkEnd(boot.incarnation, 0, boot.incarnation)


class Ends(msgspec.Struct, frozen=True):
    """What one side is judged by."""

    process: int
    said: int
    heard: tuple[tuple[int, int], ...]
    own: LinkEnd | None = None
    yours: LinkEnd | None = None
    has_given_up: bool = False
    """Its link has given the other side up."""
    given_up: int = 0
    acked_before: int = 0
    acked: int = 0
    pending: int = 0
    """Words in no frame, or in frames without an acknowledgement."""
    held: int = 0
    """Words that have come and wait for the driver."""
    is_shut: bool = False
    is_idle: bool = True

    def heard_of(self, process: int) -> list[int]:
        """Numbers of the words heard of a process of the other side."""
        return [number for speaker, number in self.heard if speaker == process]


class LinkSystem:
    """The two hosts of a world."""

    def __init__(self, world: LinkWorld, peer: type[CountedPeer] = CountedPeer) -> None:
        self.world = world
        self._peer = peer
        # Where words may be dropped in the middle, others follow them.
        self._gaps = bool(world.give_up or world.falling)
        # Equal pauses, so that how often something was repeated is no part of the state.
        self._settings = LinkSettings(
            ack_ms=1,
            resend_ms=1,
            resend_max_ms=1,
            give_up_ms=world.give_up + 1 if world.give_up else None,
            window_frames=world.window,
        )

    def hosts(self) -> tuple[str, ...]:
        """Both names."""
        return HOSTS

    def build(self, host: str) -> Host:
        """A host that has not been started."""
        other = HOSTS[1 - HOSTS.index(host)]
        falling = self.world.falling
        link = (_NumberedLink if falling else _SeenLink)(
            host,
            self._settings,
            incarnation=FALLING_FROM - 1 if falling else 1,
            first=frozenset() if self.world.late and host == "b" else None,
            peer=self._peer,
        )
        return Host(host, {PART: Speaker(other, falling=falling)}, link)

    def boot(self, kind: str, epoch: int) -> Boot:
        """A host that comes up again; `epoch` counts its processes."""
        return Boot(kind, 1, FALLING_FROM - epoch if self.world.falling else epoch)

    def timer_kind(self, host: str, timer: str) -> TimerKind:
        """All of the link's timers repeat or tell what may have been lost."""
        del host, timer
        return "repair"

    def command(self, host: str, words: int) -> Arrival:
        """The arrival that makes a host speak."""
        return Arrival(PART, Received(Address(host, DRIVER), Speak(words)))

    def may(self, host: str) -> Arrival:
        """The arrival that lets a host's parts hear and speak."""
        return Arrival(LINK, Received(Address(host, DRIVER), AllParts()))

    def facts(self, host: Host) -> Ends:
        """What this side is judged by."""
        speaker = host.parts[PART]
        link = host.link
        if not isinstance(speaker, Speaker) or not isinstance(link, _SeenLink):
            raise TypeError("not a host of this system")
        said = (speaker.process, speaker.said, speaker.heard)
        for peer in link.peers.values():
            if isinstance(peer, CountedPeer):
                return Ends(
                    *said,
                    own=peer.own,
                    yours=peer.yours,
                    has_given_up=peer.has_given_up,
                    given_up=peer.given_up,
                    acked_before=peer.acked_before,
                    acked=peer.acked,
                    pending=link.held_out
                    + len(peer.waiting)
                    + sum(len(frame.parcels) for frame in peer.sent),
                    held=link.held_in,
                    is_shut=link.is_shut,
                    is_idle=peer.is_idle and not link.is_shut,
                )
        return Ends(*said, pending=link.held_out, is_shut=link.is_shut, is_idle=not link.is_shut)

    def wrong_here(self, host: Host, facts: Hashable) -> str:
        """Of what one side has heard: doubles, order, an earlier process after a later one."""
        del host
        if not isinstance(facts, Ends):
            return ""
        last = (0, 0)
        for at, heard in enumerate(facts.heard):
            if heard[0] < last[0]:
                return f"old after new: a word of process {heard[0]} after one of process {last[0]}"
            if heard[0] == last[0] and heard[1] <= last[1]:
                name = "double" if heard in facts.heard[:at] else "order"
                return f"{name}: word {heard[1]} after word {last[1]}"
            if heard[0] == last[0] and heard[1] > last[1] + 1 and not self._gaps:
                return f"gap: word {heard[1]} right after word {last[1]}"
            last = heard
        return ""

    def wrong_between(self, speaker: Ends, hearer: Ends, *, has_hearer_restarted: bool) -> str:
        """One direction: nothing given up without a reason, left out, acknowledged unheard or told to two processes."""
        heard = hearer.heard_of(speaker.process)
        if not (has_hearer_restarted or speaker.has_given_up or hearer.has_given_up):
            if speaker.given_up:
                return "given up: words are dropped though the other side has not begun anew"
            # Each process of the speaker began after this process of the hearer, or with it.
            firsts = dict(reversed(hearer.heard))
            if not self._gaps and any(number != 1 for number in firsts.values()):
                return f"gap: the first words heard are {firsts}"
        if speaker.said != speaker.given_up + speaker.acked_before + speaker.acked + speaker.pending:
            return "books: words are said that are neither acknowledged, given up nor kept"
        if speaker.yours is not None and speaker.yours == hearer.own:
            if speaker.acked > len(heard) + hearer.held:
                return f"acknowledged: {speaker.acked} words, and {len(heard)} are heard"
            if not self._gaps and heard and heard[0] <= speaker.acked_before:
                return (
                    f"told twice: an earlier process has acknowledged word {heard[0]}, a later one hears it"
                )
        return ""

    def lost_at_end(self, speaker: Ends, hearer: Ends, *, has_hearer_restarted: bool) -> str:
        """One direction, when nothing is under way and nothing waits."""
        if has_hearer_restarted or speaker.has_given_up or hearer.has_given_up:
            return ""
        heard = len(hearer.heard_of(speaker.process))
        return "" if heard == speaker.said else f"lost: {speaker.said} words said, {heard} heard"

    def idle(self, facts: Hashable) -> bool:
        """Its link has nothing to send, to repeat or to acknowledge."""
        return isinstance(facts, Ends) and facts.is_idle

    def metered(self, before: Hashable, after: Hashable) -> tuple[msgspec.Struct, ...]:
        """Nothing is metered."""
        del before, after
        return ()

"""The directory of a node: who else there is, under which names, with which pools; and how this node joins and starts.

Everything in it may be stale, and a member may tell lies: it is for planning and for people. Whether a claim is
served is decided by the nodes that own the pools, who may speak is decided by the bus, and what is in use is known
by the lease books alone.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Self, assert_never, cast, get_args

from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    ClockRead,
    Effect,
    Event,
    ProtocolViolation,
    Received,
    Record,
    Send,
    TimerFired,
)
from holdall.parties.directory.announcing import OwnPools, PoolSideNews
from holdall.parties.directory.checks import check, check_presence
from holdall.parties.directory.forgetting import Forgetting
from holdall.parties.directory.gossip import ROUND_TIMER, Gossip
from holdall.parties.directory.messages import (
    BUS,
    DIRECTORY,
    Cloned,
    Difference,
    DirectorySettings,
    ForgetNode,
    FromPeer,
    Hello,
    Leaving,
    Member,
    Met,
    NameTaken,
    Outcast,
    OwnName,
    Presence,
    StartRefused,
    Summary,
    Tell,
    Tombstone,
    Tombstones,
    Welcome,
    YouAreForgotten,
)
from holdall.parties.directory.naming import HELLO_TIMER, LISTEN_TIMER, Naming, outcast_text
from holdall.parties.directory.state import DirectoryState
from holdall.parties.messages import AGENT
from holdall.parties.reading import AnySide

_FROM_PEER: tuple[type, ...] = get_args(FromPeer)


class Directory:
    """The machine `directory` of a node. `pools` is the node's own pool side, of which it reads only."""

    def __init__(
        self, settings: DirectorySettings, pools: AnySide | OwnPools, *, incarnation: int = 1
    ) -> None:
        read = PoolSideNews(pools) if isinstance(pools, AnySide) else pools
        self.state = DirectoryState(settings, read, incarnation)
        self._gossip = Gossip(self.state)
        self._naming = Naming(self.state, self._gossip)
        self._forgetting = Forgetting(self.state, self._naming)

    # ------------------------------------------------------------ the contract of machines

    def start(self) -> list[Effect]:
        """Nobody is known but those that joining has told."""
        return self._begin({})

    def recover(self, records: Mapping[str, Record]) -> list[Effect]:
        """Members, tombstones and the own name as they were; what others have said is asked for anew."""
        return self._begin(records)

    def handle(self, event: Event) -> list[Effect]:
        """One event. Raises ProtocolViolation for what its sender may not say or no directory can have said."""
        state = self.state
        state.out = []
        match event:
            case TimerFired(timer):
                self._fired(timer)
            case Received(sender, message) if sender.node == state.settings.node:
                self._own(sender, message)
            case Received(sender, message) if sender.part == DIRECTORY and isinstance(message, _FROM_PEER):
                told = cast("FromPeer", message)
                check(sender.node, told)
                if not state.is_mute:
                    self._from_peer(sender.node, told)
            case Received(sender, message):
                raise ProtocolViolation(f"{type(message).__name__} from {sender} is not for a directory")
        return self._done()

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        state, naming = self.state, self._naming
        own = state.own
        return (
            state.phase,
            state.round,
            state.round_armed,
            state.rebutted_in,
            own.row(),
            own.header,
            own.rebuttal,
            own.aside,
            tuple(sorted(own.log.news.items())),
            tuple(
                (node, known.member, known.header, known.row(), known.heard, known.silent, known.spoken)
                for node, known in sorted(state.known.by_id.items())
            ),
            tuple(
                (node, tuple(sorted(known.log.news.items())))
                for node, known in sorted(state.known.by_id.items())
            ),
            tuple(sorted(state.tombstones.items())),
            tuple(sorted(naming.asked.items())),
            tuple(sorted(naming.starting.items())),
            tuple(sorted(naming.clashes)),
            (naming.hellos, naming.read_from, naming.has_answer, naming.has_read, naming.listening),
        )

    def copy(self) -> Self:
        """An independent twin, which reads the same pools until `see` tells it others."""
        twin = object.__new__(type(self))
        twin.state = self.state.copy()
        twin._gossip = Gossip(twin.state)
        twin._naming = self._naming.copy_with(twin.state, twin._gossip)
        twin._forgetting = Forgetting(twin.state, twin._naming)
        return twin

    def see(self, pools: AnySide | OwnPools) -> None:
        """Read these pools from now on (after both were copied)."""
        self.state.own.pools = PoolSideNews(pools) if isinstance(pools, AnySide) else pools

    # ------------------------------------------------------------ who speaks

    def _from_peer(self, peer: str, message: FromPeer) -> None:
        if peer in self.state.tombstones and not isinstance(message, YouAreForgotten):
            self._forgetting.refuse(peer)
            return
        match message:
            case Hello():
                self._naming.hello(peer, message)
            case Welcome():
                self._naming.welcomed(peer, message)
            case NameTaken():
                self._naming.name_taken(message)
            case Cloned():
                self._naming.cloned(message)
            case YouAreForgotten(tombstone):
                if tombstone.node == self.state.settings.node:
                    self._naming.outcast(tombstone)
            case Summary():
                self._gossip.summary(peer, message)
            case Difference():
                self._gossip.difference(peer, message)
                self._naming.answered(peer)
            case Tell():
                self._gossip.told(peer, message)
                self._naming.has_read_more()
            case Tombstones():
                self._forgetting.told(peer, message)
            case _:
                assert_never(message)

    def _own(self, sender: Address, message: object) -> None:
        match message:
            case Presence() if sender.part == BUS:
                if not self.state.is_mute:
                    check_presence(message)
                    self._naming.present(message)
            case ForgetNode():
                self._forgetting.asked(sender, message)
            case Met(node, name):
                if not self.state.is_mute:
                    self.state.meet(Member(node, name))
            case Leaving():
                self._leave()
            case ClockRead():
                # A directory measures time in rounds of its own.
                pass
            case _:
                raise ProtocolViolation(f"{type(message).__name__} from {sender} is not for a directory")

    def _fired(self, timer: str) -> None:
        calls: dict[str, Callable[[], None]] = {
            ROUND_TIMER: self._round,
            HELLO_TIMER: self._naming.hello_over,
            LISTEN_TIMER: self._naming.listened,
        }
        if timer not in calls:
            raise ProtocolViolation(f"no timer {timer} is a directory's")
        # A timer that runs out after this start is over for the directory is normal.
        if not self.state.is_mute:
            calls[timer]()

    def _round(self) -> None:
        self._naming.round()
        self._gossip.round()

    def _leave(self) -> None:
        state = self.state
        if state.phase == "serving" and state.own.header is not None:
            state.own.stop()
            self._gossip.announce(state.own.log.have)
        state.phase = "stopped"

    # ------------------------------------------------------------ inside

    def _begin(self, records: Mapping[str, Record]) -> list[Effect]:
        state = self.state
        state.out = []
        boot = records.get(BOOT_KEY)
        if isinstance(boot, Boot):
            state.own.incarnation = boot.incarnation
            state.own.quarantine_ms = boot.quarantine_ms
        outcast: Outcast | None = None
        for key in sorted(records):
            match records[key]:
                case Tombstone() as tombstone:
                    self._forgetting.recovered(tombstone)
                case Member() as member:
                    state.known.add(member, None)
                case OwnName(name, since_ms) if name == state.settings.name:
                    state.own.since_ms = since_ms
                case Outcast() as outcast:
                    pass
                case _:
                    pass
        for member in state.settings.members:
            state.meet(member)
        if outcast is not None:
            state.phase = "refused"
            state.tell_node(StartRefused(outcast_text(outcast.name, outcast.by)))
        else:
            self._naming.begin()
        return self._done()

    def _done(self) -> list[Effect]:
        """Close the event: keep the rounds going, tell the agent what is new to it."""
        state = self.state
        if state.known.by_id or self._naming.starting:
            self._gossip.arm()
        changes = state.known.take_changes()
        if changes is not None:
            state.out.append(Send(Address(state.settings.node, AGENT), changes))
        if state.known.is_full and not state.has_warned_full:
            state.has_warned_full = True
            state.warn(
                "too many nodes or pools: what goes beyond is not known here, so nothing is planned with it"
            )
        return state.out

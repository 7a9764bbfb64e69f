"""The claims of one node without their protocol: the verbs, ends, repeats and restarts. When a claim is in is a subclass's.

Saved: the claim before its first message, its units before the agent is told, its end before the first End. After a
restart each claim repeats what its phase says.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import msgspec

from holdall.machine.contract import (
    Address,
    CancelTimer,
    Effect,
    Event,
    ProtocolViolation,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.protocols.by_pool.claim import (
    ClaimRecord,
    Less,
    Phase,
    Units,
    acknowledged,
    begun,
    in_doubt,
    known_in,
    retried,
    with_units,
)
from holdall.protocols.by_pool.ending import CLAIM_KEY, Ending
from holdall.protocols.by_pool.inside import InsideVerbs
from holdall.protocols.by_pool.messages import (
    MANAGER,
    AskHeld,
    End,
    EndAck,
    Entered,
    Held,
    Lengthen,
    Lengthened,
    Lessen,
    Lessened,
    PlaceGone,
    Refused,
)
from holdall.protocols.hooks import Effects, nobody_is_gone
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Exchange,
    ExchangeRefused,
    Extend,
    Granted,
    LeaseLost,
    NotNow,
    Release,
    Retrying,
    Shrink,
    Stamp,
    claim_named,
)

AGAIN = "again"
RETRY = "retry"

_VERBS = frozenset({Acquire, Release, Shrink, Exchange, Extend, LeaseLost})
"""What an agent orders."""
_ANSWERS = frozenset({EndAck, Held, Refused, Lessened, Lengthened, PlaceGone})
"""What managers of every protocol by pool say; all else is the protocol's own."""
NO_CLAIM = ClaimId("", 0, 0)

R = TypeVar("R", bound=ClaimRecord)


class Claimant(Ending[R], InsideVerbs[R], ABC, Generic[R]):
    """All claims of one node.

    `again_ms`: how long an answer may take before the question is repeated; None: for ever.
    """

    record_type: ClassVar[type[Any]] = ClaimRecord
    """The protocol's subclass of ClaimRecord, or that itself."""
    newer_ends_older: ClassVar[bool] = False
    """Whether a first message of a newer attempt ends the one before at its place, so that no End is needed."""

    def __init__(self, node: str, agent: Address, *, again_ms: int | None = None) -> None:
        self.node = node
        self.again_ms = again_ms
        self.claims: dict[ClaimId, R] = {}
        self.agent = agent
        self.is_gone: Callable[[str], bool] = nobody_is_gone
        """Whether a node has left the system for good: then no End needs its answer."""

    # ------------------------------------------------------------ what a protocol says

    @abstractmethod
    def ask(self, record: R, out: Effects) -> None:
        """Send what this claim, which waits or tries, wants answered now; sent again when its time has come."""

    def answered(self, record: R, sender: Address, message: Any, out: Effects) -> None:
        """An answer of the protocol's own, for a claim that is known; it may be for an earlier attempt."""
        del record, sender, out
        raise ProtocolViolation(f"{type(message).__name__} is no message for a claimant of this protocol")

    def fresh(self, record: R) -> R:
        """The record of another attempt, with what the protocol keeps of an attempt as at its start."""
        return record

    def on_held(self, record: R, out: Effects) -> None:
        """One more place has its units, others have not. The record is not saved for that."""

    def on_inside(self, record: R, out: Effects) -> None:
        """The claim is granted; what the protocol has to say to managers for that."""

    def stamp_of(self, record: R) -> Stamp | None:
        """The claim's age, where the protocol keeps one."""
        del record
        return None

    def ignores(self, message: Any) -> bool:
        """Whether a message has no effect from now on, also after a restart.

        Attempts only grow, and an End is asked for again only with a higher one, so what is late stays late.
        """
        record = self.claims.get(getattr(message, "claim", NO_CLAIM))
        if record is None:
            return True
        match message:
            case EndAck(_, attempt, place):
                return all(at != place or number > attempt for at, number in record.ending)
            case Refused(_, attempt):
                return attempt != record.attempt or record.phase > Phase.WAITING
            case PlaceGone(_, attempt):
                return attempt != record.attempt or record.phase is Phase.ENDING
            case _:
                return self.ignores_own(record, message)

    def ignores_own(self, record: R, message: Any) -> bool:
        """The same of the protocol's own messages, and of those that the frame says nothing about."""
        del record, message
        return False

    def is_late(self, record: R, held: Held) -> bool:
        """Whether a Held comes too late to be heard: before the claim is inside, a restart may ask for it again."""
        if held.attempt != record.attempt or record.phase is Phase.ENDING:
            return True
        return record.phase is Phase.INSIDE and not in_doubt(record, held.place, held.epoch)

    def confluent(self, message: Any) -> bool:
        """Whether it makes no difference when a message comes, as long as it comes and nothing is repeated or lost.

        So it is with the answers to all Ends of a claim but the last.
        """
        record = self.claims.get(getattr(message, "claim", NO_CLAIM))
        if record is None:
            return False
        if isinstance(message, EndAck):
            over = record.phase is Phase.ENDING and record.parent is None and not record.companions
            return over and len(record.ending) > 1 and not self.ignores(message)
        return self.confluent_own(record, message)

    def confluent_own(self, record: R, message: Any) -> bool:
        """The same of the protocol's own messages."""
        del record, message
        return False

    def own_timer(self, kind: str, record: R, out: Effects) -> None:
        """The timer `kind/CLAIM` of the protocol's own has run out."""

    def shown(self, record: R) -> str:
        """Where the claim is, in the protocol's own words: for pictures and people."""
        return record.phase.name.lower()

    def asks_on(self, record: R) -> bool:
        """Whether a claim that is inside still has something to say to managers (then `ask` is called for it, too)."""
        del record
        return False

    # ------------------------------------------------------------ machine

    def start(self) -> Sequence[Effect]:
        """No claims yet."""
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """Ask again for what waits, end again what was ending. The agent keeps for itself what is held."""
        out: Effects = []
        for key in sorted(records):
            record = records[key]
            if isinstance(record, self.record_type):
                known = cast("R", record)
                self.claims[known.claim] = msgspec.structs.replace(known, paused=False)
        for claim in sorted(self.claims):
            self.ask_all(self.claims[claim], out)
        return out

    def handle(self, event: Event) -> Sequence[Effect]:
        """One message or timer."""
        out: Effects = []
        if isinstance(event, TimerFired):
            kind, _, name = event.timer.partition("/")
            record = self.claims.get(claim_named(name))
            if record is not None:
                self._fired(kind, record, out)
        elif type(event.message) in _VERBS:
            self._told(event.message, out)
        else:
            self._answered(event.sender, event.message, out)
        return out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return tuple(self.claims[claim] for claim in sorted(self.claims))

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin.claims = self.claims.copy()
        return twin

    def _fired(self, kind: str, record: R, out: Effects) -> None:
        if kind not in {AGAIN, RETRY}:
            self.own_timer(kind, record, out)
            return
        if kind == RETRY:
            record = self.note(msgspec.structs.replace(record, paused=False))
        self.ask_all(record, out)

    def _told(self, message: msgspec.Struct, out: Effects) -> None:
        match message:
            case Acquire(claim):
                if claim not in self.claims:
                    self.begin(message, None, out)
            case Release(claim):
                self.release(claim, out)
            case Shrink(claim, keep, units):
                self.shrink(claim, keep, frozenset(units), out)
            case Exchange():
                self.exchange(message, out)
            case Extend(claim, for_ms):
                self.extend(claim, for_ms, out)
            case LeaseLost(claim, reason):
                self.lost(claim, reason, out)
            case _:
                raise AssertionError(f"{type(message).__name__} is no verb")

    def begin(self, acquire: Acquire, parent: ClaimId | None, out: Effects) -> None:
        """A new claim; `parent`: it is the companion of an exchange."""
        record = self.put(self.first(begun(self.record_type, acquire, parent), acquire), out)
        self.ask_all(record, out)

    def first(self, record: R, acquire: Acquire) -> R:
        """A new claim's record, with what the protocol takes from the order."""
        del acquire
        return self.fresh(record)

    def _answered(self, sender: Address, message: Any, out: Effects) -> None:
        """An answer for a claim that is over, or for an earlier attempt, is late and tells nothing new."""
        record = self.claims.get(getattr(message, "claim", NO_CLAIM))
        if record is None:
            return
        if type(message) not in _ANSWERS:
            self.answered(record, sender, message, out)
            return
        match message:
            case EndAck(_, attempt, place):
                self.acknowledged(acknowledged(record, place, attempt), out)
            case Held(_, attempt, place, units, epoch):
                if attempt == record.attempt and record.phase <= Phase.WAITING and record.got[place] is None:
                    self.held(record, place, units, epoch, out)
                elif attempt == record.attempt and in_doubt(record, place, epoch):
                    self._still_held(known_in(record, place, epoch), place, units, out)
            case Refused(_, attempt, place, epoch, retry_after_ms):
                if attempt == record.attempt and record.phase <= Phase.WAITING:
                    self.refused(record, record.places[place].node, epoch, retry_after_ms, out)
            case Lessened(_, attempt, place, units):
                if attempt == record.attempt:
                    left = tuple(
                        less for less in record.lessening if less.place != place or less.units != len(units)
                    )
                    self.put(msgspec.structs.replace(record, lessening=left), out)
            case Lengthened(_, attempt, place, for_ms, ok):
                if attempt == record.attempt and for_ms == record.for_ms:
                    self.extended(record, place, out, ok=ok)
            case PlaceGone(_, attempt, reason):
                if attempt == record.attempt:
                    # A companion that is not inside yet, or not any more, is no part of its claim.
                    whole = record.parent if record.phase is Phase.INSIDE else None
                    self.lost(whole or record.claim, reason, out)
            case _:
                raise AssertionError(f"{type(message).__name__} is no answer to every claimant by pool")

    # ------------------------------------------------------------ on the way in

    def held(self, record: R, place: int, units: Units, epoch: int, out: Effects) -> None:
        """A place has its units: inside when all have."""
        record = self.note(known_in(with_units(record, place, units), place, epoch))
        if None in record.got:
            self.on_held(record, out)
        else:
            self.go_in(record, out)

    def go_in(self, record: R, out: Effects) -> None:
        """All places have their units, and may be used from now on."""
        record = self.put(msgspec.structs.replace(record, phase=Phase.INSIDE), out)
        self.quiet(record, out)
        if any(want.node == self.node for want in record.places):
            out.append(Send(Address(self.node, MANAGER), Entered(record.claim, record.attempt)))
        self.on_inside(record, out)
        if record.parent is None:
            granted = Granted(record.claim, record.attempt, record.units, self.stamp_of(record))
            out.append(Send(self.agent, granted))
        else:
            self.exchanged(record, out)

    def confirmed(self, node: str, epoch: int, out: Effects) -> bool:
        """Whether the node knows in this epoch all that claims here have of it; else it is asked for the rest.

        A node that starts anew with a journal that lacks its end, or without one, has lost some of it, and can't say
        what. One that is still there is told again, and one that is not is gone.
        """
        doubtful = False
        for claim in sorted(self.claims):
            record = self.claims[claim]
            for place, want in enumerate(record.places):
                if want.node == node and in_doubt(record, place, epoch):
                    doubtful = True
                    out.append(Send(Address(node, MANAGER), AskHeld(claim, record.attempt, place)))
        return not doubtful

    def _still_held(self, record: R, place: int, units: Units, out: Effects) -> None:
        have = record.got[place] or ()
        if len(have) < len(units):
            # The manager has lost its record of a Lessen that it had answered.
            others = (less for less in record.lessening if less.place != place)
            record = msgspec.structs.replace(record, lessening=(*others, Less(place, len(have), have)))
        if record.phase is Phase.INSIDE:
            self.put(record, out)
        else:
            self.note(record)
        if record.lessening:
            self.ask_all(record, out)

    def refused(self, record: R, node: str, epoch: int, after_ms: int, out: Effects) -> None:
        """A manager does not take the claim in: without waiting that is the end, else another attempt follows."""
        if record.phase is Phase.TRYING:
            self.not_now(record, out)
            return
        record = self.again(record, out, node=node, epoch=epoch, paused=after_ms > 0)
        out.append(Send(self.agent, Retrying(record.claim, node, after_ms)))
        if after_ms > 0:
            out.append(SetTimer(f"{RETRY}/{record.claim}", after_ms, after_ms // 8))
        self.ask_all(record, out)

    def again(self, record: R, out: Effects, *, node: str = "", epoch: int = 0, paused: bool = False) -> R:
        """Another attempt, saved; asking is the caller's."""
        fresh = retried(record, node=node, epoch=epoch, paused=paused)
        if self.newer_ends_older and not paused:
            fresh = msgspec.structs.replace(fresh, ending=record.ending)
        return self.put(self.fresh(fresh), out)

    def not_now(self, record: R, out: Effects) -> None:
        """A claim without waiting has come to nothing."""
        if record.parent is None:
            out.append(Send(self.agent, NotNow(record.claim)))
        else:
            out.append(Send(self.agent, ExchangeRefused(record.parent)))
            parent = self.claims[record.parent]
            self.put(msgspec.structs.replace(parent, dropping=(), dropping_units=()), out)
        self.finish(record, out)

    # ------------------------------------------------------------ questions

    def family(self, record: R) -> list[R]:
        """The claim and the companions of its exchanges that are not over."""
        return [record, *(self.claims[one] for one in record.companions if one in self.claims)]

    def put(self, record: R, out: Effects) -> R:
        """Keep it over a crash."""
        self.claims[record.claim] = record
        out.append(Save(f"{CLAIM_KEY}{record.claim}", record))
        return record

    def note(self, record: R) -> R:
        """Keep it, not over a crash: how far a claim that waits has come."""
        self.claims[record.claim] = record
        return record

    def quiet(self, record: R, out: Effects) -> None:
        """Nothing more is to be asked again."""
        if self.again_ms is not None and not self.asks_on(record):
            out.append(CancelTimer(f"{AGAIN}/{record.claim}"))

    def ask_all(self, record: R, out: Effects) -> None:
        """Send everything that is not answered; the same again when its time has come."""
        gone = [(place, number) for place, number in record.ending if self.is_gone(record.places[place].node)]
        if gone:
            for place, number in gone:
                record = acknowledged(record, place, number)
            self.acknowledged(record, out)
            if record.claim not in self.claims:
                return
        claim, attempt, places = record.claim, record.attempt, record.places
        for place, number in record.ending:
            out.append(Send(self.manager_of(record, place), End(claim, number, place)))
        for less in record.lessening:
            message = Lessen(claim, attempt, less.place, less.units, less.named)
            out.append(Send(self.manager_of(record, less.place), message))
        for place in record.extending:
            to = Address(places[place].node, MANAGER)
            out.append(Send(to, Lengthen(claim, attempt, place, record.for_ms)))
        asks_on = record.phase is Phase.INSIDE and self.asks_on(record)
        if (record.phase <= Phase.WAITING and not record.paused) or asks_on:
            self.ask(record, out)
        self.arm(record, out)

    def arm(self, record: R, out: Effects) -> None:
        """Have this asked again."""
        if self.again_ms is not None and (record.open or self.asks_on(record)):
            out.append(SetTimer(f"{AGAIN}/{record.claim}", self.again_ms, self.again_ms // 4))

    def manager_of(self, record: R, place: int) -> Address:
        """Whom a place's messages go to."""
        return Address(record.places[place].node, MANAGER)

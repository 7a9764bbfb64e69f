"""The side of the claims of one node: takes each claim's locks one after the other, in the order of (node, pool).

Saved: the claim before its first Lock, its units before the agent is told, its end before the first Unlock. After a
restart each claim repeats what its phase says.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Self

import msgspec

from holdall.machine.contract import (
    Address,
    CancelTimer,
    Effect,
    Event,
    Forget,
    ProtocolViolation,
    Received,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.protocols.hooks import Effects
from holdall.protocols.ordered.messages import (
    MANAGER,
    ExtendLock,
    Lessen,
    Lessened,
    Lock,
    Locked,
    LockExtended,
    LockGone,
    Refused,
    Unlock,
    Unlocked,
)
from holdall.protocols.ordered.plan import (
    ClaimRecord,
    Less,
    Phase,
    Units,
    begun,
    ended,
    in_doubt,
    known_in,
    lessened,
    retried,
    unlocked,
    with_units,
)
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Ended,
    Exchange,
    Exchanged,
    ExchangeRefused,
    Extend,
    Extended,
    ExtendRefused,
    Gone,
    Granted,
    LeaseLost,
    NotNow,
    Release,
    Retrying,
    Shrink,
    UnitGrant,
    Vector,
)

AGAIN = "again"
RETRY = "retry"


class Claimant:
    """All claims of one node.

    `again_ms`: how long an answer may take before the question is repeated; None: for ever.
    """

    def __init__(self, node: str, agent: Address, *, again_ms: int | None = None) -> None:
        self.node = node
        self.again_ms = again_ms
        self.claims: dict[ClaimId, ClaimRecord] = {}
        self._agent = agent

    # Machine

    def start(self) -> Sequence[Effect]:
        """No claims yet."""
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """Ask again for what waits, end again what was ending. The agent keeps for itself what is held."""
        out: Effects = []
        for key in sorted(records):
            record = records[key]
            if isinstance(record, ClaimRecord):
                self.claims[record.claim] = msgspec.structs.replace(record, paused=False)
        for claim in sorted(self.claims):
            self._ask(self.claims[claim], out)
        return out

    def handle(self, event: Event) -> Sequence[Effect]:
        """One message or timer."""
        out: Effects = []
        match event:
            case Received(_, message):
                self._told(message, out)
            case TimerFired(timer):
                kind, _, name = timer.partition("/")
                node, incarnation, counter = name.rsplit(".", 2)
                record = self.claims.get(ClaimId(node, int(incarnation), int(counter)))
                if record is not None:
                    if kind == RETRY:
                        record = msgspec.structs.replace(record, paused=False)
                        self.claims[record.claim] = record
                    self._ask(record, out)
        return out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return tuple(self.claims[claim] for claim in sorted(self.claims))

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.claims = dict(self.claims)
        return twin

    def _told(self, message: msgspec.Struct, out: Effects) -> None:
        match message:
            case Acquire(claim):
                if claim not in self.claims:
                    self._put(begun(message), out)
                    self._ask(self.claims[claim], out)
            case Release(claim):
                self._release(claim, out)
            case Shrink(claim, keep, units):
                self._shrink(claim, keep, frozenset(units), out)
            case Exchange():
                self._exchange(message, out)
            case Extend(claim, for_ms):
                self._extend(claim, for_ms, out)
            case LeaseLost(claim, reason):
                self._lost(claim, reason, out)
            case _:
                self._answered(message, out)

    def _answered(self, message: msgspec.Struct, out: Effects) -> None:
        """An answer for a claim that is over, or for an earlier attempt, is late and tells nothing new."""
        record = self.claims.get(getattr(message, "claim", ClaimId("", 0, 0)))
        if record is None:
            return
        match message:
            case Unlocked(_, attempt, place):
                self._unlocked(unlocked(record, place, attempt), out)
            case Locked(_, attempt, place, units, epoch):
                if attempt == record.attempt and record.phase <= Phase.WAITING and record.got[place] is None:
                    self._locked(known_in(with_units(record, place, units), place, epoch), out)
                elif attempt == record.attempt and in_doubt(record, place, epoch):
                    self._still_locked(known_in(record, place, epoch), place, units, out)
            case Refused(_, attempt, place, epoch, retry_after_ms):
                if attempt == record.attempt and record.phase <= Phase.WAITING:
                    self._refused(record, record.locks[place].node, epoch, retry_after_ms, out)
                elif attempt == record.attempt and in_doubt(record, place, epoch):
                    self._lost(record.parent or record.claim, "restarted", out)
            case Lessened(_, attempt, place, units):
                if attempt == record.attempt:
                    left = tuple(
                        less for less in record.lessening if less.place != place or less.units != len(units)
                    )
                    self._put(msgspec.structs.replace(record, lessening=left), out)
            case LockExtended(_, attempt, place, for_ms, ok):
                if attempt == record.attempt and for_ms == record.for_ms:
                    self._extended(record, place, out, ok=ok)
            case LockGone(_, attempt, reason):
                if attempt == record.attempt:
                    self._lost(record.parent or record.claim, reason, out)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} is no message for a claimant of ordered")

    # Taking locks

    def _locked(self, record: ClaimRecord, out: Effects) -> None:
        if None in record.got:
            self.claims[record.claim] = record
            if record.phase is Phase.WAITING:
                self._ask(record, out)
            return
        record = msgspec.structs.replace(record, phase=Phase.INSIDE)
        self._put(record, out)
        self._quiet(record, out)
        if record.parent is None:
            out.append(Send(self._agent, Granted(record.claim, record.attempt, record.units)))
        else:
            self._exchanged(record, out)

    def confirmed(self, node: str, epoch: int, out: Effects) -> bool:
        """Whether the node knows in this epoch all locks that claims here have of it; else it is asked for the rest.

        A node that starts anew with a journal that lacks its end, or without one, has lost some of its locks, and
        cannot say which. Each lock is asked for as it was the first time: one that is still there is told again, and
        for one that is not the epoch is the wrong one.
        """
        doubtful = False
        for claim in sorted(self.claims):
            record = self.claims[claim]
            for place, lock in enumerate(record.locks):
                if lock.node == node and in_doubt(record, place, epoch):
                    doubtful = True
                    asked = Lock(
                        claim,
                        record.attempt,
                        place,
                        lock.epoch,
                        lock.pool,
                        lock.units,
                        record.terms,
                        wait=False,
                    )
                    out.append(Send(Address(node, MANAGER), asked))
        return not doubtful

    def _still_locked(self, record: ClaimRecord, place: int, units: Units, out: Effects) -> None:
        have = record.got[place] or ()
        if len(have) < len(units):
            # The manager has lost its record of a Lessen that it had answered.
            others = (less for less in record.lessening if less.place != place)
            record = msgspec.structs.replace(record, lessening=(*others, Less(place, len(have), have)))
        if record.phase is Phase.INSIDE:
            self._put(record, out)
        else:
            self.claims[record.claim] = record
        if record.lessening:
            self._ask(record, out)

    def _refused(self, record: ClaimRecord, node: str, epoch: int, after_ms: int, out: Effects) -> None:
        if record.phase is Phase.TRYING:
            self._not_now(record, out)
            return
        record = retried(record, node=node, epoch=epoch, paused=after_ms > 0)
        self._put(record, out)
        out.append(Send(self._agent, Retrying(record.claim, node, after_ms)))
        if after_ms > 0:
            out.append(SetTimer(f"{RETRY}/{record.claim}", after_ms, after_ms // 8))
        self._ask(record, out)

    def _not_now(self, record: ClaimRecord, out: Effects) -> None:
        if record.parent is None:
            out.append(Send(self._agent, NotNow(record.claim)))
        else:
            out.append(Send(self._agent, ExchangeRefused(record.parent)))
            parent = self.claims[record.parent]
            self._put(msgspec.structs.replace(parent, dropping=(), dropping_units=()), out)
        self._unlocked(ended(record), out, ask=True)

    # Ending

    def _release(self, claim: ClaimId, out: Effects) -> None:
        record = self.claims.get(claim)
        if record is None:
            out.append(Send(self._agent, Ended(claim)))
            return
        if record.phase is Phase.ENDING:
            return
        for companion in self._family(record)[1:]:
            self._unlocked(ended(companion), out, ask=True)
        self._unlocked(ended(record), out, ask=True)

    def _lost(self, claim: ClaimId, reason: str, out: Effects) -> None:
        record = self.claims.get(claim)
        if record is None or record.phase is Phase.ENDING:
            return
        match record.phase:
            case Phase.WAITING:
                record = retried(record)
                self._put(record, out)
                self._ask(record, out)
            case Phase.TRYING:
                self._not_now(record, out)
            case _:
                out.append(Send(self._agent, Gone(claim, reason)))
                self._release(claim, out)

    def _unlocked(self, record: ClaimRecord, out: Effects, *, ask: bool = False) -> None:
        """Keep the record while an Unlock is not answered; then the claim is over."""
        if record.phase is not Phase.ENDING or record.ending:
            self._put(record, out)
            if ask:
                self._ask(record, out)
            return
        self.claims[record.claim] = record
        self._bury(record, out)
        if record.parent is not None and record.parent in self.claims:
            self._bury(self.claims[record.parent], out)

    def _bury(self, record: ClaimRecord, out: Effects) -> None:
        waits = record.phase is not Phase.ENDING or record.ending or len(self._family(record)) > 1
        if waits:
            return
        del self.claims[record.claim]
        out.append(Forget(f"claim/{record.claim}"))
        self._quiet(record, out)
        if record.parent is None:
            out.append(Send(self._agent, Ended(record.claim)))

    # While inside

    def _shrink(
        self, claim: ClaimId, keep: tuple[tuple[str, Vector], ...], named: frozenset[UnitGrant], out: Effects
    ) -> None:
        record = self.claims.get(claim)
        if record is None or record.phase is not Phase.INSIDE:
            return
        for node, vector in keep:
            left = dict(vector)
            for member in self._family(record):
                less = lessened(self.claims[member.claim], node, left, named)
                self._put(less, out)
                self._ask(less, out)

    def _exchange(self, asked: Exchange, out: Effects) -> None:
        record = self.claims.get(asked.claim)
        if (
            record is None
            or record.phase is not Phase.INSIDE
            or record.dropping
            or asked.companion in self.claims
        ):
            out.append(Send(self._agent, ExchangeRefused(asked.claim)))
            return
        record = msgspec.structs.replace(record, dropping=asked.drop, dropping_units=asked.drop_units)
        if not asked.add:
            self._put(record, out)
            self._drop(record, out)
            return
        companion = begun(Acquire(asked.companion, asked.add, wait=False, terms=record.terms), asked.claim)
        self._put(msgspec.structs.replace(record, companions=(*record.companions, asked.companion)), out)
        self._put(companion, out)
        self._ask(companion, out)

    def _exchanged(self, companion: ClaimRecord, out: Effects) -> None:
        parent = self.claims.get(companion.parent) if companion.parent is not None else None
        if parent is None or parent.phase is not Phase.INSIDE:
            self._unlocked(ended(companion), out, ask=True)
        else:
            self._drop(parent, out)

    def _drop(self, record: ClaimRecord, out: Effects) -> None:
        """Give back what the exchange drops: the named units, else the last ones of each pool."""
        drop, going = record.dropping, frozenset(record.dropping_units)
        self._put(msgspec.structs.replace(record, dropping=(), dropping_units=()), out)
        mine = self._units(record)
        keep: list[tuple[str, Vector]] = []
        for node, vector in drop:
            counts: dict[str, int] = {}
            for unit in mine:
                if unit.node == node:
                    counts[unit.pool] = counts.get(unit.pool, 0) + 1
            for pool, units in vector:
                counts[pool] = counts.get(pool, 0) - units
            keep.append((node, tuple(sorted(counts.items()))))
        named = frozenset(unit for unit in mine if unit not in going) if going else frozenset(mine)
        self._shrink(record.claim, tuple(keep), named, out)
        out.append(Send(self._agent, Exchanged(record.claim, self._units(self.claims[record.claim]))))

    def _extend(self, claim: ClaimId, for_ms: int, out: Effects) -> None:
        record = self.claims.get(claim)
        if record is None or record.phase is not Phase.INSIDE:
            out.append(Send(self._agent, ExtendRefused(claim, for_ms)))
            return
        if not self._units(record):
            out.append(Send(self._agent, ExtendRefused(claim, for_ms)))
        for member in self._family(record):
            places = tuple(place for place, units in enumerate(member.got) if units)
            member = msgspec.structs.replace(member, extending=places, for_ms=for_ms)  # noqa: PLW2901
            self._put(member, out)
            self._ask(member, out)

    def _extended(self, record: ClaimRecord, place: int, out: Effects, *, ok: bool) -> None:
        claim = record.parent or record.claim
        if not ok:
            for member in self._family(self.claims[claim]):
                self._put(msgspec.structs.replace(member, extending=(), for_ms=0), out)
            out.append(Send(self._agent, ExtendRefused(claim, record.for_ms)))
            return
        left = tuple(one for one in record.extending if one != place)
        self._put(msgspec.structs.replace(record, extending=left), out)
        if place in record.extending and not any(
            member.extending for member in self._family(self.claims[claim])
        ):
            out.append(Send(self._agent, Extended(claim, record.for_ms)))

    # Questions

    def _family(self, record: ClaimRecord) -> list[ClaimRecord]:
        """The claim and the companions of its exchanges that are not over."""
        return [record, *(self.claims[one] for one in record.companions if one in self.claims)]

    def _units(self, record: ClaimRecord) -> Units:
        return tuple(
            unit for member in self._family(record) if member.phase is Phase.INSIDE for unit in member.units
        )

    def _put(self, record: ClaimRecord, out: Effects) -> None:
        self.claims[record.claim] = record
        out.append(Save(f"claim/{record.claim}", record))

    def _quiet(self, record: ClaimRecord, out: Effects) -> None:
        if self.again_ms is not None:
            out.append(CancelTimer(f"{AGAIN}/{record.claim}"))

    def _ask(self, record: ClaimRecord, out: Effects) -> None:
        """Send everything that is not answered; the same again when its time has come."""
        claim, attempt = record.claim, record.attempt
        for place, number in record.ending:
            lock = record.locks[place]
            out.append(Send(Address(lock.node, MANAGER), Unlock(claim, number, place, lock.pool)))
        for less in record.lessening:
            lock = record.locks[less.place]
            message = Lessen(claim, attempt, less.place, lock.pool, less.units, less.named)
            out.append(Send(Address(lock.node, MANAGER), message))
        for place in record.extending:
            lock = record.locks[place]
            to = Address(lock.node, MANAGER)
            out.append(Send(to, ExtendLock(claim, attempt, place, lock.pool, record.for_ms)))
        if record.phase <= Phase.WAITING and not record.paused:
            waits = record.phase is Phase.WAITING
            missing = [place for place, units in enumerate(record.got) if units is None]
            for place in missing[:1] if waits else missing:
                lock = record.locks[place]
                asked = Lock(claim, attempt, place, lock.epoch, lock.pool, lock.units, record.terms, waits)
                out.append(Send(Address(lock.node, MANAGER), asked))
        if self.again_ms is not None and record.open:
            out.append(SetTimer(f"{AGAIN}/{claim}", self.again_ms, self.again_ms // 4))

"""What a claimant keeps of a claim, and how it changes: pure functions over one frozen record, which is also saved."""

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.vocabulary import Acquire, ClaimId, Terms, UnitGrant, Vector, Visit

Units: TypeAlias = tuple[UnitGrant, ...]


class Phase(IntEnum):
    """Where a claim is."""

    TRYING = 0
    """All locks asked for at once, without waiting."""
    WAITING = 1
    """Locks one after the other."""
    INSIDE = 2
    ENDING = 3


class LockPlan(msgspec.Struct, frozen=True):
    """One lock to take: where, and how many units; `epoch` of its manager as known, or in which it is locked."""

    node: str
    pool: str
    units: int
    epoch: int


class Less(msgspec.Struct, frozen=True):
    """A lock of which a part is to be given back, until the manager has answered."""

    place: int
    units: int
    named: Units


class ClaimRecord(msgspec.Struct, frozen=True, tag="claim"):
    """One claim of this node, and the record of it."""

    claim: ClaimId
    attempt: int
    phase: Phase
    locks: tuple[LockPlan, ...]
    terms: Terms
    got: tuple[Units | None, ...]
    """Per place: the units, or None while not locked."""
    ending: tuple[tuple[int, int], ...] = ()
    """(place, attempt) of the Unlocks that are not answered."""
    lessening: tuple[Less, ...] = ()
    extending: tuple[int, ...] = ()
    """Places that have not answered ExtendLock."""
    for_ms: int = 0
    """The end that is asked for while `extending`."""
    paused: bool = False
    """A manager has asked to come later."""
    parent: ClaimId | None = None
    """This claim is the companion of an exchange."""
    companions: tuple[ClaimId, ...] = ()
    dropping: tuple[tuple[str, Vector], ...] = ()
    """What goes when the exchange under way succeeds."""
    dropping_units: Units = ()

    @property
    def units(self) -> Units:
        """All units that the claim has, in order of its places."""
        return tuple(unit for units in self.got for unit in units or ())

    @property
    def open(self) -> bool:
        """Whether an answer is awaited."""
        asking = self.phase <= Phase.WAITING and not self.paused
        return bool(asking or self.ending or self.lessening or self.extending)

    def touched(self) -> tuple[tuple[int, int], ...]:
        """(place, attempt) of the locks that this attempt may have.

        Of a waiting claim all: how far it has come is not saved, so after a restart nobody knows.
        """
        if self.paused:
            return ()
        return tuple((place, self.attempt) for place, units in enumerate(self.got) if units != ())


def locks_of(need: Sequence[Visit]) -> tuple[LockPlan, ...]:
    """The locks of a need in global order; of alternatives the first."""
    return tuple(
        LockPlan(visit.node, pool, units, visit.epoch)
        for visit in sorted(need, key=lambda visit: visit.node)
        for pool, units in visit.alternatives[0]
    )


def begun(acquire: Acquire, parent: ClaimId | None = None) -> ClaimRecord:
    """A new claim in its first attempt."""
    locks = locks_of(acquire.need)
    return ClaimRecord(
        claim=acquire.claim,
        attempt=1,
        phase=Phase.WAITING if acquire.wait else Phase.TRYING,
        locks=locks,
        terms=acquire.terms,
        got=(None,) * len(locks),
        parent=parent,
    )


def ended(record: ClaimRecord) -> ClaimRecord:
    """Everything is to be unlocked."""
    return msgspec.structs.replace(
        record,
        phase=Phase.ENDING,
        ending=merged(record.ending, record.touched()),
        lessening=(),
        extending=(),
        paused=False,
        dropping=(),
        dropping_units=(),
    )


def retried(record: ClaimRecord, *, node: str = "", epoch: int = 0, paused: bool = False) -> ClaimRecord:
    """Another attempt from the first place on, with the epoch of `node` as it is now."""
    locks = record.locks
    if node:
        locks = tuple(
            msgspec.structs.replace(lock, epoch=epoch) if lock.node == node else lock for lock in locks
        )
    return msgspec.structs.replace(
        record,
        attempt=record.attempt + 1,
        locks=locks,
        got=(None,) * len(locks),
        ending=merged(record.ending, record.touched()),
        paused=paused,
    )


def with_units(record: ClaimRecord, place: int, units: Units) -> ClaimRecord:
    """One place has these units now."""
    return msgspec.structs.replace(record, got=(*record.got[:place], units, *record.got[place + 1 :]))


def known_in(record: ClaimRecord, place: int, epoch: int) -> ClaimRecord:
    """The manager of this place has said in this epoch that it is locked."""
    lock = msgspec.structs.replace(record.locks[place], epoch=epoch)
    return msgspec.structs.replace(record, locks=(*record.locks[:place], lock, *record.locks[place + 1 :]))


def in_doubt(record: ClaimRecord, place: int, epoch: int) -> bool:
    """Whether the lock was given before its manager's `epoch` began, so that the manager may have lost it."""
    return record.phase is not Phase.ENDING and bool(record.got[place]) and record.locks[place].epoch < epoch


def merged(
    ending: tuple[tuple[int, int], ...], more: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    """Per place the highest attempt only: an Unlock ends all earlier ones, too."""
    highest = dict(ending)
    for place, attempt in more:
        highest[place] = max(attempt, highest.get(place, 0))
    return tuple(sorted(highest.items()))


def unlocked(record: ClaimRecord, place: int, attempt: int) -> ClaimRecord:
    """A manager has answered an Unlock."""
    left = tuple((at, number) for at, number in record.ending if at != place or number > attempt)
    return msgspec.structs.replace(record, ending=left)


def lessened(
    record: ClaimRecord, node: str, left: dict[str, int], named: frozenset[UnitGrant]
) -> ClaimRecord:
    """Keep at most `left` units of each pool at a node (what is kept is taken off `left`), named ones first."""
    for place, lock in enumerate(record.locks):
        have = record.got[place]
        if lock.node != node or not have:
            continue
        first = sorted(have, key=lambda unit: unit not in named)
        kept = tuple(sorted(first[: max(0, left.get(lock.pool, 0))]))
        left[lock.pool] = left.get(lock.pool, 0) - len(kept)
        if not kept:
            ending = merged(record.ending, ((place, record.attempt),))
            record = msgspec.structs.replace(with_units(record, place, ()), ending=ending)
        elif len(kept) < len(have):
            less = (*(one for one in record.lessening if one.place != place), Less(place, len(kept), kept))
            record = msgspec.structs.replace(with_units(record, place, kept), lessening=less)
    return record


CODEC.register("ordered claim", ClaimRecord)

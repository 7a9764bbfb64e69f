"""What a claimant keeps of a claim, and how it changes: pure functions over one frozen record, which is also saved.

A protocol that keeps more subclasses ClaimRecord (with a tag of its own); all functions here keep its type and fields.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias, TypeVar

import msgspec

from holdall.protocols.vocabulary import Acquire, ClaimId, Terms, UnitGrant, Vector, Visit

Units: TypeAlias = tuple[UnitGrant, ...]


class Phase(IntEnum):
    """Where a claim is."""

    TRYING = 0
    """Everything now or nothing at all."""
    WAITING = 1
    INSIDE = 2
    ENDING = 3


class Want(msgspec.Struct, frozen=True):
    """One place: where, and how many units; `epoch` of its manager as known, or in which the units are held."""

    node: str
    pool: str
    units: int
    epoch: int


class Less(msgspec.Struct, frozen=True):
    """A place of which a part is to be given back, until the manager has answered."""

    place: int
    units: int
    named: Units


class ClaimRecord(msgspec.Struct, frozen=True, tag="claim"):
    """One claim of this node, and the record of it."""

    claim: ClaimId
    attempt: int
    phase: Phase
    places: tuple[Want, ...]
    terms: Terms
    got: tuple[Units | None, ...]
    """Per place: the units, or None while it has none."""
    ending: tuple[tuple[int, int], ...] = ()
    """(place, attempt) of the Ends that are not answered."""
    lessening: tuple[Less, ...] = ()
    extending: tuple[int, ...] = ()
    """Places that have not answered Lengthen."""
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
        """(place, attempt) of what this attempt may have.

        Of a waiting claim all: how far it has come is not saved, so after a restart nobody knows.
        """
        if self.paused:
            return ()
        return tuple((place, self.attempt) for place, units in enumerate(self.got) if units != ())


R = TypeVar("R", bound=ClaimRecord)


def places_of(need: Sequence[Visit]) -> tuple[Want, ...]:
    """The places of a need in global order; of alternatives the first."""
    return tuple(
        Want(visit.node, pool, units, visit.epoch)
        for visit in sorted(need, key=lambda visit: visit.node)
        for pool, units in visit.alternatives[0]
    )


def begun(made: type[R], acquire: Acquire, parent: ClaimId | None = None) -> R:
    """A new claim in its first attempt."""
    places = places_of(acquire.need)
    return made(
        claim=acquire.claim,
        attempt=1,
        phase=Phase.WAITING if acquire.wait else Phase.TRYING,
        places=places,
        terms=acquire.terms,
        got=(None,) * len(places),
        parent=parent,
    )


def ended(record: R) -> R:
    """Everything is to be ended."""
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


def retried(record: R, *, node: str = "", epoch: int = 0, paused: bool = False) -> R:
    """Another attempt from the first place on, with the epoch of `node` as it is now."""
    places = record.places
    if node:
        places = tuple(
            msgspec.structs.replace(want, epoch=epoch) if want.node == node else want for want in places
        )
    return msgspec.structs.replace(
        record,
        attempt=record.attempt + 1,
        places=places,
        got=(None,) * len(places),
        ending=merged(record.ending, record.touched()),
        paused=paused,
    )


def with_units(record: R, place: int, units: Units) -> R:
    """One place has these units now."""
    return msgspec.structs.replace(record, got=(*record.got[:place], units, *record.got[place + 1 :]))


def known_in(record: R, place: int, epoch: int) -> R:
    """The manager of this place has said in this epoch that the units are held."""
    if record.places[place].epoch == epoch:
        return record
    want = msgspec.structs.replace(record.places[place], epoch=epoch)
    return msgspec.structs.replace(record, places=(*record.places[:place], want, *record.places[place + 1 :]))


def in_doubt(record: ClaimRecord, place: int, epoch: int) -> bool:
    """Whether the units were given before its manager's `epoch` began, so that the manager may have lost it."""
    return record.phase is not Phase.ENDING and bool(record.got[place]) and record.places[place].epoch < epoch


def merged(
    ending: tuple[tuple[int, int], ...], more: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    """Per place the highest attempt only: an End ends all earlier ones, too."""
    highest = dict(ending)
    for place, attempt in more:
        highest[place] = max(attempt, highest.get(place, 0))
    return tuple(sorted(highest.items()))


def acknowledged(record: R, place: int, attempt: int) -> R:
    """A manager has answered an End."""
    left = tuple((at, number) for at, number in record.ending if at != place or number > attempt)
    return msgspec.structs.replace(record, ending=left)


def lessened(record: R, node: str, left: dict[str, int], named: frozenset[UnitGrant]) -> R:
    """Keep at most `left` units of each pool at a node (what is kept is taken off `left`), named ones first."""
    for place, want in enumerate(record.places):
        have = record.got[place]
        if want.node != node or not have:
            continue
        first = sorted(have, key=lambda unit: unit not in named)
        kept = tuple(sorted(first[: max(0, left.get(want.pool, 0))]))
        left[want.pool] = left.get(want.pool, 0) - len(kept)
        if not kept:
            ending = merged(record.ending, ((place, record.attempt),))
            record = msgspec.structs.replace(with_units(record, place, ()), ending=ending)
        elif len(kept) < len(have):
            less = (*(one for one in record.lessening if one.place != place), Less(place, len(kept), kept))
            record = msgspec.structs.replace(with_units(record, place, kept), lessening=less)
    return record

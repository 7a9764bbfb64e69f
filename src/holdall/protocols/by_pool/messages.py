"""The messages that are the same whatever the protocol: the end, giving back, a later end, what is still there.

The sender comes from the connection. `place` is the pool's place in the claim's order; a place is a lease of its own
in the book, under `party(attempt, place)`. Source: common specification, section 1.2 (`end`, `ended`, `gone`).
"""

from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.model.names import POOLS_MAX
from holdall.protocols.vocabulary import ClaimId, Terms, UnitGrant

# Claimant -> manager


class End(msgspec.Struct, frozen=True, tag="end"):
    """The end of this place in this attempt and all earlier ones, also before its first message. Always answered."""

    claim: ClaimId
    attempt: int
    place: int


class Lessen(msgspec.Struct, frozen=True, tag="lessen"):
    """Keep `units` of the place (at least one; the named ones first). Answered by Lessened."""

    claim: ClaimId
    attempt: int
    place: int
    units: int
    named: tuple[UnitGrant, ...] = ()


class Lengthen(msgspec.Struct, frozen=True, tag="lengthen"):
    """A new hard end, whole from the grant. Answered by Lengthened."""

    claim: ClaimId
    attempt: int
    place: int
    for_ms: int


class AskHeld(msgspec.Struct, frozen=True, tag="ask_held"):
    """Has this place its units still? Answered by Held, or by PlaceGone."""

    claim: ClaimId
    attempt: int
    place: int


class Entered(msgspec.Struct, frozen=True, tag="entered"):
    """To the manager of the claim's own node, within the turn: the claim is granted. Other nodes hear it by renewal."""

    claim: ClaimId
    attempt: int


# Manager -> claimant


class Held(msgspec.Struct, frozen=True, tag="held"):
    """All units of the place are set aside for this claim alone, and are known to the manager in this epoch."""

    claim: ClaimId
    attempt: int
    place: int
    units: tuple[UnitGrant, ...]
    epoch: int


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """Not taken in: another epoch, a quarantine, or (without waiting) no units now."""

    claim: ClaimId
    attempt: int
    place: int
    epoch: int
    retry_after_ms: int


class EndAck(msgspec.Struct, frozen=True, tag="end_ack"):
    """Nothing is left of this place, and nothing will be again."""

    claim: ClaimId
    attempt: int
    place: int


class Lessened(msgspec.Struct, frozen=True, tag="lessened"):
    """What is kept of the place."""

    claim: ClaimId
    attempt: int
    place: int
    units: tuple[UnitGrant, ...]


class Lengthened(msgspec.Struct, frozen=True, tag="lengthened"):
    """Answer to Lengthen; `ok` False: the pool allows no end that late, or the place has no units here."""

    claim: ClaimId
    attempt: int
    place: int
    for_ms: int
    ok: bool


RESTARTED = "restarted"
"""Reason of a PlaceGone: the manager has lost what it had given, perhaps before its time."""


class PlaceGone(msgspec.Struct, frozen=True, tag="place_gone"):
    """What this attempt had or waited for here is over: its lease has ended, or the manager has lost it."""

    claim: ClaimId
    attempt: int
    reason: str


ToManager: TypeAlias = End | Lessen | Lengthen | AskHeld | Entered
ToClaimant: TypeAlias = Held | Refused | EndAck | Lessened | Lengthened | PlaceGone

MANAGER = "manager"
"""The part of a node that is its manager."""
CLAIMANT = "claimant"
"""The part of a node that speaks for its claims."""

# Records


class Entry(msgspec.Struct, frozen=True, tag="entry"):
    """A claim at one pool: waiting, or with its units (which the lease book keeps). Protocols add fields of their own.

    A protocol's entry is a subclass with a tag of its own, in a family of records of its own.
    """

    claim: ClaimId
    attempt: int
    place: int
    pool: str
    units: int
    """Wanted while waiting, taken while held; `ALL` until then."""
    terms: Terms
    held: bool = False
    """The units are set aside."""


class Buried(msgspec.Struct, frozen=True, tag="buried"):
    """The highest attempt of a place that is over here."""

    claim: ClaimId
    place: int
    attempt: int


def party(attempt: int, place: int) -> int:
    """The attempt under which the lease book keeps a place: places of one claim on one node are leases of their own."""
    return attempt * POOLS_MAX + place


def attempt_of(party: int) -> int:
    """The attempt of a lease in the book."""
    return party // POOLS_MAX


CODEC.register("by pool", ToManager | ToClaimant)
CODEC.register("by pool record", Buried)

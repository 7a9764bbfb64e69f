"""Between a host's manager and its neighbours on the host: who claims units, the gate that enforces, the operator's part."""

from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.model.terms import LeaseState, Template, TermStatus
from holdall.protocols.vocabulary import UnitGrant


class WantUnits(msgspec.Struct, frozen=True, tag="want_units"):
    """To the part that claims units: a no-wait claim at the pool's manager, which alone gives units.

    `least` to `most` units of one pool for `party`, at once. Answered, in the same turn where the pool is of this node, by
    UnitsAre or UnitsShort. `instead_of`: a party whose units may be among them; they are that one's until `KeepUnits`.
    """

    party: str
    pool: str
    most: int
    least: int
    instead_of: str = ""
    holder: str = ""
    """For people: whose they are to be."""


class KeepUnits(msgspec.Struct, frozen=True, tag="keep_units"):
    """The hold has become a lease; units of the party that it replaces, and which it has not, are free."""

    party: str
    instead_of: str = ""


class FreeUnits(msgspec.Struct, frozen=True, tag="free_units"):
    """All units of the party, and any that are on their way to it, are given back. The same again has no effect."""

    party: str
    ending: LeaseState = "released"
    """Of the lease; a hold that came to nothing has given them back."""


class UnitsAre(msgspec.Struct, frozen=True, tag="units_are"):
    """The party has these."""

    party: str
    pool: str
    units: tuple[UnitGrant, ...]


class UnitsShort(msgspec.Struct, frozen=True, tag="units_short"):
    """Fewer than `least` are free: it has none of this pool."""

    party: str
    pool: str
    free: int


class UnitsLost(msgspec.Struct, frozen=True, tag="units_lost"):
    """From who claims units: units of this pool were taken away from the party, so what it stands for is over."""

    party: str
    pool: str


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """To the gate: uses under this lease are admitted for so long, with this fence or a larger one."""

    lease: str
    holder: str
    fence: int
    duration: int
    terms: tuple[TermStatus, ...]


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """To the gate: admit nothing more. Answered by Drained when admitted work is done."""

    lease: str
    fence: int


class Cut(msgspec.Struct, frozen=True, tag="cut"):
    """To the gate: what is still under way has lingered long enough."""

    lease: str


class Drained(msgspec.Struct, frozen=True, tag="drained"):
    """No admitted work of the lease is left."""

    lease: str


class Measured(msgspec.Struct, frozen=True, tag="measured"):
    """From the gate: how the terms of a lease stand now, with their use, denials, guarantee and enforcement."""

    lease: str
    terms: tuple[TermStatus, ...]


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """From the operator's part: take no new leases; revoke those that live after `drain_ms` (None: they run out)."""

    drain_ms: int | None = None


class Undrain(msgspec.Struct, frozen=True, tag="undrain"):
    """From the operator's part: take leases again. Revocations that were announced stay."""


class Review(msgspec.Struct, frozen=True, tag="review"):
    """From the node's driver, to the host's manager and the location's: end what the policy in force ends, after the grace."""

    grace_ms: int


class Offers(msgspec.Struct, frozen=True, tag="offers"):
    """From the node's driver: this is offered from now on. It has the same capacities and pools, perhaps in other amounts."""

    template: Template


class DivideAmong(msgspec.Struct, frozen=True, tag="divide_among"):
    """From the node's driver: the policy in force divides capacities in another way than before.

    `groups`: term -> weights of the groups among which it is divided first, as fractions; of one that is not here: none.
    """

    groups: dict[str, dict[str, str]] = {}


HostNeighbour: TypeAlias = (
    WantUnits
    | KeepUnits
    | FreeUnits
    | UnitsAre
    | UnitsShort
    | UnitsLost
    | Begin
    | Stop
    | Cut
    | Drained
    | Measured
    | Drain
    | Undrain
    | Review
    | Offers
    | DivideAmong
)

CODEC.register("negotiation-host", HostNeighbour)

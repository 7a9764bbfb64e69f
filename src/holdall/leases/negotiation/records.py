"""What a host's manager keeps over a crash."""

from typing import TypeAlias

import msgspec

from holdall.leases.negotiation.interfaces import Asker
from holdall.machine.codec import CODEC
from holdall.machine.contract import Address
from holdall.model.terms import BeforeEnd, LeaseState, RequestedTerm, TermStatus, TermUse

LEASE_PREFIX = "lease/"
USE_PREFIX = "use/"
SETTING_KEY = "host"


class HeldLease(msgspec.Struct, frozen=True, tag="held_lease"):
    """One hold and what became of it, until it is forgotten."""

    hold: str
    state: LeaseState
    agent: Address
    asker: Asker
    request: str
    wanted: dict[str, RequestedTerm]
    terms: tuple[TermStatus, ...]
    duration: int
    party: str
    """Its name in the books of capacities; another one after each renewal."""
    ending: LeaseState | None = None
    lease: str = ""
    revision: int = 0
    fence: int = 0
    replaces: str = ""
    """The hold whose lease it is to replace."""
    template: str | None = None
    has_units: bool = False
    round: str = ""
    revoked_after_ms: int | None = None
    why: str = ""
    before_end: BeforeEnd | None = None
    before_end_outcome: str = ""
    was_split: bool = False
    """This revision came of a split, not of a renewal."""
    limits: dict[str, tuple[int, str]] = {}
    """What the location's policy lets it have beside the host's own, as its manager said last: as `LeaseLimits.most`."""


class HostRecord(msgspec.Struct, frozen=True, tag="host_record"):
    """The highest epoch of a location's manager that was obeyed, and whether the operator drains the host."""

    epoch: int = 0
    draining: bool = False
    drain_ms: int | None = None


class Metered(msgspec.Struct, frozen=True):
    """What one meter has counted of one term."""

    meter: str
    use: TermUse


class UseRecord(msgspec.Struct, frozen=True, tag="use_record"):
    """What was measured of a lease: of each term `last` by its meter of now, `beside` by a few of lately, and `base` by all others."""

    lease: str
    meters: dict[str, str] = {}
    """By term."""
    base: tuple[TermUse, ...] = ()
    last: tuple[TermUse, ...] = ()
    beside: tuple[Metered, ...] = ()
    """Oldest first."""


NegotiationRecord: TypeAlias = HeldLease | HostRecord | UseRecord

CODEC.register("negotiation-records", NegotiationRecord)

"""What a node offers at its location, beside units: typed values and their defaults. The reader is `settings` beside this."""

from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from holdall.model.terms import Sharing, Value

CapacityUnit: TypeAlias = Literal["B/s", "B", "mcpu"]
Counted: TypeAlias = Literal["reported", "strict"]

CAPACITIES_MAX = 30
"""Capacities and functions of one node; with pools and `stay` a template has 32 terms at most."""


class CapacitySettings(msgspec.Struct, frozen=True):
    """One `[[capacity]]`: so many base units, leased by amount."""

    name: str
    amount: int
    unit: CapacityUnit
    sharing: Sharing = "fair"
    step: int = 1
    least: int = 1
    """Less than so many are never leased."""


class FunctionSettings(msgspec.Struct, frozen=True):
    """One `[[function]]`: what this host is or has, as `service.postgres`."""

    name: str
    values: tuple[Value, ...] = (True,)


class NegotiationSettings(msgspec.Struct, frozen=True):
    """`[location]`: how long leases are, and how long answers take. Times in ms."""

    duration_ms: int = 60_000
    """Where a request names none."""
    duration_min_ms: int = 500
    duration_max_ms: int = 3_600_000
    stay_max_ms: int | None = None
    """Longest `stay`; None: the term is not offered."""
    offer_ms: int = 10_000
    propose_ms: int = 1000


class PolicySettings(msgspec.Struct, frozen=True):
    """`[policy]`: the files that are obeyed; None: everything is allowed."""

    file: Path | None = None
    """Of this host."""
    location: Path | None = None
    """Of the location, while this node manages it."""
    revoke_grace_ms: int = 10_000
    """What a rule with `revoke` leaves a holder."""
    limits: Counted = "reported"
    """How the location's limits are counted by a manager that has begun: of what was reported, or only when all hosts have."""

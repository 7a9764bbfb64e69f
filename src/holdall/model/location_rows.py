"""Rows about a location for whoever looks at it: its hosts, their capacities, and who has which share of them."""

from typing import Literal, TypeAlias

import msgspec

from holdall.model.quantities import BaseUnit
from holdall.model.terms import Sharing

Presence: TypeAlias = Literal["live", "suspect", "gone"]
Place: TypeAlias = Literal["live", "draining", "wanted"]


class HostRow(msgspec.Struct, frozen=True):
    """A host as its location's manager knows it. `suspect`: three heartbeats are missing; `gone`: ten."""

    host: str
    presence: Presence
    draining: bool
    incarnation: int
    """Counts the starts of its process."""
    template: str
    free: dict[str, int] = {}
    """Of its capacities, in base units, as its last heartbeat told."""


class CapacityRow(msgspec.Struct, frozen=True):
    """One capacity of a host. Amounts are in base units; `amount` = `free` + `taken`."""

    term: str
    unit: BaseUnit
    sharing: Sharing
    amount: int
    free: int
    taken: int
    step: int
    demands: int
    """How many there are: leases, offers, and wishes that were refused or have expired lately."""


class ShareRow(msgspec.Struct, frozen=True):
    """One demand on a capacity of a host. Amounts are in base units."""

    term: str
    holder: str
    lease: str
    """Or of an offer its hold; empty: nothing is granted, the demand is remembered for one duration."""
    place: Place
    asked: int
    cap: int | None
    """A policy's, which lessens the demand; None: there is none."""
    weight: str
    """As `1` or `3/2`."""
    group: str
    share: int
    """What it would have if all were renewed now: its part of the water filling. 0 for one that drains."""
    granted: int
    taken: int
    """What counts as used: less than `granted` while it is to replace a lease that still lives."""

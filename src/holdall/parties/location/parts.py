"""The machines of a location on one node, from plain values; policies are given by the driver, as they read a clock."""

from collections.abc import Callable, Mapping

import msgspec

from holdall.leases.divisions import Rule
from holdall.leases.negotiation.interfaces import AllowAll, Policy, Sharing
from holdall.leases.negotiation.settings import HostSettings
from holdall.leases.shares import Shares
from holdall.leases.sorted_sums import Exact
from holdall.leases.templates import template_of
from holdall.machine.contract import Address, Machine
from holdall.model.terms import Durations, TemplateTerm
from holdall.parties.location.candidate import Candidate, CandidateSettings
from holdall.parties.location.dealings import NegotiatorSettings
from holdall.parties.location.host_side import HostSide
from holdall.parties.location.messages import HOST, LOCATION, NEGOTIATOR
from holdall.parties.location.negotiator import Negotiator
from holdall.parties.location.turns import TURNS, Turns
from holdall.parties.location.units import UNITS, Units, UnitsSettings
from holdall.parties.neighbours import Neighbours

MARGIN_MS = 100
"""Longest time that an action takes which a holder has begun."""


class Divided(msgspec.Struct, frozen=True):
    """A capacity: how much there is, in which steps, and whether it is divided by need or given to who comes first."""

    amount: int
    step: int = 1
    rule: Rule = "fair"


class LocationParts(msgspec.Struct, frozen=True):
    """What a node is in its location. `location` empty: in none; its clients may still deal with others."""

    location: str = ""
    terms: dict[str, TemplateTerm] = {}
    """Of its template; without any it offers nothing and has no part `host`."""
    capacities: dict[str, Divided] = {}
    duration: Durations = Durations(500, 3_600_000, 60_000)
    propose_ms: int = 1000
    offer_ms: int = 10_000
    uid: int = 0
    """The node's user, whose claims those of negotiated leases are."""
    ttl_ms: int = 30_000
    seed: int = 0
    """A random number of this process."""
    strict: bool = False
    """Limits of the location are strict."""

    @property
    def has_pools(self) -> bool:
        """Whether units can be negotiated."""
        return any(term.kind == "pool" for term in self.terms.values())


class Policies(msgspec.Struct):
    """In force on one node: its own as a host, and its location's while it manages it."""

    host: Policy = AllowAll()
    location: Policy = AllowAll()
    groups: dict[str, dict[str, Exact]] = {}
    """Capacity -> weights of the groups among which it is divided first; one that is not here has one level."""


def location_parts(
    parts: LocationParts,
    node: str,
    name: str,
    neighbours: Neighbours,
    *,
    policies: Policies,
    rho_ppm: int,
) -> dict[str, Machine]:
    """Part -> machine."""
    negotiator = NegotiatorSettings(node, name, parts.location, rho_ppm, MARGIN_MS)
    turns = Turns(node, parts.uid, ttl_ms=parts.ttl_ms, seed=parts.seed)
    made: dict[str, Machine] = {NEGOTIATOR: Negotiator(negotiator, neighbours), TURNS: turns}
    if not parts.location:
        return made
    settings = CandidateSettings(
        node,
        parts.location,
        has_host=bool(parts.terms),
        propose_ms=parts.propose_ms,
        offer_ms=parts.offer_ms,
        rho_ppm=rho_ppm,
        strict_ms=-(-parts.duration.max * (1_000_000 + rho_ppm) // 1_000_000) if parts.strict else None,
    )
    made[LOCATION] = Candidate(settings, neighbours, policy=policies.location)
    if parts.terms:
        template = template_of(parts.terms, parts.duration)
        units = Address(node, UNITS) if parts.has_pools else None
        host = HostSettings(node, parts.location, (), template, rho_ppm=rho_ppm, units=units)
        made[HOST] = HostSide(
            host, neighbours, sharings=_sharings(parts.capacities, policies.groups), policy=policies.host
        )
    if parts.has_pools:
        made[UNITS] = Units(UnitsSettings(node, name, parts.uid, parts.ttl_ms, parts.seed))
    return made


def _sharings(
    capacities: Mapping[str, Divided], groups: Mapping[str, Mapping[str, Exact]]
) -> Callable[[], Mapping[str, Sharing]]:
    def make() -> dict[str, Sharing]:
        return {
            name: Shares(one.amount, step=one.step, rule=one.rule, groups=groups.get(name))
            for name, one in capacities.items()
        }

    return make

"""A lease book that only counts: units without names and fences, for explorer, simulator and tests."""

from collections.abc import Collection, Hashable, Mapping
from typing import Self

import msgspec

from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId, Terms, UnitGrant

QUARANTINE_TIMER = "quarantine"
"""Of a manager over such a book."""


class CapacityIs(msgspec.Struct, frozen=True, tag="capacity_is"):
    """From the world: units of a pool have left service or come back."""

    pool: str
    units: int


class Departed(msgspec.Struct, frozen=True, tag="departed"):
    """From the world: the claim's lease is over at this node."""

    claim: ClaimId
    reason: str = "expired"


class CountingBook:
    """Capacities and what each claim has. Units are all alike: name "" and fence 0."""

    def __init__(self, node: str, capacities: Mapping[str, int]) -> None:
        self.node = node
        self.granting = True
        """False in quarantine."""
        self._capacities = dict(capacities)
        self._held: dict[tuple[ClaimId, int], tuple[tuple[str, int], ...]] = {}

    def may_grant(self) -> bool:
        return self.granting

    def capacity(self, pool: str) -> int:
        return self._capacities.get(pool, 0)

    def change_capacity(self, pool: str, units: int) -> None:
        """From now on count with so many; tell the manager in the same turn."""
        self._capacities[pool] = units

    def set_aside(
        self, claim: ClaimId, attempt: int, counts: Mapping[str, int], terms: Terms, out: Effects
    ) -> tuple[UnitGrant, ...]:
        del terms, out
        self._held[claim, attempt] = tuple(sorted(counts.items()))
        return self.units(claim, attempt)

    def book(self, claim: ClaimId, attempt: int, out: Effects) -> None:
        """Nothing to note: a count has no state."""

    def give_back(
        self,
        claim: ClaimId,
        attempt: int,
        keep: Mapping[str, int],
        out: Effects,
        named: Collection[UnitGrant] = (),
    ) -> None:
        del out, named
        held = self._held.pop((claim, attempt), ())
        rest = tuple((pool, least) for pool, units in held if (least := min(units, keep.get(pool, 0))) > 0)
        if rest:
            self._held[claim, attempt] = rest

    def extend(self, claim: ClaimId, attempt: int, for_ms: int, out: Effects) -> bool:
        """Any end is fine."""
        del for_ms, out
        return (claim, attempt) in self._held

    def units(self, claim: ClaimId, attempt: int) -> tuple[UnitGrant, ...]:
        return tuple(
            UnitGrant(self.node, pool, "", 0)
            for pool, units in self._held.get((claim, attempt), ())
            for _ in range(units)
        )

    def key(self) -> Hashable:
        """What a claim has is the manager's rows again, so capacities and quarantine are all."""
        return (self.granting, tuple(sorted(self._capacities.items())))

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.node = self.node
        twin.granting = self.granting
        twin._capacities = self._capacities.copy()
        twin._held = self._held.copy()
        return twin

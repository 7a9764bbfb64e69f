"""What a claimant knows of one claim, a class for each phase; also what it saves of it.

Source: chain specification, 2.2 (claimant), 5.5 (siblings) and section 7 (claimant's node restarts).
"""

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.vocabulary import ClaimId, Stamp, Terms, UnitGrant, Vector, Visit

Placement: TypeAlias = tuple[Visit, ...]
PerNode: TypeAlias = tuple[tuple[str, Vector], ...]

SIBLINGS_MAX = 4
_SIBLING_SHIFT = 40
"""Claims that an agent counts stay below 2^40; a sibling's number stands above that."""


def sibling(claim: ClaimId, number: int) -> ClaimId:
    """The id of a placement of a claim; number 0 is the claim itself."""
    return ClaimId(claim.node, claim.incarnation, claim.counter + (number << _SIBLING_SHIFT))


def is_sibling(claim: ClaimId) -> bool:
    """Whether it is a placement of a claim, and not the first one."""
    return claim.counter >> _SIBLING_SHIFT > 0


def family_of(claim: ClaimId) -> ClaimId:
    """The claim that the agent knows, of one of its placements."""
    if not is_sibling(claim):
        return claim
    return ClaimId(claim.node, claim.incarnation, claim.counter & ((1 << _SIBLING_SHIFT) - 1))


class Plan(msgspec.Struct, frozen=True):
    """What does not change from phase to phase."""

    need: Placement
    terms: Terms
    wait: bool
    companion_of: ClaimId | None = None
    """The claim that gets these units by an exchange."""
    spares: tuple[Placement, ...] = ()
    """Placements over several nodes that come next if this one takes long; only one waits at a time."""
    replans: int = 0
    """How often the placement has been changed."""

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple([visit.node for visit in self.need])


class Phase(msgspec.Struct, frozen=True):
    """Common to all phases."""

    claim: ClaimId
    attempt: int
    plan: Plan
    owed: tuple[tuple[str, int], ...] = ()
    """(node, attempt) of each Done that is not acknowledged; at most one per node, nodes ascending."""


class Trying(Phase, frozen=True, tag="trying", cache_hash=True):
    """Asked all nodes at once."""

    stamp: Stamp | None = None
    yes: tuple[tuple[str, tuple[UnitGrant, ...]], ...] = ()
    """Nodes that have set units aside, ascending. Not saved at each answer: asked again after a restart."""
    drop: tuple[UnitGrant, ...] = ()
    """In an exchange: what goes when this comes."""


class Waiting(Phase, frozen=True, tag="waiting", cache_hash=True):
    """In line somewhere along the need."""

    stamp: Stamp | None = None
    """The age, once known."""
    paused: bool = False
    """Refused; this attempt has not been asked for yet."""


class Inside(Phase, frozen=True, tag="inside", cache_hash=True):
    """Granted."""

    units: tuple[UnitGrant, ...] = ()
    """What the holder may use of this claim (companions count by themselves)."""
    stamp: Stamp | None = None
    companions: tuple[ClaimId, ...] = ()
    swapping: ClaimId | None = None
    """The companion of an exchange that is under way."""
    shrunk: tuple[str, ...] = ()
    """Nodes that were told to keep less; told again with every renewal."""
    extending: int | None = None
    """The new hard end in ms that not all nodes have answered yet,"""
    unextended: tuple[tuple[ClaimId, str], ...] = ()
    """and those nodes, each with the claim (this one or a companion) that has units there."""


class Ending(Phase, frozen=True, tag="ending", cache_hash=True):
    """Told all nodes that it is over; waits for those in `owed`."""


AnyPhase: TypeAlias = Trying | Waiting | Inside | Ending
ClaimantRecord: TypeAlias = AnyPhase

CODEC.register("chain claim", ClaimantRecord)


def owing(
    owed: tuple[tuple[str, int], ...], nodes: Iterable[str], attempt: int
) -> tuple[tuple[str, int], ...]:
    """With a Done of this attempt sent to the nodes."""
    now = dict(owed)
    for node in nodes:
        now[node] = max(attempt, now.get(node, 0))
    return tuple(sorted(now.items()))


def acknowledged(owed: tuple[tuple[str, int], ...], node: str, attempt: int) -> tuple[tuple[str, int], ...]:
    """Without what the node's acknowledgement covers."""
    return tuple([(name, last) for name, last in owed if name != node or last > attempt])


def counted(units: Iterable[UnitGrant], node: str) -> Vector:
    """How many of the units each pool of one node has."""
    return tuple(sorted(Counter(unit.pool for unit in units if unit.node == node).items()))


def kept_of(units: tuple[UnitGrant, ...], keep: PerNode) -> tuple[UnitGrant, ...]:
    """The first units of each pool, as many as are to be kept."""
    room = Counter({(node, pool): count for node, vector in keep for pool, count in vector})
    kept: list[UnitGrant] = []
    for unit in units:
        if room[unit.node, unit.pool] > 0:
            room[unit.node, unit.pool] -= 1
            kept.append(unit)
    return tuple(kept)


def without(units: tuple[UnitGrant, ...], gone: Iterable[UnitGrant]) -> tuple[UnitGrant, ...]:
    """The units but for those that go; alike ones are counted."""
    rest = Counter(gone)
    kept: list[UnitGrant] = []
    for unit in reversed(units):
        if rest[unit] > 0:
            rest[unit] -= 1
        else:
            kept.append(unit)
    return tuple(reversed(kept))


def dropped_of(units: tuple[UnitGrant, ...], drop: PerNode) -> tuple[UnitGrant, ...]:
    """The last units of each pool, as many as go."""
    return kept_of(units[::-1], drop)


def common(units: tuple[UnitGrant, ...], chosen: Iterable[UnitGrant]) -> tuple[UnitGrant, ...]:
    """Those of the units that are among the chosen; alike ones are counted."""
    room = Counter(chosen)
    kept: list[UnitGrant] = []
    for unit in units:
        if room[unit] > 0:
            room[unit] -= 1
            kept.append(unit)
    return tuple(kept)

"""What a closed world consists of, as plain values: pools on nodes, claims of clients, settings of the protocol.

A world written by hand: pools `gpu@n1=2` (two units of pool gpu on node n1) and claims `gpu@n1:1,bench@n2:1` (nodes
in visiting order, pools of one node together). Each claim has a claimant host of its own unless `of=NAME` joins
several on one host.
"""

import re
from typing import Literal

import msgspec

from holdall.protocols.vocabulary import Vector

NAME = r"[a-z0-9][a-z0-9._-]{0,62}"
_POOL = re.compile(rf"({NAME})@({NAME})=(\d+)")
_PART = re.compile(rf"({NAME})@({NAME})(?::(\d+))?")

HOSTS_MAX = 12
UNITS_MAX = 1000


class BadWorld(ValueError):
    """A world that can't be read or makes no sense; the text names the next step."""


class PoolSize(msgspec.Struct, frozen=True, order=True):
    """One pool of a node and its number of units."""

    node: str
    pool: str
    units: int


class Place(msgspec.Struct, frozen=True, order=True):
    """One node of a claim's need: 1 to 4 alternative vectors, in order of preference."""

    node: str
    alternatives: tuple[Vector, ...]


class GiveBack(msgspec.Struct, frozen=True, tag="give_back", order=True):
    """While inside: keep this much on each node named, give the rest back."""

    keep: tuple[tuple[str, Vector], ...]


class Swap(msgspec.Struct, frozen=True, tag="swap", order=True):
    """While inside: add these units if they are free now, then drop those."""

    add: tuple[Place, ...]
    drop: tuple[tuple[str, Vector], ...]


class ClaimPlan(msgspec.Struct, frozen=True, order=True):
    """What one client does: claim, be inside, the further steps in order, end; `repeat` times.

    `clock`: the clock of a stamp that the claim brings with it (a claim that kept its age); None: the first node
    stamps. `group`: claims with the same group are siblings, of which one may be inside. `departs`: the whole host
    of this claimant may fall silent for ever when the budget of departures allows it.
    """

    host: str
    need: tuple[Place, ...]
    wait: bool = True
    clock: int | None = None
    steps: tuple[GiveBack | Swap, ...] = ()
    repeat: int = 1
    holder: str = ""
    siblings: tuple[tuple[Place, ...], ...] = ()
    ends: bool = True
    """False: stays inside for ever (never used in worlds where everybody must be served)."""
    endless: bool = False
    """It comes again and again, each time under a name that nobody has heard of."""


class World(msgspec.Struct, frozen=True):
    """A closed world. `passes` and `passes_per_ahead` are the chain's bound of overtaking."""

    name: str
    pools: tuple[PoolSize, ...]
    claims: tuple[ClaimPlan, ...]
    passes: int = 1
    passes_per_ahead: int = 0
    limits: tuple[tuple[str, str, str, int], ...] = ()
    """(node, pool, holder, units): how much one holder may have of a pool."""
    tell_stamp: bool = False
    """Claims are told the age that their first node gave them (they keep it when they must come again)."""
    book: Literal["counting", "leases"] = "counting"
    """What stands behind a manager: a book that only counts, or the shipped lease book with named units."""
    expiring: tuple[str, str] | None = None
    """(claimant's host, node): only this lease may end by a fault; None: any. With one expiry, the runs for all pairs
    are together the run for any."""
    try_from: int = 4
    """A waiting claim over so many nodes tries all at once first."""
    meter: bool = False
    """Count, independently of the machines, who gets ahead of whom."""
    mutant: str = ""
    """Name of the rule that is taken away; empty: the shipped machines."""

    def nodes(self) -> tuple[str, ...]:
        """Nodes that own pools, ascending."""
        return tuple(sorted({pool.node for pool in self.pools}))

    def claimants(self) -> tuple[str, ...]:
        """Hosts of the claimants, ascending."""
        return tuple(sorted({claim.host for claim in self.claims}))

    def capacity(self) -> dict[tuple[str, str], int]:
        """(node, pool) -> units."""
        return {(pool.node, pool.pool): pool.units for pool in self.pools}


def deals_with(world: World, host: str, node: str) -> bool:
    """Whether a claim of this host wants, or may exchange something for, units of the node."""
    for plan in world.claims:
        added = [place for step in plan.steps if isinstance(step, Swap) for place in step.add]
        places = [*plan.need, *added, *(place for sibling in plan.siblings for place in sibling)]
        if plan.host == host and any(place.node == node for place in places):
            return True
    return False


def checked(world: World) -> World:
    """The same world, or BadWorld: every need must fit the pools, or nobody could ever be served."""
    if not world.claims:
        raise BadWorld("a world needs at least one claim; add --claim POOL@NODE:COUNT")
    capacity = world.capacity()
    if len(capacity) != len(world.pools):
        raise BadWorld("a pool is named twice on one node; name each pool@node once")
    if len(world.nodes()) + len(world.claimants()) > HOSTS_MAX:
        raise BadWorld(f"more than {HOSTS_MAX} hosts; exhaustive search needs a smaller world")
    for number, claim in enumerate(world.claims, start=1):
        places = [*claim.need, *(place for sibling in claim.siblings for place in sibling)]
        if not claim.need:
            raise BadWorld(f"claim {number} needs nothing; write POOL@NODE:COUNT")
        if len({place.node for place in claim.need}) != len(claim.need):
            raise BadWorld(f"claim {number} visits a node twice; put the pools of one node together")
        for place in places:
            for vector in place.alternatives:
                _check_vector(number, place.node, vector, capacity)
    return world


def _check_vector(number: int, node: str, vector: Vector, capacity: dict[tuple[str, str], int]) -> None:
    for pool, count in vector:
        units = capacity.get((node, pool))
        if units is None:
            known = ", ".join(sorted(f"{p}@{n}" for n, p in capacity))
            raise BadWorld(f"claim {number} wants {pool}@{node}, which is no pool of this world ({known})")
        if not 1 <= count <= units:
            raise BadWorld(f"claim {number} wants {count} of {pool}@{node}; 1 to {units} can be had")


def read_pool(text: str) -> PoolSize:
    """`gpu@n1=2`. Raises BadWorld."""
    match = _POOL.fullmatch(text)
    if match is None:
        raise BadWorld(f"can't read pool {text!r}; write POOL@NODE=UNITS, e.g. gpu@n1=2")
    pool, node, units = match.group(1), match.group(2), int(match.group(3)[:9])
    if not 1 <= units <= UNITS_MAX:
        raise BadWorld(f"pool {text!r}: 1 to {UNITS_MAX} units")
    return PoolSize(node, pool, units)


def read_claim(text: str, number: int, *, repeat: int = 1) -> ClaimPlan:
    """`gpu@n1:1,bench@n2:1`: nodes in visiting order; claim `number` gets the host `c<number>`. Raises BadWorld."""
    wanted: dict[str, dict[str, int]] = {}
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise BadWorld(f"can't read {part!r} of claim {text!r}; write POOL@NODE:COUNT, e.g. gpu@n1:1")
        pool, node, count = match.group(1), match.group(2), int((match.group(3) or "1")[:9])
        pools = wanted.setdefault(node, {})
        if pool in pools:
            raise BadWorld(f"claim {text!r} names {pool}@{node} twice; add the counts")
        pools[pool] = count
    need = tuple(Place(node, (tuple(sorted(pools.items())),)) for node, pools in wanted.items())
    return ClaimPlan(f"c{number}", need, repeat=repeat)


def read_world(
    pools: list[str], claims: list[str], *, repeat: int = 1, passes: int = 1, passes_per_ahead: int = 0
) -> World:
    """A world from the texts of the command line. Raises BadWorld."""
    sizes = tuple(sorted(read_pool(text) for text in pools))
    plans = tuple(read_claim(text, number, repeat=repeat) for number, text in enumerate(claims, start=1))
    return checked(World("custom", sizes, plans, passes, passes_per_ahead))

"""The steps of the history of lanes as closed systems: `ballot` (the printed lanes, repaired) and `skeen`."""

from collections.abc import Hashable, Sequence

import msgspec

from holdall.machine.contract import Address, Machine
from holdall.protocols.literal.lanes import PoolState
from holdall.protocols.literal.skeen import Line, SkeenAgent, SkeenPool
from holdall.world.literal.closed import LiteralSystem
from holdall.world.literal.lanes import WITHDRAWS, LaneSystem
from holdall.world.literal.rows import Row
from holdall.world.named import plan, world
from holdall.world.plan import ClaimPlan, World


class SkeenSystem(LiteralSystem):
    """Pools with clocks, agents that decide."""

    def __init__(self, world: World) -> None:
        super().__init__(world, units=True)

    def manager(self, node: str) -> Machine:
        """A pool."""
        (pool,) = (pool for pool in self.world.pools if pool.node == node)
        return SkeenPool(pool.units)

    def claimant(self, host: str, agent: Address) -> Machine:
        """The claims of a host."""
        return SkeenAgent(agent)

    def idle(self, facts: Hashable) -> bool:
        """No entry."""
        return not isinstance(facts, Line) or not facts.entries


class BallotSystem(LaneSystem):
    """The printed lanes with all repairs of row L8; an abandoned bid may leave nothing behind."""

    def __init__(self, world: World) -> None:
        # Claims that come again under two rounds each are some millions of states: there, one round each.
        rounds = 1 if any(claim.repeat > 1 for claim in world.claims) else 2
        super().__init__(world, msgspec.structs.replace(WITHDRAWS, rounds=rounds))

    def idle(self, facts: Hashable) -> bool:
        """No lane, accepted or written."""
        return not isinstance(facts, PoolState) or not facts.lanes


def _worlds() -> dict[str, Row]:
    both: Sequence[str | ClaimPlan] = ("0->1", "0->1")
    twice = [plan("0->1", repeat=2), plan("0", repeat=2)]
    found = [
        Row(world=world("same", "a", both), shows="two claims of the same two pools"),
        Row(world=world("line", "a", ["0->1", "1->2"]), shows="two claims that share one pool"),
        Row(world=world("mixed", "a", ["0->1", "0"]), shows="two pools against one"),
        Row(world=world("twice", "a", twice), shows="two pools against one, two times each"),
    ]
    return {row.world.name: row for row in found}


STEP_ROWS = _worlds()


def step_worlds(repeat: int | None = None) -> dict[str, World]:
    """Worlds of both steps by name; `repeat` is how often the claims of `twice` come."""
    found = {name: row.world for name, row in STEP_ROWS.items()}
    if repeat is not None:
        claims = tuple(msgspec.structs.replace(claim, repeat=repeat) for claim in found["twice"].claims)
        found["twice"] = msgspec.structs.replace(found["twice"], claims=claims)
    return found

"""The two-resource algorithm as printed, as a closed system, and the worlds of its counter-examples."""

from collections.abc import Hashable, Sequence

import msgspec

from holdall.machine.contract import Address, Machine
from holdall.machine.host import Host
from holdall.protocols.literal.strong_weak import Resource, ResourceState, StrongWeakRules
from holdall.protocols.literal.strong_weak_client import StrongWeakClient
from holdall.world.literal import strong_weak_scripts
from holdall.world.literal.closed import LiteralSystem
from holdall.world.literal.rows import Row
from holdall.world.named import world
from holdall.world.plan import BadWorld, ClaimPlan, PoolSize, World


class StrongWeakRow(Row, frozen=True, kw_only=True):
    """A row with the rules that it is explored under."""

    rules: StrongWeakRules
    judged: tuple[str, ...] = ()
    """Names of what a resource may see go wrong that end the search here; deadlock and exclusion always do."""


class StrongWeakSystem(LiteralSystem):
    """Resources on a ring, the first of which is the root; clients."""

    def __init__(self, world: World, rules: StrongWeakRules, judged: tuple[str, ...] = ()) -> None:
        super().__init__(world)
        if any(len(claim.need) > 2 for claim in world.claims):
            raise BadWorld("the printed algorithm serves one or two resources; leave the others out")
        if len(world.claimants()) < len(world.claims):
            raise BadWorld(
                "a client of the printed algorithm has one claim; give each claim a host of its own"
            )
        self.rules = rules
        self._judged = judged

    def manager(self, node: str) -> Machine:
        """A resource."""
        ring = self.world.nodes()
        at = ring.index(node)
        return Resource(node, ring[(at + 1) % len(ring)], self.rules, root=at == 0)

    def claimant(self, host: str, agent: Address) -> Machine:
        """A client."""
        return StrongWeakClient(agent)

    def wrong_here(self, host: Host, facts: Hashable) -> str:
        """What this world judges."""
        if not isinstance(facts, ResourceState) or facts.wrong.partition(":")[0] not in self._judged:
            return ""
        return f"{facts.wrong} (at {host.node})"

    def idle(self, facts: Hashable) -> bool:
        """No request is in a queue."""
        return not isinstance(facts, ResourceState) or not (facts.strong or facts.weak or facts.buffer)


PRINTED = StrongWeakRules()
L1 = StrongWeakRules(done_target=True)
L2 = StrongWeakRules(done_target=True, holder_sends=True)
L5 = StrongWeakRules(done_target=True, holder_sends=True, served_leaves=True, rmin_local=True)
L6 = StrongWeakRules(done_target=True, holder_sends=True, served_leaves=True, rmin_local=True, ready_id=True)
L7 = msgspec.structs.replace(L6, seek_again=True)


def _row(
    name: str, claims: Sequence[str | ClaimPlan], rules: StrongWeakRules, shows: str, *judged: str
) -> StrongWeakRow:
    return StrongWeakRow(world=world(name, "a", claims), rules=rules, shows=shows, judged=judged)


def _rows() -> dict[str, StrongWeakRow]:
    """The rows of the strong-weak specification, section 2, that are traces."""
    share, opposite = ("0->2", "1->2"), ("0->1", "1->0")
    # The root is a resource of its own that nobody wants, so that the token stays away from the cycle.
    away, ring = ("1->2", "2->1", "2"), ("0->1", "1->2", "2->0")
    found = [
        _row("L1", ["1->0"], PRINTED, "one client alone: Done goes nowhere"),
        _row("L2", ["1"], L1, "who does not hold the token sends one", "two tokens"),
        _row("L5", share, L2, "rmin is infinite where the token has never been", "rmin"),
        _row("L6", share, L5, "one Boolean for the readiness of two clients"),
        _row("L6-repaired", share, L6, "clean"),
        _row("L7", away, L6, "deadlock right after a correct kill"),
        _row("L8", opposite, L6, "a kill overtakes the move it is to undo", "nothing to move"),
        _row("L9", opposite, L6, "a stale acknowledgement: a strong request is destroyed", "destroyed"),
        _row("L10", opposite, L6, "one cycle, two kills: an innocent head is rotated", "rotated"),
        _row("L11", ring, L6, "Done pops whoever is head: a client is dismissed unserved"),
        _row("L12", opposite, L7, "seek again until NoLoop: two clients inside"),
    ]
    rows = {row.world.name: row for row in found}
    for name, nodes in (("L2", 2), ("L7", 3)):
        pools = tuple(PoolSize(f"n{number}", "a", 1) for number in range(nodes))
        wider = msgspec.structs.replace(rows[name].world, pools=pools)
        rows[name] = msgspec.structs.replace(rows[name], world=wider)
    for name, script in (("L7", strong_weak_scripts.L7), ("L12", strong_weak_scripts.L12)):
        rows[name] = msgspec.structs.replace(rows[name], script=script)
    return rows


ROWS = _rows()


def strong_weak_worlds(repeat: int | None = None) -> dict[str, World]:
    """The worlds of the rows by name; nothing here comes for ever."""
    del repeat
    return {name: row.world for name, row in ROWS.items()}


def strong_weak_system(world: World) -> StrongWeakSystem:
    """The rules of a row for its world; for any other world the pseudo-code as printed."""
    row = ROWS.get(world.name)
    return StrongWeakSystem(world, PRINTED) if row is None else StrongWeakSystem(world, row.rules, row.judged)

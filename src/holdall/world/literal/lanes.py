"""The slotting protocol as printed, as a closed system, and the worlds of its counter-examples."""

from collections.abc import Hashable, Sequence
from typing import cast

import msgspec

from holdall.machine.contract import Address, Machine
from holdall.machine.host import Host
from holdall.protocols.literal.lanes import LaneAgent, LanePool, LaneRules, PoolState
from holdall.protocols.literal.lanes_distance import lowered
from holdall.world.literal import lane_scripts
from holdall.world.literal.closed import LiteralSystem
from holdall.world.literal.rows import Row
from holdall.world.named import plan, world
from holdall.world.plan import ClaimPlan, World


class LaneRow(Row, frozen=True, kw_only=True):
    """A row with the rules that it is explored under."""

    rules: LaneRules
    pointers: tuple[int, ...] = ()
    """Initial promise pointers, in the order of the nodes; empty: all 0."""


class LaneSystem(LiteralSystem):
    """Request pools and agents."""

    def __init__(self, world: World, rules: LaneRules, pointers: tuple[int, ...] = ()) -> None:
        super().__init__(world)
        self.rules = rules
        self._pointers = dict(zip(world.nodes(), pointers or (0,) * len(world.nodes()), strict=True))

    def manager(self, node: str) -> Machine:
        """A request pool."""
        return LanePool(self.rules, self._pointers[node])

    def claimant(self, host: str, agent: Address) -> Machine:
        """The agents of a host."""
        return LaneAgent(host, agent, self.rules)

    def wrong_here(self, host: Host, facts: Hashable) -> str:
        """One index of one pool belongs to one agent; an agent writes only where it has been accepted."""
        if not isinstance(facts, PoolState) or not facts.wrong:
            return ""
        return f"{facts.wrong} of {host.node}"

    def idle(self, facts: Hashable) -> bool:
        """No lane is written here; the promises to agents that gave up count for nothing."""
        return not isinstance(facts, PoolState) or not any(lane.written for lane in facts.lanes)

    def relative(
        self, hosts: Sequence[Host], in_flight: Sequence[tuple[str, str, msgspec.Struct]]
    ) -> Hashable:
        """Everything by its distance from the least promise pointer (printed rules: nothing else is compared)."""
        states = [cast("msgspec.Struct", next(iter(host.parts.values())).key()) for host in hosts]
        least = min(state.pp for state in states if isinstance(state, PoolState))
        messages = frozenset((sender, to, lowered(message, least)) for sender, to, message in in_flight)
        return tuple(lowered(state, least) for state in states), messages


BOTH = ("0->1", "0->1")
ALEXEI = LaneRules()
RAISES = LaneRules(accept_raises=True)
TAKES = LaneRules(accept_raises=True, take=True)
ACCEPTED = LaneRules(accept_raises=True, take=True, consumption="accepted")
WITHDRAWS = LaneRules(accept_raises=True, take=True, consumption="accepted", withdraw=True)
PAULIUS = LaneRules(combined=True)
PROMISED = LaneRules(combined=True, consumption="promised")


def _rules(rules: LaneRules, **more: object) -> LaneRules:
    return msgspec.structs.replace(rules, **more)


def _row(
    name: str,
    claims: Sequence[str | ClaimPlan],
    rules: LaneRules,
    pointers: tuple[int, ...],
    shows: str,
    script: str = "",
) -> LaneRow:
    made = world(name, "a", claims)
    return LaneRow(world=made, rules=rules, pointers=pointers, shows=shows, script=script)


def _rows() -> dict[str, LaneRow]:
    """The rows of the history of lanes, section 2."""
    after = [plan("0->1", host="c1"), plan("0", host="c1")]
    endless = _rules(ALEXEI, rounds=None)
    hasty, fifty = _rules(WITHDRAWS, hasty=True), _rules(PAULIUS, rounds=50, stands=True)
    found = [
        _row("L1", BOTH, ALEXEI, (0, 0), "as printed, equal pointers: two agents write one index"),
        _row("L2", BOTH, ALEXEI, (0, 1), "unique pointers: a late write, deadlock"),
        _row("L3", after, ALEXEI, (0, 1), "one agent after the other, and still one index twice"),
        _row("L4", ["0->1", "1->2"], ALEXEI, (0, 1, 2), "unique pointers on a chain: one index twice"),
        _row("L4-lucky", ["0->1", "1->2"], ALEXEI, (2, 0, 1), "the same pointers otherwise: clean, by luck"),
        _row("L5", BOTH, RAISES, (0, 0), "accept raises the pointer: one index twice all the same"),
        _row("L6", BOTH, TAKES, (0, 0), "and an index is taken once: a late write, deadlock"),
        _row("L7", BOTH, ACCEPTED, (0, 0), "and order of acceptance: an abandoned round blocks a pool"),
        _row("L8", BOTH, WITHDRAWS, (0, 0), "and abandoned rounds are withdrawn: clean"),
        _row("L9", BOTH, hasty, (0, 0), "but restart at the first reject: a stale accept is counted"),
        _row("LL", BOTH, endless, (0, 0), "each outdates the other's reservation, for ever", lane_scripts.LL),
        _row("LL-unique", BOTH, endless, (0, 1), "the same from unique pointers", lane_scripts.LL_UNIQUE),
        _row("P1", ["0->1"], fifty, (0, 1), "steps 3 and 4 in one: alone, and no lane in 50 rounds"),
        _row("P2", BOTH, PAULIUS, (0, 0), "steps 3 and 4 in one: a late write, deadlock"),
        _row("P3", BOTH, PROMISED, (0, 0), "and order of indices: an abandoned promise is a hole"),
        _row("P4", BOTH, _rules(PROMISED, withdraw=True), (0, 0), "and withdrawn: clean"),
    ]
    return {row.world.name: row for row in found}


ROWS = _rows()


def lane_worlds(repeat: int | None = None) -> dict[str, World]:
    """The worlds of the rows by name; nothing here comes for ever."""
    del repeat
    return {name: row.world for name, row in ROWS.items()}


def lane_system(world: World) -> LaneSystem:
    """The rules of a row for its world; for any other world the note as printed, with the negotiated index."""
    row = ROWS.get(world.name)
    return LaneSystem(world, ALEXEI) if row is None else LaneSystem(world, row.rules, row.pointers)


def combined_system(world: World) -> LaneSystem:
    """As `lane_system`, but any other world runs the variant with steps 3 and 4 in one."""
    return lane_system(world) if world.name in ROWS else LaneSystem(world, PAULIUS)

"""The game of tasks as printed, as a closed system, and the worlds of its counter-examples."""

from collections.abc import Hashable, Sequence
from typing import Literal, cast

import msgspec

from holdall.machine.contract import Address, Machine, Message
from holdall.machine.host import Host
from holdall.protocols.literal.game_distance import Distance
from holdall.protocols.literal.game_manager import GameManager, PoolState
from holdall.protocols.literal.game_messages import Form, View
from holdall.protocols.literal.game_rules import GameRules
from holdall.protocols.literal.game_task import GameTask, Tasks
from holdall.protocols.vocabulary import ClaimId
from holdall.world.literal import game_scripts
from holdall.world.literal.closed import CLAIMANT, MANAGER, LiteralSystem
from holdall.world.literal.rows import Row
from holdall.world.named import world
from holdall.world.plan import BadWorld, ClaimPlan, World


class GameRow(Row, frozen=True, kw_only=True):
    """A row with the rules that it is explored under."""

    rules: GameRules
    present: bool = True
    """All tasks are in the competition from the start; False: they register first."""
    consistent: Literal["", "requests", "orders"] = ""
    """Judge what the paper says of a pool's data: no request without admission, or no order form without request."""


class GameSystem(LiteralSystem):
    """Resource managers and tasks."""

    def __init__(self, world: World, rules: GameRules, *, present: bool, consistent: str = "") -> None:
        super().__init__(world, units=True)
        if len(world.claimants()) < len(world.claims):
            raise BadWorld("a host of the printed game plays one task; give each claim a host of its own")
        self.rules = rules
        self._present = present
        self._consistent = consistent
        self._units = {pool.node: pool.units for pool in world.pools}

    def manager(self, node: str) -> Machine:
        """A resource manager."""
        interested = [
            ClaimId(claim.host, 1, slot)
            for slot, claim in enumerate(self.world.claims, start=1)
            if any(place.node == node for place in claim.need)
        ]
        return GameManager(self.rules, self._units[node], tuple(interested) if self._present else ())

    def claimant(self, host: str, agent: Address) -> Machine:
        """The tasks of a host."""
        return GameTask(agent, self.rules, self._units, present=self._present)

    def wrong_here(self, host: Host, facts: Hashable) -> str:
        """Every winning form has an effect; in some rows the paper's consistency of a pool's data."""
        if not isinstance(facts, PoolState):
            return ""
        if facts.wrong:
            return f"{facts.wrong} of {host.node}"
        asked = {request.claim for request in facts.view.requests}
        if self._consistent == "requests" and (stray := asked - set(facts.view.admitted)):
            return f"inconsistent: {min(stray)} has a request at {host.node} and no admission form"
        if self._consistent == "orders" and (stray := set(facts.view.ordered) - asked):
            return f"inconsistent: {min(stray)} has an order form at {host.node} and no request"
        return ""

    def idle(self, facts: Hashable) -> bool:
        """No form of any task is left."""
        if not isinstance(facts, PoolState):
            return True
        return msgspec.structs.replace(facts.view, version=0) == View()

    def relative(
        self, hosts: Sequence[Host], in_flight: Sequence[tuple[str, str, msgspec.Struct]]
    ) -> Hashable:
        """Attempts by their distance from the task's own, forms and views by that from the newest."""
        present = {
            host.node: state.task
            for host in hosts
            if isinstance(state := next(iter(host.parts.values())).key(), Tasks)
        }
        pools = {
            host.node: state
            for host in hosts
            if isinstance(state := next(iter(host.parts.values())).key(), PoolState)
        }
        distance = Distance(present, {node: pool.view.version for node, pool in pools.items()})
        return (
            tuple(distance.of_task(task) for task in present.values()),
            tuple(distance.of_pool(node, pool) for node, pool in pools.items()),
            frozenset((sender, to, distance.of_message(sender, to, said)) for sender, to, said in in_flight),
        )

    def confluent(self, host: Host, sender: str, message: Message) -> bool:
        """What is older than the newest of its kind is ignored, now or later."""
        if CLAIMANT in host.parts:
            task = cast("GameTask", host.parts[CLAIMANT]).state.task
            if task is None or not isinstance(message, View) or not self.rules.numbered_views:
                return False
            return any(one.node == sender and message.version <= one.view.version for one in task.about)
        newest = dict(cast("GameManager", host.parts[MANAGER]).state.newest)
        return (
            self.rules.numbered_forms
            and isinstance(message, Form)
            and message.number <= newest.get(message.claim, 0)
        )


PRINTED = GameRules()
REPAIRED = GameRules(
    registering="seen",
    prefix=True,
    marks_seen=True,
    attempts=True,
    numbered_forms=True,
    numbered_views=True,
    retries=True,
    clears="booked",
    withdraws=True,
    orders_need_requests=True,
)
"""All repairs that are flags here, forms still being commands."""


def _but(**less: object) -> GameRules:
    return msgspec.structs.replace(REPAIRED, **less)


def _row(
    name: str, claims: Sequence[str | ClaimPlan], rules: GameRules, shows: str, **more: object
) -> GameRow:
    made = GameRow(world=world(name, "a", claims), rules=rules, shows=shows)
    return msgspec.structs.replace(made, **more)


def _rows() -> dict[str, GameRow]:
    """The traces of the game specification, section 3, and the gaps that show themselves."""
    one, both = ("0", "0"), ("0->1", "0->1")
    first = {"present": False}
    told = _but(complete=False, numbered_views=False, attempts=False)
    found = [
        _row("B1", both, _but(complete=False, attempts=False), "an old request is taken for the new one"),
        _row(
            "B2",
            both,
            _but(complete=False, numbered_forms=False),
            "a withdrawal overtakes its request: a ghost, deadlock",
        ),
        _row(
            "B3",
            one,
            _but(complete=False, numbered_views=False, attempts=False, changes_only=True),
            "an old view after the new one: deadlock",
        ),
        _row("B3-printed", one, told, "the same with a broadcast after every form, as printed: clean"),
        _row(
            "B5", one, _but(marks_seen=False, alarm=True), "advanced past while the order form is under way"
        ),
        _row("B6", one, PRINTED, "as printed, in the competition: two winners of one resource"),
        _row("B6-rest", one, _but(prefix=False), "(p3) alone, all other repairs on: two winners"),
        _row("B7", one, _but(clears="released"), "the request stays while its resource is in use: clean"),
        _row("B8a", one, _but(retries=False, alarm=True), "a task that withdrew in ORDERING stays there"),
        _row("B9", one, _but(alarm=True), "advancing one place at a time: clean"),
        _row("G9", ["0"], _but(), "a request overtakes its admission form, which is lost", **first),
        _row("G10", ["0"], PRINTED, "as printed: nobody is ever admitted", **first),
        _row("G11", one, _but(clears="never"), "what a finished task leaves behind bars the next"),
        _row("G12", both, _but(withdraws=False), "nobody may withdraw what he has sent: deadlock"),
        _row(
            "G14",
            one,
            _but(prefix=False, numbered_forms=False, orders_need_requests=False),
            "an order form comes late",
        ),
    ]
    found += [
        _row("G16", both, _but(alarm=True), "premature alarms: both withdraw, for ever"),
        _row("G21", ["0"], _but(), "no cancelling: a task that is given up stays registered", **first),
    ]
    rows = {row.world.name: row for row in found}
    for name in ("B5", "B8a", "G16"):
        rows[name] = msgspec.structs.replace(rows[name], timers="any")
    rows["B9"] = msgspec.structs.replace(rows["B9"], timers="quiet")
    for name, script in (
        ("B1", game_scripts.B1),
        ("B2", game_scripts.B2),
        ("B8a", game_scripts.B8A),
        ("G16", game_scripts.G16),
    ):
        rows[name] = msgspec.structs.replace(rows[name], script=script)
    for name in ("B1", "B2", "B3-printed"):
        rows[name] = msgspec.structs.replace(rows[name], reduced=True)
    rows["G9"] = msgspec.structs.replace(rows["G9"], consistent="requests")
    rows["G14"] = msgspec.structs.replace(rows["G14"], consistent="orders")
    return rows


ROWS = _rows()


def game_worlds(repeat: int | None = None) -> dict[str, World]:
    """The worlds of the rows by name; nothing here comes for ever."""
    del repeat
    return {name: row.world for name, row in ROWS.items()}


def game_system(world: World) -> GameSystem:
    """The rules of a row for its world; for any other world section 3 as printed, from the registration on."""
    row = ROWS.get(world.name)
    if row is None:
        return GameSystem(world, PRINTED, present=False)
    return GameSystem(world, row.rules, present=row.present, consistent=row.consistent)

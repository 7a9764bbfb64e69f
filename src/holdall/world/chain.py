"""The chain as a closed system: its shipped managers and claimants on hosts, and the properties they are judged by.

Safety: the books (units of active rows within the capacity, passes left never negative) and invariant I1 of the
chain specification, section 4: a row at a later node stands on an active row at the node before it.
"""

from collections.abc import Hashable
from typing import cast

import msgspec

from holdall.machine.contract import Address, Boot, Received
from holdall.machine.host import SEPARATOR, Arrival, Host
from holdall.protocols.chain.alone import QUARANTINE_TIMER, Departed, ManagerAlone
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.claims import Ending, family_of, sibling
from holdall.protocols.chain.manager import Manager
from holdall.protocols.chain.messages import CLAIMANT, MANAGER
from holdall.protocols.chain.properties import miscounted, siblings_inside
from holdall.protocols.chain.rows import Limit, Mem, Row, is_limit_pool
from holdall.protocols.chain.settling import Settings
from holdall.protocols.vocabulary import ClaimId, LeaseLost, ToClaimant
from holdall.world.chain_settled import unsettled
from holdall.world.clients import Lease, Notice, Overtaken, Waits
from holdall.world.plan import World
from holdall.world.system import TimerKind

AGENT = "agent"
REPEAT_MS = 1000
QUARANTINE_MS = 1000
INCARNATION = 2
"""Of every process start but the first; which one it is plays no part between machines."""


class NodeFacts(msgspec.Struct, frozen=True, cache_hash=True):
    """What a node knows: everything that properties look at."""

    node: str
    epoch: int
    rows: tuple[Row, ...]
    mems: tuple[tuple[ClaimId, Mem], ...]
    buried: tuple[tuple[ClaimId, int], ...]
    capacity: tuple[tuple[str, int], ...]


class ChainSystem:
    """Managers on the nodes of a world, one claimant a host."""

    def __init__(
        self,
        world: World,
        *,
        repeats: bool = True,
        manager: type[Manager] = Manager,
        claimant: type[Claimant] = Claimant,
        quarantine: bool = True,
        settled: bool = True,
    ) -> None:
        self.world = world
        self._repeat_ms = REPEAT_MS if repeats else None
        self._manager = manager
        self._claimant = claimant
        self._settled = settled
        self._quarantine_ms = QUARANTINE_MS if quarantine else 0

    def hosts(self) -> tuple[str, ...]:
        """Nodes, then claimants."""
        return (*self.world.nodes(), *self.world.claimants())

    def build(self, host: str) -> Host:
        """A host that has not been started."""
        if host not in self.world.nodes():
            return Host(host, {CLAIMANT: self._new_claimant(host)})
        capacities = {pool.pool: pool.units for pool in self.world.pools if pool.node == host}
        settings = Settings(
            passes=self.world.passes,
            passes_per_ahead=self.world.passes_per_ahead,
            limits=tuple(
                Limit(pool, units, holder) for node, pool, holder, units in self.world.limits if node == host
            ),
            repeat_ms=self._repeat_ms,
            tell_stamp=self.world.tell_stamp,
        )
        return Host(host, {MANAGER: ManagerAlone(host, capacities, settings=settings, make=self._manager)})

    def _new_claimant(self, host: str) -> Claimant:
        agent = Address(host, AGENT)
        return self._claimant(host, agent, try_from=self.world.try_from, repeat_ms=self._repeat_ms)

    def boot(self, kind: str, epoch: int) -> Boot:
        """How a host comes up again."""
        return Boot(kind, epoch, INCARNATION, quarantine_ms=self._quarantine_ms if kind == "lost" else 0)

    # Properties

    def facts(self, host: Host) -> Hashable:
        """NodeFacts, or None for a claimant's host."""
        machine = host.parts.get(MANAGER)
        if not isinstance(machine, ManagerAlone):
            return None
        manager = machine.manager
        return NodeFacts(
            host.node,
            manager.epoch,
            tuple(manager.rows[claim] for claim in sorted(manager.rows)),
            tuple(sorted(manager.mem.items())),
            tuple(sorted(manager.buried.items())),
            tuple(sorted((pool.pool, pool.units) for pool in self.world.pools if pool.node == host.node)),
        )

    def wrong_here(self, host: Host, facts: Hashable) -> str:
        """Siblings at a claimant; the books, passes left and whether the turn settled all at a node."""
        if not isinstance(facts, NodeFacts):
            twice = siblings_inside(cast("Claimant", host.parts[CLAIMANT]))
            return f"siblings: {twice[0]}" if twice else ""
        capacity = dict(facts.capacity)
        use = used(facts)
        for pool in sorted(use):
            if not is_limit_pool(pool) and use[pool] > capacity.get(pool, 0):
                return (
                    f"books: {use[pool]} units of {pool}@{facts.node} given, it has {capacity.get(pool, 0)}"
                )
        for row in facts.rows:
            if row.left < 0:
                return f"bound: {row.claim} has been passed more often at {facts.node} than it may be"
        if not self._settled:
            return ""
        miscount = miscounted(manager_of(host))
        if miscount:
            return f"counts: {miscount[0]}"
        # Limit pools have a capacity for each holder and park rows: judged by the counts above alone.
        return "" if self.world.limits or in_quarantine(host) else unsettled(facts.node, facts.rows, capacity)

    def wrong_between(self, facts: tuple[Hashable, ...]) -> str:
        """Invariant I1."""
        nodes = {fact.node: fact for fact in facts if isinstance(fact, NodeFacts)}
        for here in nodes.values():
            for row in here.rows:
                if row.index > 0 and not _stands_on(row, nodes):
                    before = row.need[row.index - 1].node
                    return f"invariant: {row.claim} is at {here.node} without an active row at {before}"
        return ""

    def idle(self, facts: Hashable) -> bool:
        """No row, and nothing remembered of a killed one."""
        return not isinstance(facts, NodeFacts) or not (facts.rows or facts.mems)

    def metered(self, before: Hashable, after: Hashable) -> tuple[Notice, ...]:
        """Who waits for the first time, and who is overtaken, judged by rows alone."""
        if not isinstance(before, NodeFacts) or not isinstance(after, NodeFacts):
            return ()
        return (*_waits(before, after), *_overtaken(before, after))

    # Speaking to hosts

    def command(self, host: str, command: ToClaimant) -> Arrival:
        """What the agent tells its claimant."""
        return Arrival(CLAIMANT, Received(Address(host, AGENT), command))

    def timer_kind(self, host: str, timer: str) -> TimerKind:
        """The managers' quarantine; everything else repeats."""
        if timer == f"{MANAGER}{SEPARATOR}{QUARANTINE_TIMER}":
            return "quarantine"
        return "repair"

    def placed(self, claim: ClaimId, number: int) -> ClaimId:
        """Placements have ids of their own."""
        return sibling(claim, number)

    def attempt_of(self, host: Host, claim: ClaimId) -> int:
        """The attempt that waits, tries or is inside; else 0."""
        phase = cast("Claimant", host.parts[CLAIMANT]).claims.get(claim)
        return 0 if phase is None or isinstance(phase, Ending) else phase.attempt

    def has(self, facts: Hashable, lease: Lease) -> bool:
        """A row, or the memory of one that was killed."""
        if not isinstance(facts, NodeFacts):
            return False
        known = [row.attempt for row in facts.rows if row.claim == lease[1]]
        known += [mem.attempt for claim, mem in facts.mems if claim == lease[1]]
        return any(not lease[2] or attempt <= lease[2] for attempt in known)

    def lapse_for_claimant(self, lease: Lease) -> Arrival:
        """The holder's deadline."""
        return self.command(lease[1].node, LeaseLost(family_of(lease[1]), "expired"))

    def lapse_at_node(self, lease: Lease) -> Arrival:
        """The manager's end of a lease."""
        return Arrival(MANAGER, Received(Address(lease[0], "world"), Departed(lease[1])))


def used(facts: NodeFacts) -> dict[str, int]:
    """Pool -> units of active rows."""
    use: dict[str, int] = {}
    for row in facts.rows:
        if row.active:
            for pool, units in row.vector:
                use[pool] = use.get(pool, 0) + units
    return use


def _stands_on(row: Row, nodes: dict[str, NodeFacts]) -> bool:
    visit = row.need[row.index - 1]
    before = nodes[visit.node]
    if before.epoch != visit.epoch or dict(before.buried).get(row.claim, 0) >= row.attempt:
        return True  # that node has lost all it had, or the claim is ending
    return any(
        other.claim == row.claim and (other.attempt > row.attempt or (other.active and other.n == row.pn))
        for other in before.rows
    )


def _is_try(row: Row) -> bool:
    return row.stamp.clock == 0


def _waits(before: NodeFacts, after: NodeFacts) -> list[Waits]:
    known = {(row.claim, row.attempt) for row in before.rows}
    found: list[Waits] = []
    for row in after.rows:
        if row.active or (row.claim, row.attempt) in known:
            continue
        pools = {pool for pool, _ in row.most}
        ahead = sum(
            1
            for other in before.rows
            if not other.active and other.age < row.age and pools & {pool for pool, _ in other.most}
        )
        found.append(Waits(after.node, row.claim, row.attempt, ahead))
    return found


def _overtaken(before: NodeFacts, after: NodeFacts) -> list[Overtaken]:
    active_before = {(row.claim, row.attempt, row.n) for row in before.rows if row.active}
    waiting = sorted((row for row in after.rows if not row.active), key=lambda row: row.age)
    capacity, use = dict(after.capacity), used(after)
    found: list[Overtaken] = []
    for row in after.rows:
        if not row.active or (row.claim, row.attempt, row.n) in active_before:
            continue
        for place, other in enumerate(waiting):
            if not _is_try(row) and row.age < other.age:
                break
            keep = _kept(waiting[: place + 1])
            shared = {pool for pool, _ in row.vector} & {pool for pool, _ in other.most}
            if any(use[pool] + keep[pool] > capacity.get(pool, 0) for pool in shared):
                found.append(Overtaken(after.node, other.claim, other.attempt))
    return found


def _kept(rows: list[Row]) -> dict[str, int]:
    keep: dict[str, int] = {}
    for row in rows:
        for pool, units in row.most:
            keep[pool] = keep.get(pool, 0) + units
    return keep


def manager_of(host: Host) -> Manager:
    """The manager of a node's host."""
    return cast("ManagerAlone", host.parts[MANAGER]).manager


def in_quarantine(host: Host) -> bool:
    """Whether a node grants nothing for now."""
    return not cast("ManagerAlone", host.parts[MANAGER]).book.granting

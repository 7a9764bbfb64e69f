"""The chain as a closed system: its shipped managers and claimants on hosts, and the properties they are judged by.

Safety: the books (units of active rows within the capacity, passes left never negative) and invariant I1 of the
chain specification, section 4: a row at a later node stands on an active row at the node before it.
"""

from collections.abc import Hashable
from typing import cast

from holdall.leases.book import QUARANTINE_TIMER as BOOK_QUARANTINE_TIMER
from holdall.leases.messages import PoolSpec
from holdall.machine.contract import Address, Boot, Message, Received
from holdall.machine.host import SEPARATOR, Arrival, Host
from holdall.parties.pool_side import PoolSide
from holdall.protocols.chain.alone import ManagerAlone
from holdall.protocols.chain.attempts import RETRY_TIMER
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.claims import Ending, Waiting, family_of, sibling
from holdall.protocols.chain.manager import Manager
from holdall.protocols.chain.messages import CLAIMANT, MANAGER, EndAck, Kill, Killed, Refused
from holdall.protocols.chain.properties import miscounted, siblings_inside
from holdall.protocols.chain.rows import Limit, is_limit_pool
from holdall.protocols.chain.settling import Settings
from holdall.protocols.counting_book import QUARANTINE_TIMER, Departed
from holdall.protocols.vocabulary import ClaimId, LeaseLost, ToClaimant
from holdall.world.chain_facts import NodeFacts, overtaken, stands_on, used, waits
from holdall.world.chain_settled import unsettled
from holdall.world.clients import Lease, Notice
from holdall.world.from_world import InWorld, of_world
from holdall.world.leaving import ClaimingHost, told_of
from holdall.world.plan import World, deals_with
from holdall.world.system import TimerKind

AGENT = "agent"
REPEAT_MS = 1000
QUARANTINE_MS = 1000
INCARNATION = 2
"""Of every process start but the first; which one it is plays no part between machines."""
_QUARANTINES = {f"{MANAGER}{SEPARATOR}{timer}" for timer in (QUARANTINE_TIMER, BOOK_QUARANTINE_TIMER)}


class PoolSideInWorld(InWorld, PoolSide):
    """The chain's."""


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
            return ClaimingHost(host, self._new_claimant(host))
        settings = Settings(
            passes=self.world.passes,
            passes_per_ahead=self.world.passes_per_ahead,
            limits=tuple(
                Limit(pool, units, holder) for node, pool, holder, units in self.world.limits if node == host
            ),
            repeat_ms=self._repeat_ms,
            tell_stamp=self.world.tell_stamp,
        )
        pools = [pool for pool in self.world.pools if pool.node == host]
        if self.world.book == "leases":
            specs = [
                PoolSpec(pool.pool, pool.pool, units=tuple(str(number) for number in range(pool.units)))
                for pool in pools
            ]
            side = PoolSideInWorld(
                host, specs, settings=settings, fence_step=0, watch_peers=False, make=self._manager
            )
            return Host(host, {MANAGER: side})
        capacities = {pool.pool: pool.units for pool in pools}
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
        if MANAGER not in host.parts:
            return None
        manager = manager_of(host)
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
                if row.index > 0 and not stands_on(row, nodes):
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
        return (*waits(before, after), *overtaken(before, after))

    # Speaking to hosts

    def command(self, host: str, command: ToClaimant) -> Arrival:
        """What the agent tells its claimant."""
        return Arrival(CLAIMANT, Received(Address(host, AGENT), command))

    def timer_kind(self, host: str, timer: str) -> TimerKind:
        """The managers' quarantine, the pause that a refusal asks for; everything else repeats."""
        if timer.startswith(f"{CLAIMANT}{SEPARATOR}{RETRY_TIMER}"):
            return "retry"
        if timer in _QUARANTINES:
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

    def is_past(self, facts: Hashable, lease: Lease) -> bool:
        """The attempt is buried."""
        return (
            isinstance(facts, NodeFacts)
            and lease[2] > 0
            and any(claim == lease[1] and attempt >= lease[2] for claim, attempt in facts.buried)
        )

    def confluent(self, host: Host, sender: str, message: Message) -> bool:
        """Late answers to a claimant's earlier attempts; kills of attempts that are over."""
        if CLAIMANT in host.parts:
            return is_late(cast("Claimant", host.parts[CLAIMANT]), sender, message)
        return isinstance(message, Kill | Killed) and manager_of(host).is_over(message.claim, message.attempt)

    def lapse_for_claimant(self, lease: Lease) -> Arrival:
        """The holder's deadline."""
        return self.command(lease[1].node, LeaseLost(family_of(lease[1]), "expired"))

    def lapse_at_node(self, lease: Lease) -> Arrival:
        """The manager's end of a lease."""
        return Arrival(MANAGER, Received(of_world(lease[0]), Departed(lease[1])))

    def told_of_gone(self, host: str, node: str) -> Arrival | None:
        """Claimants with claims there, which need its answers no longer; managers act on what claimants say."""
        return told_of(host, node) if deals_with(self.world, host, node) else None


def is_late(claimant: Claimant, sender: str, message: Message) -> bool:
    """Whether an answer is to an attempt that the claimant has left behind: it changes at most who owes an EndAck.

    A later attempt's Done stands in place of an earlier one's, so it is the same whether the earlier EndAck comes
    before it, after it, or when all is over. Attempts only grow, so late answers stay late.
    """
    claim: ClaimId | None = getattr(message, "claim", None)
    attempt: int | None = getattr(message, "attempt", None)
    if claim is None or attempt is None:
        return False
    phase = claimant.claims.get(claim)
    if isinstance(message, Refused):
        waits_to_be_told = isinstance(phase, Waiting) and phase.paused
        if waits_to_be_told or claimant.epochs.get(sender, 0) < message.epoch:
            return False
    if phase is None or attempt < phase.attempt:
        return True
    return isinstance(phase, Ending) and not isinstance(message, EndAck)


def manager_of(host: Host) -> Manager:
    """The manager of a node's host."""
    return cast("ManagerAlone | PoolSide", host.parts[MANAGER]).manager


def in_quarantine(host: Host) -> bool:
    """Whether a node grants nothing for now."""
    return not manager_of(host).book.may_grant()

"""Any protocol that asks each pool apart as a closed system: its shipped machines on hosts, and what they are judged by.

Safety: what all managers by pool must keep, and what the protocol's own entry says (`wrong_here`, `wrong_between`).
Exclusion itself is judged by what clients believe, see `clients`.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from holdall.leases.book import QUARANTINE_TIMER as BOOK_QUARANTINE_TIMER
from holdall.leases.messages import PoolSpec
from holdall.machine.contract import Address, Boot, Message, Received, Record
from holdall.machine.host import SEPARATOR, Arrival, Host
from holdall.parties.by_pool.pools import PoolsByPool
from holdall.protocols.by_pool.alone import ManagerAlone
from holdall.protocols.by_pool.claim import Phase
from holdall.protocols.by_pool.claimant import RETRY, Claimant
from holdall.protocols.by_pool.manager import SWEEP_TIMER, Manager
from holdall.protocols.by_pool.messages import CLAIMANT, MANAGER, Entry
from holdall.protocols.by_pool.properties import wrong_here
from holdall.protocols.counting_book import QUARANTINE_TIMER, Departed
from holdall.protocols.hooks import Book
from holdall.protocols.registry import DEFAULT_TUNING, ProtocolEntry, Tuning, protocol
from holdall.protocols.token.messages import RingAbsent
from holdall.protocols.vocabulary import ClaimId, LeaseLost, ToClaimant
from holdall.world.clients import Lease, Notice
from holdall.world.from_world import InWorld, of_world
from holdall.world.leaving import Asking, ClaimingHost, told_of
from holdall.world.plan import World, deals_with
from holdall.world.system import TimerKind

AGENT = "agent"
REPEAT_MS = 1000
QUARANTINE_MS = 1000
INCARNATION = 2
"""Of every process start but the first; which one it is plays no part between machines."""
_QUARANTINES = {f"{MANAGER}{SEPARATOR}{timer}" for timer in (QUARANTINE_TIMER, BOOK_QUARANTINE_TIMER)}

MakeManager: TypeAlias = Callable[[str, int, Book, Tuning], Any]
MakeClaimant: TypeAlias = Callable[[str, Address, Tuning], Any]


class Seen(msgspec.Struct, frozen=True, cache_hash=True):
    """What a node knows: everything that properties look at."""

    node: str
    epoch: int
    entries: tuple[Entry, ...]
    buried: tuple[tuple[tuple[ClaimId, int], int], ...]
    own: Hashable = None
    """The protocol's own (`Manager.own_facts`)."""

    @classmethod
    def of(cls, manager: Manager[Any]) -> "Seen":
        """What this manager knows now."""
        return cls(
            manager.node,
            manager.epoch,
            tuple(manager.entries[key] for key in sorted(manager.entries)),
            tuple(sorted(manager.buried.items())),
            manager.own_facts(),
        )


class PoolsInWorld(InWorld, PoolsByPool):
    """Of any protocol by pool."""


class ByPoolSystem:
    """Managers on the nodes of a world, one claimant a host.

    `manager`, `claimant`: in place of the entry's, e.g. one without one of the rules. `quarantine` False: a node that
    has lost everything grants at once. `patience_ms` 0: claims that wait lend at once, or raise their alarm.
    """

    def __init__(
        self,
        world: World,
        name: str,
        *,
        repeats: bool = True,
        manager: MakeManager | None = None,
        claimant: MakeClaimant | None = None,
        quarantine: bool = True,
        patience_ms: int = DEFAULT_TUNING.patience_ms,
    ) -> None:
        self.world = world
        self.entry: ProtocolEntry = protocol(name)
        self._manager = manager or self.entry.manager
        self._claimant = claimant or self.entry.claimant
        repeat_ms = REPEAT_MS if repeats else None
        self.tuning = Tuning(
            passes=world.passes,
            passes_per_ahead=world.passes_per_ahead,
            repeat_ms=repeat_ms,
            repeat_most_ms=repeat_ms,
            nodes=world.nodes(),
            patience_ms=patience_ms,
        )
        self._quarantine_ms = QUARANTINE_MS if quarantine else 0

    def hosts(self) -> tuple[str, ...]:
        """Nodes, then claimants."""
        return (*self.world.nodes(), *self.world.claimants())

    def build(self, host: str) -> Host:
        """A host that has not been started."""
        if host not in self.world.nodes():
            claimant = self._claimant(host, Address(host, AGENT), self.tuning)
            return ClaimingHost(host, cast("Asking", claimant))
        pools = [pool for pool in self.world.pools if pool.node == host]

        def make(book: Book) -> Manager[Any]:
            return cast("Manager[Any]", self._manager(host, 1, book, self.tuning))

        if self.world.book == "leases":
            specs = [
                PoolSpec(pool.pool, pool.pool, units=tuple(str(number) for number in range(pool.units)))
                for pool in pools
            ]
            side = PoolsInWorld(
                host,
                specs,
                make,
                self.entry.messages,
                between=self.entry.between,
                fence_step=0,
                watch_peers=False,
            )
            return Host(host, {MANAGER: side})
        capacities = {pool.pool: pool.units for pool in pools}
        return Host(host, {MANAGER: ManagerAlone(host, capacities, make, self.entry.messages)})

    def boot(self, kind: str, epoch: int) -> Boot:
        """How a host comes up again."""
        return Boot(kind, epoch, INCARNATION, quarantine_ms=self._quarantine_ms if kind == "lost" else 0)

    # Properties

    def facts(self, host: Host) -> Hashable:
        """Seen, or None for a claimant's host."""
        if MANAGER not in host.parts:
            return None
        return Seen.of(manager_of(host))

    def wrong_here(self, host: Host, facts: Hashable) -> str:
        """The first property of all managers by pool, or of this protocol's, that is violated at a node."""
        if not isinstance(facts, Seen):
            return ""
        manager = manager_of(host)
        for text in (*wrong_here(manager), *self.entry.wrong_here(manager)):
            return text
        return ""

    def wrong_between(self, facts: tuple[Hashable, ...]) -> str:
        """The protocol's properties over the facts of all nodes."""
        nodes = {fact.node: fact for fact in facts if isinstance(fact, Seen)}
        if not nodes:
            return ""
        for text in self.entry.wrong_between(nodes):
            return text
        return ""

    def idle(self, facts: Hashable) -> bool:
        """No entry is left."""
        return not isinstance(facts, Seen) or not facts.entries

    def metered(self, before: Hashable, after: Hashable) -> tuple[Notice, ...]:
        """Overtaking is measured by the simulator for protocols by pool."""
        del before, after
        return ()

    # Speaking to hosts

    def command(self, host: str, command: ToClaimant) -> Arrival:
        """What the agent tells its claimant."""
        return Arrival(CLAIMANT, Received(Address(host, AGENT), command))

    def timer_kind(self, host: str, timer: str) -> TimerKind:
        """The managers' quarantine, the pause that a refusal asks for; everything else repeats."""
        if timer.startswith(f"{CLAIMANT}{SEPARATOR}{RETRY}/"):
            return "retry"
        if timer in _QUARANTINES:
            return "quarantine"
        return "never" if timer == f"{MANAGER}{SEPARATOR}{SWEEP_TIMER}" else "repair"

    def placed(self, claim: ClaimId, number: int) -> ClaimId:
        """Protocols by pool take the first placement only."""
        del number
        return claim

    def attempt_of(self, host: Host, claim: ClaimId) -> int:
        """The attempt that waits, tries or is inside; else 0."""
        record = cast("Claimant[Any]", host.parts[CLAIMANT]).claims.get(claim)
        return 0 if record is None or record.phase is Phase.ENDING else int(record.attempt)

    def has(self, facts: Hashable, lease: Lease) -> bool:
        """An entry of this attempt or an earlier one (any, for attempt 0)."""
        if not isinstance(facts, Seen):
            return False
        here = [entry.attempt for entry in facts.entries if entry.claim == lease[1]]
        return any(not lease[2] or attempt <= lease[2] for attempt in here)

    def is_past(self, facts: Hashable, lease: Lease) -> bool:
        """The attempt is buried at all places of the claim that this node has heard of, and nothing of it is here."""
        if not isinstance(facts, Seen) or lease[2] <= 0 or self.has(facts, lease):
            return False
        places = sum(
            len(vector)
            for plan in self.world.claims
            if plan.host == lease[1].node
            for place in plan.need
            if place.node == facts.node
            for vector in place.alternatives[:1]
        )
        past = [key for key, attempt in facts.buried if key[0] == lease[1] and attempt >= lease[2]]
        return len(past) >= places

    def confluent(self, host: Host, sender: str, message: Message) -> bool:
        """As a claimant says; nothing is claimed of managers."""
        del sender
        return MANAGER not in host.parts and cast("Claimant[Any]", host.parts[CLAIMANT]).confluent(message)

    def ignores(self, host: Host, message: Message) -> bool:
        """As its manager or its claimant says."""
        if MANAGER in host.parts:
            return manager_of(host).ignores(message)
        return cast("Claimant[Any]", host.parts[CLAIMANT]).ignores(message)

    def same_records(self, host: Host, saved: Mapping[str, Record]) -> Mapping[str, Record]:
        """Those of a manager as it says."""
        return manager_of(host).same_records(saved) if MANAGER in host.parts else saved

    @property
    def names_decide(self) -> bool:
        """Whether ids of claims decide ties, as the protocol's entry says."""
        return self.entry.names_decide

    def supersedes(self, older: Message, newer: Message) -> bool:
        """As the protocol says."""
        return self.entry.supersedes(older, newer)

    def lapse_for_claimant(self, lease: Lease) -> Arrival:
        """The holder's deadline."""
        return self.command(lease[1].node, LeaseLost(lease[1], "expired"))

    def lapse_at_node(self, lease: Lease) -> Arrival:
        """The manager's end of a lease."""
        return Arrival(MANAGER, Received(of_world(lease[0]), Departed(lease[1])))

    def told_of_gone(self, host: str, node: str) -> Arrival | None:
        """Claimants with claims there; and the other members of its ring, where there is one."""
        if host not in self.world.nodes():
            return told_of(host, node) if deals_with(self.world, host, node) else None
        return Arrival(MANAGER, Received(of_world(host), RingAbsent((node,)))) if self.entry.ring else None


def manager_of(host: Host) -> Manager[Any]:
    """The manager of a node's host."""
    return cast("ManagerAlone | PoolsByPool", host.parts[MANAGER]).manager


def managers_of(hosts: Mapping[str, Host]) -> dict[str, Manager[Any]]:
    """Node -> its manager, of the hosts that have one."""
    return {name: manager_of(host) for name, host in hosts.items() if MANAGER in host.parts}

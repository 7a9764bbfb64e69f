"""How the hosts of a run are built: the yardstick, or a protocol's shipped machines behind the lease book."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, cast

from holdall.leases.listing import Alive, AliveOk, Compared, Standing
from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Machine
from holdall.machine.host import Host
from holdall.parties.by_pool.claims import ClaimsByPool
from holdall.parties.by_pool.pools import PoolsByPool
from holdall.parties.claimant_side import ClaimantSide
from holdall.parties.pool_side import PoolSide
from holdall.protocols.by_pool.claim import Phase as InsidePhase
from holdall.protocols.by_pool.claimant import Claimant
from holdall.protocols.by_pool.properties import wrong_here as by_pool_wrong
from holdall.protocols.chain import properties as chain_properties
from holdall.protocols.chain.claimant import Claimant as ChainClaimant
from holdall.protocols.chain.claims import Inside
from holdall.protocols.chain.messages import EndAck, Request
from holdall.protocols.chain.settling import Settings
from holdall.protocols.registry import PROTOCOLS, Tuning, protocol
from holdall.protocols.vocabulary import ClaimId
from holdall.simulator.history_steps import ballot, one_unit_a_node, skeen
from holdall.simulator.overtaking import Overtaking
from holdall.simulator.setup import DELAY_MS, Setup
from holdall.simulator.sides import AGENT, claims_side, pools_side, specs_of
from holdall.simulator.workload import Workload
from holdall.simulator.yardstick import CENTRE, CentralClaimant, CentralManager, YardstickMessage
from holdall.world.by_pool import Seen, managers_of

CLAIMANT = "claimant"
MANAGER = "manager"

CENTRAL = "central"
"""Name of the yardstick, in place of a protocol's."""
BALLOT, SKEEN = "ballot", "skeen"
"""Names of the steps of the history of lanes."""

RENEWALS = (Alive, AliveOk, Standing, Compared)

CODEC.register("yardstick", YardstickMessage)


class System(Protocol):
    """One protocol, as the simulator sees it."""

    uncounted: frozenset[type]
    """Kinds of message that are no work of the protocol: acknowledgements of an end, renewals."""

    clocked: frozenset[type]
    """Kinds of message before which a manager is told the time (ClockRead): those that are stamped on arrival."""

    def nodes(self) -> tuple[str, ...]:
        """Hosts with pools."""
        ...

    def host(self, name: str) -> Host:
        """A host that has not been started; every name that is no node's is a claimant's."""
        ...

    def given(self, host: Host) -> Mapping[str, int]:
        """Pool -> units given, by the books of a host with pools."""
        ...

    def set_aside(self, host: Host) -> Mapping[tuple[str, str], int] | None:
        """(pool, unit) -> fence of all units that are set aside on a host with pools; None while it may not grant."""
        ...

    def wrong(self, host: Host, others: Mapping[str, Host]) -> Iterable[str]:
        """Properties of the protocol that don't hold after a turn of this host, as texts.

        `others` are all hosts that are up, this one included.
        """
        ...

    def restarted(self, name: str) -> None:
        """A host came up again: what is measured over its turns begins anew."""
        ...

    def entries(self, host: Host) -> int:
        """Entries of claims that are not over, on any host."""
        ...

    def may_go_on(self, host: Host, claim: ClaimId) -> bool:
        """Whether a client whose host came up again may use what it was granted before."""
        ...


class Central:
    """The yardstick's hosts."""

    uncounted: frozenset[type] = frozenset()
    clocked: frozenset[type] = frozenset()

    def __init__(self, setup: Setup) -> None:
        workload = setup.workload
        self._pools = {
            (node, pool): units
            for node in workload.node_names()
            for pool, units in workload.pools_on(node).items()
        }

    def nodes(self) -> tuple[str, ...]:
        """One coordinator for all pools."""
        return (CENTRE.node,)

    def host(self, name: str) -> Host:
        """The coordinator, or a client's host."""
        if name == CENTRE.node:
            return Host(name, {MANAGER: CentralManager(self._pools)})
        return Host(name, {CLAIMANT: CentralClaimant(name)})

    def given(self, host: Host) -> Mapping[str, int]:
        """Judged by what clients believe only."""
        del host
        return {}

    def set_aside(self, host: Host) -> Mapping[tuple[str, str], int] | None:
        """It names no units."""
        del host
        return None

    def wrong(self, host: Host, others: Mapping[str, Host]) -> Iterable[str]:
        """It has no properties of its own."""
        del host, others
        return ()

    def restarted(self, name: str) -> None:
        """Never."""

    def entries(self, host: Host) -> int:
        """Claims that wait or are held."""
        manager = host.parts.get(MANAGER)
        return len(manager.held) + len(manager.waiting) if isinstance(manager, CentralManager) else 0

    def may_go_on(self, host: Host, claim: ClaimId) -> bool:
        """Its hosts never fall."""
        del host, claim
        return True


class _Placed(ABC):
    """Common to protocols with their pools on the workload's nodes."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._nodes = frozenset(setup.workload.node_names())
        self._repeat_ms = 4 * DELAY_MS if setup.repairs else None
        self._repeat_most_ms = max(4 * DELAY_MS, setup.ttl_ms // 3)

    def nodes(self) -> tuple[str, ...]:
        """All nodes of the workload, ascending."""
        return tuple(sorted(self._nodes))

    def host(self, name: str) -> Host:
        """A manager's or a claimant's; with faults, leases are renewed between them."""
        if name in self._nodes:
            return Host(name, {MANAGER: self._manager(name)})
        return Host(name, {CLAIMANT: self._claimant(name)})

    def set_aside(self, host: Host) -> Mapping[tuple[str, str], int] | None:
        """By the lease book, with the fences of its grants."""
        side = host.parts[MANAGER]
        if not isinstance(side, PoolSide | PoolsByPool) or not side.book.may_grant():
            return None
        leases = side.book.leases.values()
        return {(unit.pool, unit.unit): unit.fence for lease in leases for unit in lease.units}

    @abstractmethod
    def _manager(self, name: str) -> Machine:
        """The part that decides about the pools of this node."""

    @abstractmethod
    def _claimant(self, name: str) -> Machine:
        """The part that claims for the clients of this host."""


class Chain(_Placed):
    """The default protocol."""

    uncounted: frozenset[type] = frozenset({EndAck, *RENEWALS})
    clocked: frozenset[type] = frozenset({Request})

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._meters: dict[str, Overtaking] = {}

    def _manager(self, name: str) -> Machine:
        setup = self.setup
        settings = Settings(
            passes=setup.passes,
            passes_per_ahead=setup.passes_per_ahead,
            repeat_ms=self._repeat_ms,
            repeat_most_ms=self._repeat_most_ms,
            sweep_ms=setup.sweep_ms,
        )
        pools = specs_of(setup.workload.pools_on(name))
        return PoolSide(name, pools, settings=settings, watch_peers=setup.repairs)

    def _claimant(self, name: str) -> Machine:
        claimant = ChainClaimant(
            name,
            Address(name, AGENT),
            try_from=self.setup.try_from,
            repeat_ms=self._repeat_ms,
            repeat_most_ms=self._repeat_most_ms,
        )
        # Without faults nothing needs to be renewed, and the claimant alone is what the figures are about.
        return ClaimantSide(claimant) if self.setup.repairs else claimant

    def given(self, host: Host) -> Mapping[str, int]:
        """Units of active rows."""
        side = host.parts[MANAGER]
        if not isinstance(side, PoolSide):
            raise TypeError(f"{host.node} has no pool's side")
        return {pool: side.manager.counts.use(pool) for pool in side.book.service.pools}

    def wrong(self, host: Host, others: Mapping[str, Host]) -> Iterable[str]:
        """The chain's own properties, and the bound of overtaking as measured from outside."""
        side = host.parts.get(MANAGER)
        if not isinstance(side, PoolSide):
            return chain_properties.siblings_inside(_chain_claimant(host))
        managers = {
            other.node: part.manager
            for other in others.values()
            if isinstance(part := other.parts.get(MANAGER), PoolSide)
        }
        wrong = chain_properties.all_wrong(managers.values())
        wrong += chain_properties.miscounted(side.manager)
        if self.setup.workload.units == 1:
            wrong += self._overtaking(host.node).turn(side.manager.rows)
        return wrong

    def restarted(self, name: str) -> None:
        """A node that comes up counts passes anew."""
        if name in self._nodes:
            self._overtaking(name).restarted()

    def most_passed(self) -> int:
        """How often one row was passed at most, where that was measured."""
        return max((meter.most for meter in self._meters.values()), default=0)

    def _overtaking(self, name: str) -> Overtaking:
        if name not in self._meters:
            setup = self.setup
            self._meters[name] = Overtaking(
                name, passes=setup.passes, passes_per_ahead=setup.passes_per_ahead
            )
        return self._meters[name]

    def entries(self, host: Host) -> int:
        """Rows, or claims of the claimant."""
        side = host.parts.get(MANAGER)
        return len(side.manager.rows) if isinstance(side, PoolSide) else len(_chain_claimant(host).claims)

    def may_go_on(self, host: Host, claim: ClaimId) -> bool:
        """Still granted, and every node has said so."""
        side = host.parts[CLAIMANT]
        if not isinstance(side, ClaimantSide) or not isinstance(side.claimant.claims.get(claim), Inside):
            return False
        return side.renewals.may_go_on(claim)


class ByPool(_Placed):
    """A protocol that asks each pool apart, by its entry in the registry."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.entry = protocol(setup.protocol)
        self.uncounted = self.entry.uncounted | frozenset(RENEWALS)
        self.clocked = self.entry.clocked
        self.tuning = Tuning(
            passes=setup.passes,
            passes_per_ahead=setup.passes_per_ahead,
            repeat_ms=self._repeat_ms,
            repeat_most_ms=self._repeat_most_ms if setup.repairs else None,
            sweep_ms=setup.sweep_ms,
            nodes=self.nodes(),
            parks=setup.parks,
            patience_ms=int(setup.patience * DELAY_MS),
        )

    def _manager(self, name: str) -> Machine:
        pools = self.setup.workload.pools_on(name)
        return pools_side(self.entry.name, name, pools, watch_peers=self.setup.repairs, tuning=self.tuning)

    def _claimant(self, name: str) -> Machine:
        side = claims_side(self.entry.name, name, self.tuning)
        return side if self.setup.repairs else side.claimant

    def given(self, host: Host) -> Mapping[str, int]:
        """Units that are set aside."""
        side = host.parts[MANAGER]
        return side.manager.used if isinstance(side, PoolsByPool) else {}

    def wrong(self, host: Host, others: Mapping[str, Host]) -> Iterable[str]:
        """What all managers by pool must keep, and the protocol's own properties."""
        side = host.parts.get(MANAGER)
        if not isinstance(side, PoolsByPool):
            return
        yield from by_pool_wrong(side.manager)
        yield from self.entry.wrong_here(side.manager)
        yield from self.entry.wrong_between(
            {name: Seen.of(manager) for name, manager in managers_of(others).items()}
        )

    def restarted(self, name: str) -> None:
        """Nothing is measured over turns."""

    def entries(self, host: Host) -> int:
        """Entries of the manager, or claims of the claimant."""
        side = host.parts.get(MANAGER)
        return (
            len(side.manager.entries)
            if isinstance(side, PoolsByPool)
            else len(_by_pool_claimant(host).claims)
        )

    def may_go_on(self, host: Host, claim: ClaimId) -> bool:
        """Still granted, and every node has said so."""
        side = host.parts[CLAIMANT]
        record = _by_pool_claimant(host).claims.get(claim)
        if not isinstance(side, ClaimsByPool) or record is None or record.phase is not InsidePhase.INSIDE:
            return False
        return side.renewals.may_go_on(claim)


def _chain_claimant(host: Host) -> ChainClaimant:
    part = host.parts[CLAIMANT]
    claimant = part.claimant if isinstance(part, ClaimantSide) else part
    if not isinstance(claimant, ChainClaimant):
        raise TypeError(f"{host.node} has no claimant of the chain")
    return claimant


def _by_pool_claimant(host: Host) -> Claimant[Any]:
    part = host.parts[CLAIMANT]
    if isinstance(part, ClaimsByPool):
        return part.claimant
    if not isinstance(part, Claimant):
        raise TypeError(f"{host.node} has no claimant by pool")
    return cast("Claimant[Any]", cast("object", part))


Maker: TypeAlias = Callable[[Setup], System]

SYSTEMS: dict[str, Maker] = {
    CENTRAL: Central,
    BALLOT: ballot,
    SKEEN: skeen,
    **{name: ByPool if entry.by_pool else Chain for name, entry in PROTOCOLS.items()},
}
"""What can be simulated: the yardstick, two steps of the history of lanes, and every protocol of the registry."""

FAULTLESS = frozenset({CENTRAL, BALLOT, SKEEN})
"""They survive no fault and have no leases."""


def pools_max(name: str) -> int | None:
    """Pools that one claim may want under this protocol; None: any number."""
    return PROTOCOLS[name].pools_max if name in PROTOCOLS else None


def serves(name: str, workload: Workload) -> bool:
    """Whether a protocol can serve claims of so many pools, and the steps of the history these pools."""
    if name in {BALLOT, SKEEN}:
        return one_unit_a_node(workload)
    most = pools_max(name)
    return most is None or (workload.pools if workload.wide else workload.k) <= most


def check_step(name: str, workload: Workload) -> None:
    """Raises ValueError where a step of the history is asked for what it does not know."""
    if name in {BALLOT, SKEEN} and not one_unit_a_node(workload):
        raise ValueError(
            f"{name} is a step of the history: one pool a node, and pools of one unit; here are "
            f"{workload.pools} pools of {workload.units} on {workload.nodes} nodes"
        )


def system(setup: Setup) -> System:
    """The hosts' maker for a setup. Raises ValueError for an unknown protocol, and for what it can't serve."""
    made = SYSTEMS.get(setup.protocol)
    check_step(setup.protocol, setup.workload)
    if made is None:
        raise ValueError(f"unknown protocol {setup.protocol!r}; known: {', '.join(sorted(SYSTEMS))}")
    if setup.protocol in FAULTLESS and setup.faults.any():
        raise ValueError(
            f"`{setup.protocol}` is for comparison and survives no faults; leave them out or choose a protocol"
        )
    return made(setup)

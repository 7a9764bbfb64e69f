"""How the hosts of a run are built: the yardstick, or a protocol's shipped machines behind a lease book."""

from collections.abc import Iterable
from typing import Protocol

from holdall.machine.codec import CODEC
from holdall.machine.host import Host
from holdall.simulator.setup import Setup
from holdall.simulator.yardstick import CENTRE, CentralClaimant, CentralManager, YardstickMessage

AGENT = "agent"
CLAIMANT = "claimant"
MANAGER = "manager"

CENTRAL = "central"
"""Name of the yardstick, in place of a protocol's."""

CODEC.register("yardstick", YardstickMessage)


class System(Protocol):
    """One protocol, as the simulator sees it."""

    uncounted: frozenset[type]
    """Kinds of message that are no work of the protocol: acknowledgements of an end, renewals."""

    def nodes(self) -> tuple[str, ...]:
        """Hosts with pools."""
        ...

    def host(self, name: str) -> Host:
        """A host that has not been started; every name that is no node's is a claimant's."""
        ...

    def given(self, host: Host) -> dict[str, int]:
        """Pool -> units given, by the books of a host with pools."""
        ...

    def wrong(self, host: Host) -> Iterable[str]:
        """Properties of the protocol that don't hold on this host, as texts."""
        ...

    def entries(self, host: Host) -> int:
        """Entries of claims that are not over, on any host."""
        ...


class Central:
    """The yardstick's hosts."""

    uncounted: frozenset[type] = frozenset()

    def __init__(self, setup: Setup) -> None:
        workload = setup.workload
        self._pools = {
            (node, pool): units
            for node in workload.node_names()
            for pool, units in workload.pools_on(node).items()
        }

    def nodes(self) -> tuple[str, ...]:
        return (CENTRE.node,)

    def host(self, name: str) -> Host:
        if name == CENTRE.node:
            return Host(name, {MANAGER: CentralManager(self._pools)})
        return Host(name, {CLAIMANT: CentralClaimant(name)})

    def given(self, host: Host) -> dict[str, int]:
        return {}

    def wrong(self, host: Host) -> Iterable[str]:
        return ()

    def entries(self, host: Host) -> int:
        manager = host.parts.get(MANAGER)
        return len(manager.held) + len(manager.waiting) if isinstance(manager, CentralManager) else 0


def system(setup: Setup) -> System:
    """The hosts' maker for a setup. Raises ValueError for an unknown protocol."""
    if setup.protocol == CENTRAL:
        if setup.faults.any():
            raise ValueError(
                "the yardstick `central` survives no faults; leave them out or choose a protocol"
            )
        return Central(setup)
    raise ValueError(f"unknown protocol {setup.protocol!r}")

"""Which bus a node has: none, that of the system that it has joined or founds, or a cluster that somebody else runs.

All that the bus keeps lies in the folder `bus` of the state folder. A node with neither `[bus]` nor that folder
loads nothing of it.
"""

from typing import TYPE_CHECKING, Protocol

import msgspec

from holdall.bus.identity import NodeKey
from holdall.bus.interface import Bus
from holdall.node import paths
from holdall.node.configured import RHO_PPM, BusSettings, Settings
from holdall.parties.directory_messages import Member

if TYPE_CHECKING:
    from holdall.bus.service import OwnBus


class Log(Protocol):
    """A logger with named values."""

    def info(self, event: str, **values: object) -> object:
        """News that needs nobody."""
        ...

    def warning(self, event: str, **values: object) -> object:
        """Something a person may want to look at."""
        ...

    def error(self, event: str, **values: object) -> object:
        """Something a person must look at."""
        ...


class Seat(msgspec.Struct, frozen=True):
    """A node's place in its system."""

    bus: Bus | None = None
    members: tuple[Member, ...] = ()
    """Nodes that the bus knows of; the directory says hello to them."""
    address: str = ""
    """Where others reach this node's server; empty without one."""


def seat_of(settings: Settings, key: NodeKey, log: Log) -> Seat:
    """The seat that settings and state folder say. Nothing is opened yet. Raises BadConfig."""
    bus = settings.bus or BusSettings()
    if not bus.listen and not bus.servers and not (settings.state / paths.BUS_NAME).exists():
        return Seat()
    from holdall.bus.entry import make_bus
    from holdall.bus.service import OwnBus
    from holdall.bus.system import Facts

    made = make_bus(
        settings.state,
        key,
        name=settings.name,
        facts=Facts(
            protocol=settings.defaults.protocol, ttl_max_ms=settings.defaults.ttl_max_ms, rho_ppm=RHO_PPM
        ),
        log=log,
        listen=bus.listen,
        advertise=bus.advertise,
        servers=bus.servers,
        creds=bus.creds,
        system=bus.system,
        program=bus.server,
    )
    if not isinstance(made, OwnBus):
        return Seat(made)
    return Seat(made, _members(made, key.id), _address(made, key.id))


def _members(bus: "OwnBus", own: str) -> tuple[Member, ...]:
    """Who was let in, and who has a server; names are known of the former only."""
    known = bus.system.members
    names = {node: one.name for node, one in known.known.items() if not known.is_revoked(node)}
    ids = {*names, *(entry.node for entry in bus.system.membership.servers)} - {own}
    return tuple(Member(node=node, name=names.get(node, node)) for node in sorted(ids))


def _address(bus: "OwnBus", own: str) -> str:
    from holdall.bus.addresses import shown

    entries = (entry for entry in bus.system.membership.servers if entry.node == own)
    return next((shown(entry.hosts[0], entry.port) for entry in entries), "")

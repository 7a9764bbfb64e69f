"""Which bus a node has: none, that of the system that it has joined or founds, or a cluster that somebody else runs.

All that the bus keeps lies in the folder `bus` of the state folder. A node with neither `[bus]` nor that folder
loads nothing of it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdall.bus.identity import NodeKey
from holdall.bus.interface import Bus
from holdall.model.errors import Refused
from holdall.node import paths
from holdall.node.beacons import Beacon, Beacons
from holdall.node.configured import RHO_PPM, BusSettings, Settings
from holdall.node.location.by_table import TableLeadership
from holdall.parties.directory.messages import Member

if TYPE_CHECKING:
    from holdall.bus.nats import NatsBus
    from holdall.bus.service import OwnBus
    from holdall.bus.system import Facts

CODE_VALID_S = 3600


class Wishes(msgspec.Struct, frozen=True):
    """What the bus asks and tells the node."""

    may_join: Callable[[str, str], str]
    """(name, id) -> why a node can't join under this name; empty when it can."""
    met: Callable[[str, str], None]
    """(id, name) of a node that is there."""
    differs: Callable[[str, str, str], None]
    """(id, name, what) of a node with other system-wide settings."""


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


class Seat:
    """A node's place in its system. By itself: that of a node that stands alone."""

    bus: Bus | None = None
    members: tuple[Member, ...] = ()
    """Nodes that the bus knows of; the directory says hello to them."""
    address = ""
    """Where others reach this node's server; empty without one."""
    is_server = False
    """Others can join here."""
    beacons: Beacons | None = None

    def join_code(self) -> str:
        """A fresh code for one node. Raises Refused where nobody can join."""
        raise Refused(
            "nobody can join here: this node stands alone. "
            'Set listen = "0.0.0.0:4222" below [bus] in its configuration and start it again.'
        )

    def leadership(self, location: str) -> TableLeadership | None:
        """Who elects the manager of the node's location; None: the first node that is heard leads."""
        del location
        return None

    def shut_out(self, node: str) -> None:
        """Void the rights of a node that was forgotten, as far as this node can."""

    def shown(self) -> dict[str, object]:
        """For `/healthz`."""
        return {}


class GivenSeat(Seat):
    """On a bus that the caller has made, with the nodes that are known on it."""

    def __init__(self, bus: Bus, members: tuple[Member, ...] = ()) -> None:
        self.bus = bus
        self.members = members


class ForeignSeat(Seat):
    """On a cluster that somebody else runs: nodes find each other by beacons."""

    def __init__(
        self, bus: "NatsBus", beacons: Beacons, elects: Callable[[str], TableLeadership] | None = None
    ) -> None:
        """`elects`: a candidate for a location's manager, in the JetStream of that cluster."""
        self.bus = bus
        self.beacons = beacons
        self._elects = elects

    def leadership(self, location: str) -> TableLeadership | None:
        return None if self._elects is None else self._elects(location)

    def join_code(self) -> str:
        raise Refused(
            "nobody joins here by a code: the servers are somebody else's. Give the other node servers and creds below "
            "[bus]. See: holdall nats-config"
        )


class OwnSeat(Seat):
    """In a system that runs its own servers."""

    def __init__(self, bus: "OwnBus", own: str) -> None:
        from holdall.bus.addresses import shown

        self.bus = bus
        self._own = bus
        system = bus.system
        names = {
            node: member.name
            for node, member in system.members.known.items()
            if not system.members.is_revoked(node)
        }
        entries = {entry.node: entry for entry in system.membership.servers}
        self.members = tuple(
            Member(node=node, name=names.get(node, node)) for node in sorted({*names, *entries} - {own})
        )
        self.is_server = system.membership.listen is not None
        if own in entries:
            self.address = shown(entries[own].hosts[0], entries[own].port)

    def join_code(self) -> str:
        return self._own.join_code(CODE_VALID_S)

    def shut_out(self, node: str) -> None:
        self._own.revoke(node)

    def shown(self) -> dict[str, object]:
        status = self._own.status()
        return {
            "system": status.system,
            "server": status.connected_to or "",
            "listen": status.listen or "",
            "problem": status.server_problem,
            "server_pid": status.server_pid or 0,
            "server_starts": status.server_starts,
        }


def facts_of(settings: Settings) -> "Facts":
    """What all nodes of a system must have alike."""
    from holdall.bus.system import Facts

    defaults = settings.defaults
    return Facts(protocol=defaults.protocol, ttl_max_ms=defaults.ttl_max_ms, rho_ppm=RHO_PPM)


def seat_of(settings: Settings, key: NodeKey, log: Log, wishes: Wishes) -> Seat:
    """The seat that settings and state folder say. Nothing is opened yet. Raises BadConfig."""
    bus = settings.bus or BusSettings()
    if not bus.listen and not bus.servers and not (settings.state / paths.BUS_NAME).exists():
        return Seat()
    from holdall.bus.entry import make_bus
    from holdall.bus.service import OwnBus

    facts = facts_of(settings)
    own = Beacon(settings.name, facts.protocol, facts.ttl_max_ms, facts.rho_ppm)
    beacons = Beacons(own, met=wishes.met, differs=wishes.differs)
    made = make_bus(
        settings.state,
        key,
        name=settings.name,
        facts=facts,
        log=log,
        listen=bus.listen,
        advertise=bus.advertise,
        servers=bus.servers,
        creds=bus.creds,
        system=bus.system,
        program=bus.server,
        may_join=wishes.may_join,
        on_notice=beacons.announced,
    )
    if made is None:
        return Seat()
    if isinstance(made, OwnBus):
        return OwnSeat(made, key.id)
    beacons.bus = made

    def elects(location: str) -> TableLeadership:
        from holdall.bus.entry import foreign_leadership

        return foreign_leadership(
            key, location, servers=bus.servers, creds=bus.creds, system=bus.system, log=log
        )

    return ForeignSeat(made, beacons, elects)


async def join(settings: Settings, key: NodeKey, code: str) -> None:
    """Join the system of the code; `seat_of` gives the seat then.

    Raises BadSpec (no whole code), BadConfig (this node can't), Unreachable, Refused (the system says no).
    """
    from holdall.bus.join import join_system, suggested_listen

    bus = settings.bus or BusSettings()
    await join_system(
        code,
        settings.state,
        key,
        name=settings.name,
        facts=facts_of(settings),
        listen=bus.listen or suggested_listen(code),
        advertise=bus.advertise,
    )

"""Drives a node's part in its location: tells the machines who leads, and whom they must obey."""

from collections.abc import Callable, Sequence

from holdall.leases.negotiation.members import SUSPECT_BEATS
from holdall.machine.contract import Address
from holdall.machine.host import Host
from holdall.node.location.by_table import TableLeadership, TableOrFirst
from holdall.node.location.leadership import FirstNode, Leadership
from holdall.node.loop import Loop
from holdall.parties.directory.machine import Directory
from holdall.parties.directory.messages import DIRECTORY
from holdall.parties.directory.view import DirectoryView
from holdall.parties.location.host_side import HostSide
from holdall.parties.location.messages import HOST, LOCATION, NEGOTIATOR, Led, Rate
from holdall.parties.location.negotiator import Negotiator
from holdall.parties.messages import NODE


class LocationDriver:
    """Of one node. In no location it does nothing."""

    def __init__(
        self, location: str, loop: Loop, leadership: Callable[[str], TableLeadership | None]
    ) -> None:
        """`leadership`: who elects in a location; None: the first node that is heard leads."""
        self._loop = loop
        self._node = loop.host.node
        self._leadership: Leadership | None = None
        if location:
            heard = heard_at(location, loop.host)
            first = FirstNode(self._node, heard, silent=silent_manager(loop.host))
            table = leadership(location)
            self._leadership = first
            if table is not None:
                self._leadership = TableOrFirst(self._node, table, first, heard=heard, doubts=first.doubts)

    async def open(self) -> None:
        """All parts of the node may speak with others: take part in the election."""
        if self._leadership is not None:
            await self._leadership.open(self._told)

    def deposed(self, epoch: int) -> None:
        """A host obeys a manager with this epoch."""
        if self._leadership is not None:
            self._leadership.seen(epoch)

    async def close(self) -> None:
        """Lead no more."""
        if self._leadership is not None:
            await self._leadership.close()

    def _told(self, node: str, epoch: int) -> None:
        self._loop.put(LOCATION, Address(self._node, NODE), Led(node, epoch))


def silent_manager(host: Host) -> Callable[[], str]:
    """The manager that leaves the heartbeats of this node's host unanswered; empty: none does."""

    def silent() -> str:
        side = host.parts.get(HOST)
        if not isinstance(side, HostSide) or side.manager.unanswered <= SUSPECT_BEATS:
            return ""
        return next((one.node for one in side.manager.settings.managers if one.node != host.node), "")

    return silent


def heard_at(location: str, host: Host) -> Callable[[], Sequence[str]]:
    """The ids of the location's other nodes that the directory hears now."""

    def heard() -> Sequence[str]:
        directory = host.parts.get(DIRECTORY)
        if not isinstance(directory, Directory):
            return ()
        return [
            one.node
            for one in DirectoryView(directory).nodes()
            if one.location == location and one.state not in {"silent", "stopped"}
        ]

    return heard


def rates(host: Host) -> Callable[[str, str, str], Rate | None]:
    """What users of the node have of capacities by their leases, as its negotiator knows it."""

    def rate_of(user: str, lease: str, term: str) -> Rate | None:
        part = host.parts.get(NEGOTIATOR)
        return part.rate_of(user, lease, term) if isinstance(part, Negotiator) else None

    return rate_of


def names_of(host: Host) -> Callable[[str], str]:
    """What people call the nodes, as the node's directory knows it."""

    def name_of(node: str) -> str:
        directory = host.parts.get(DIRECTORY)
        return DirectoryView(directory).name_of(node) if isinstance(directory, Directory) else node

    return name_of

"""What the account asks the node's own machines: whose user somebody is, and what has been measured of a lease."""

from holdall.machine.host import Host
from holdall.node.accounting.intervals import NOTHING, Use, UseOf
from holdall.node.accounting.readers import AffiliationOf
from holdall.parties.directory.machine import Directory
from holdall.parties.directory.messages import DIRECTORY
from holdall.parties.directory.view import DirectoryView
from holdall.parties.location.host_side import HostSide
from holdall.parties.location.messages import HOST


def affiliations(host: Host, location: str) -> AffiliationOf:
    """A node's users belong to its location, as negotiation has it, too.

    By what the directory of this node, which is in `location`, knows of others at that time.
    """

    def of_node(node: str) -> str:
        if node == host.node:
            return location
        directory = host.parts.get(DIRECTORY)
        if not isinstance(directory, Directory):
            return ""
        known = DirectoryView(directory).node(node)
        return "" if known is None else known.location

    return of_node


def uses(host: Host) -> UseOf:
    """What this host's manager has been told of the use of its leases."""

    def of_term(lease: str, term: str) -> Use:
        side = host.parts.get(HOST)
        found = side.manager.use_of(lease, term) if isinstance(side, HostSide) else None
        return NOTHING if found is None else Use(found.used.total, found.denied, found.violated_s)

    return of_term

"""Names of the parts, and what they say to each other beside the messages of negotiation.

`host`
    The manager of this host's leases, on each node that offers something at a location.
`location`
    A candidate for the manager of the location, on each node of it. One leads.
`negotiator`
    Speaks for this node's clients, with any location.
"""

from typing import TypeAlias

import msgspec

from holdall.leases.negotiation import looking
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Asker
from holdall.machine.codec import CODEC
from holdall.machine.contract import Address
from holdall.model.terms import TermUse

HOST, LOCATION, NEGOTIATOR = "host", "location", "negotiator"

OfAgent: TypeAlias = (
    m.GetTemplates
    | m.RequestLease
    | m.AcceptLease
    | m.DeclineLease
    | m.LeaveLine
    | m.ReleaseLease
    | m.GetStatus
    | m.RenewLeases
    | m.SplitLease
    | m.UseIs
    | looking.GetHosts
    | looking.GetLeases
    | looking.GetShares
)


class OnBehalf(msgspec.Struct, frozen=True, tag="on_behalf"):
    """A negotiator says this for one of its node's users, for whom the node vouches."""

    asker: Asker
    message: OfAgent


class Elsewhere(msgspec.Struct, frozen=True, tag="elsewhere"):
    """Another node leads the location; empty: nobody is known to. `said` was not heeded."""

    location: str
    leader: str
    said: OnBehalf


BetweenNodes: TypeAlias = OnBehalf | Elsewhere
CODEC.register("location", BetweenNodes)


class Led(msgspec.Struct, frozen=True, tag="led"):
    """From the driver: this node leads the location from now on; `epoch` counts where it is this one."""

    node: str
    epoch: int = 0


class Deposed(msgspec.Struct, frozen=True, tag="deposed"):
    """To the driver: a host obeys a manager with this epoch, which is later than ours."""

    epoch: int


class ManagedBy(msgspec.Struct, frozen=True, tag="managed_by"):
    """From the node's own candidate to its host's manager: tell these of the host."""

    managers: tuple[Address, ...]


class Petition(msgspec.Struct, frozen=True, tag="petition"):
    """From the driver, for a client: `body` is one of `model.location_frames`. User and groups are the kernel's word."""

    n: int
    body: bytes
    user: str
    uid: int
    groups: tuple[str, ...] = ()


class Rate(msgspec.Struct, frozen=True):
    """What a lease grants of a capacity, by whom, until when of CLOCK_BOOTTIME."""

    host: str
    granted: int
    until_ms: int


class BytesUsed(msgspec.Struct, frozen=True, tag="bytes_used"):
    """From the node's gate: what has left under a lease of the host so far."""

    lease: str
    host: str
    uses: tuple[TermUse, ...]
    meter: str


OfNode: TypeAlias = Led | Deposed | ManagedBy | Petition | BytesUsed
CODEC.register("location order", OfNode)

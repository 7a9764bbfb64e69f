"""Between an agent's negotiator and the part that uses the leases, on the same host."""

from typing import TypeAlias

import msgspec

from holdall.leases.negotiation.messages import Declined, Queued, SplitLease
from holdall.machine.codec import CODEC
from holdall.model.terms import LeaseDocument, LeaseRequest, RequestedTerm


class Want(msgspec.Struct, frozen=True, tag="want"):
    """Negotiate this. Answered by Offered or NotOffered. With `take` an offer is accepted at once, and answered by Got."""

    request: LeaseRequest
    take: bool = False


class Take(msgspec.Struct, frozen=True, tag="take"):
    """Accept the offer that this request got. Answered by Got or Lost."""

    request: str


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """The request is not wanted any more, nor an offer for it."""

    request: str


class RenewNow(msgspec.Struct, frozen=True, tag="renew_now"):
    """Ask for the lease's renewal at once; answered by Got or NotRenewed. None: as before."""

    lease: str
    duration: int | None = None
    """ms, from now on."""
    terms: dict[str, RequestedTerm] | None = None


class TakeUp(msgspec.Struct, frozen=True, tag="take_up"):
    """A lease that is not held here, as its agent has begun anew, is to be renewed and held. Got, NotRenewed or Lost."""

    lease: str
    duration: int
    terms: dict[str, RequestedTerm] | None = None


class GiveBack(msgspec.Struct, frozen=True, tag="give_back"):
    """The lease is not used any more, from now on."""

    lease: str


class CutOff(msgspec.Struct, frozen=True, tag="cut_off"):
    """Give a part of a lease to another holder. Answered by Parted or NotParted."""

    order: SplitLease


class Offered(msgspec.Struct, frozen=True, tag="offered"):
    """Say Take or Leave before `offer_ms` are over."""

    request: str
    document: LeaseDocument
    offer_ms: int


class InLine(msgspec.Struct, frozen=True, tag="in_line"):
    """The request waits, and stands so; Offered, Got or NotOffered follows."""

    queued: Queued


class NotOffered(msgspec.Struct, frozen=True, tag="not_offered"):
    """The location has declined."""

    declined: Declined


class Got(msgspec.Struct, frozen=True, tag="got"):
    """The lease may be used in this revision, until Lost says otherwise."""

    document: LeaseDocument


class NotRenewed(msgspec.Struct, frozen=True, tag="not_renewed"):
    """The lease goes on as it is; it is asked for again before its end."""

    lease: str
    reason: str
    term: str = ""
    rule: str = ""


class Parted(msgspec.Struct, frozen=True, tag="parted"):
    """The part is another holder's. `rest`: what is left of the lease."""

    rest: LeaseDocument
    part: LeaseDocument


class NotParted(msgspec.Struct, frozen=True, tag="not_parted"):
    """Nothing was cut off; `reason` as in NoSplit, or `no_answer` for a lease that is not held here: it may yet be."""

    lease: str
    part: str
    reason: str
    term: str = ""
    rule: str = ""
    best_possible: dict[str, int] = {}


class Warned(msgspec.Struct, frozen=True, tag="warned"):
    """It will be taken away after `grace_ms`."""

    lease: str
    grace_ms: int
    why: str


class Lost(msgspec.Struct, frozen=True, tag="lost"):
    """Do not use it from now on. `lapsed`, `stale_revision`, `expired`, `ended`, `revoked`."""

    lease: str
    reason: str


OwnerToAgent: TypeAlias = Want | Take | Leave | RenewNow | TakeUp | GiveBack | CutOff
AgentToOwner: TypeAlias = (
    Offered | InLine | NotOffered | Got | NotRenewed | Parted | NotParted | Warned | Lost
)

CODEC.register("negotiation-agent", OwnerToAgent | AgentToOwner)

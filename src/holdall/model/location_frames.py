"""What a client and its node say about locations; each is the body of a `frames.Negotiate` or `frames.Negotiated`.

They travel as bytes inside those frames, so that clients which never negotiate load none of this. Times are durations in
ms, and `valid_for_ms` counts from before the client sent what is answered.
"""

import re
from typing import Annotated, TypeAlias

import msgspec

from holdall.model.decoding import decoded
from holdall.model.location_rows import CapacityRow, HostRow, ShareRow
from holdall.model.names import NEEDS_MAX
from holdall.model.quantities import AMOUNT_MAX
from holdall.model.terms import (
    TERMS_MAX,
    LeaseDocument,
    LeaseRequest,
    RequestedTerm,
    Template,
    TermUse,
)

LEASES_MAX = 256
PARTS_MAX = 32
BEFORE_END_MAX = 512
ID_MAX = 256
"""Letters of the id of a lease."""
HOLDER_MAX = 128
REQUEST_PATTERN = "^[0-9a-z]{8,40}$"
PART_MARK = "s"
"""Begins the last word of a part's id, where those of other leases are numbers."""
_OWN_WORDS = re.compile(f"[0-9A-Za-z]+-{PART_MARK}[0-9a-z]+")
"""After the location, in a part's id: other nodes say it, and it names records and timers."""
_Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=64)]
_Id: TypeAlias = Annotated[str, msgspec.Meta(max_length=ID_MAX)]
_After: TypeAlias = Annotated[str, msgspec.Meta(max_length=512)]
_Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=AMOUNT_MAX)]
_Duration: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]

# Client -> node


class ListLocations(msgspec.Struct, frozen=True, tag="list_locations"):
    """Answer: Locations."""


class AskTemplates(msgspec.Struct, frozen=True, tag="ask_templates"):
    """Answer: TemplatesAre."""

    location: _Name


class AskOffer(msgspec.Struct, frozen=True, tag="ask_offer"):
    """Answer: OfferIs or NoOffer. With `take` the offer is accepted at once, and the answer is LeaseIs or NoOffer."""

    location: _Name
    request: LeaseRequest
    take: bool = False
    tell: bool = False
    """While it waits, any number of InLine come before that answer."""


class GiveUp(msgspec.Struct, frozen=True, tag="give_up"):
    """This request of the user's is not wanted any more, nor what comes of it. Answer: NoOffer, `cancelled` or `unknown`."""

    request: _Id


class AskTogether(msgspec.Struct, frozen=True, tag="ask_together"):
    """All of these become leases, or none. Answer: LeasesAre, or NoOffer of one that comes to nothing."""

    parts: Annotated[tuple[AskOffer, ...], msgspec.Meta(min_length=1, max_length=PARTS_MAX)]


class ListOffers(msgspec.Struct, frozen=True, tag="list_offers"):
    """The open offers of this user at this node. Answer: Offers."""


class AcceptOffer(msgspec.Struct, frozen=True, tag="accept_offer"):
    """Answer: LeaseIs, or Over where nothing is granted by it; the same again by the same answer, but for a command's."""

    lease: _Id
    command: bool = False
    """For a command, which has its lease alone: of all that take one offer the first gets it, and the others are denied."""


class DeclineOffer(msgspec.Struct, frozen=True, tag="decline_offer"):
    """Answer: Over."""

    lease: _Id


class AskStatus(msgspec.Struct, frozen=True, tag="ask_status"):
    """Answer: LeaseIs, or Over for one that nobody knows."""

    lease: _Id


class AskHosts(msgspec.Struct, frozen=True, tag="ask_hosts"):
    """Answer: HostsAre, of which `after` is the `next` of the part before."""

    location: _Name
    after: _After = ""


class AskLeases(msgspec.Struct, frozen=True, tag="ask_leases"):
    """All leases of the location, as its manager knows them, or those of one host with their use. Answer: AllLeasesAre."""

    location: _Name
    host: _Name = ""
    after: _After = ""


class AskShares(msgspec.Struct, frozen=True, tag="ask_shares"):
    """How one host's capacities are divided. Answer: SharesAre."""

    location: _Name
    host: _Name
    after: _After = ""


class RenewLease(msgspec.Struct, frozen=True, tag="renew_lease"):
    """`duration` None: as long as before; without `terms` the same is asked. Answer: LeaseIs, NoOffer or Over."""

    lease: _Id
    duration: _Duration | None = None
    terms: dict[_Name, RequestedTerm] | None = None


class EndLease(msgspec.Struct, frozen=True, tag="end_lease"):
    """The lease is given back. Answer: Over."""

    lease: _Id


class SplitLease(msgspec.Struct, frozen=True, tag="split_lease"):
    """Amounts of capacities, in base units, become a lease of somebody else. Answer: LeaseParted, NoOffer or Over."""

    lease: _Id
    amounts: Annotated[dict[_Name, _Amount], msgspec.Meta(min_length=1, max_length=NEEDS_MAX)]
    to: Annotated[str, msgspec.Meta(min_length=3, max_length=HOLDER_MAX)]
    """`user@node`."""
    request: Annotated[str, msgspec.Meta(pattern=REQUEST_PATTERN)]
    """Id of this order, chosen at random; the same again is the same split."""


class HoldLeases(msgspec.Struct, frozen=True, tag="hold_leases"):
    """These are used: the node renews each for as long as this comes again within the lease's duration. Answer: Held."""

    leases: Annotated[tuple[_Id, ...], msgspec.Meta(max_length=LEASES_MAX)]


class TellUse(msgspec.Struct, frozen=True, tag="tell_use"):
    """As HoldLeases for one lease, from whoever keeps a command to it: its use so far, by terms of a command. Answer: Held."""

    lease: _Id
    uses: Annotated[tuple[TermUse, ...], msgspec.Meta(max_length=TERMS_MAX)] = ()
    meter: _Name = ""
    """Which has counted this since it began."""
    before_end: Annotated[str, msgspec.Meta(max_length=BEFORE_END_MAX)] = ""
    """What became of that which was to be done before the end; empty: nothing yet."""
    guarded: bool = False
    """A guardian says it: when its process is gone, what it guarded may not be, so the lease is not given back but runs out."""


FromClient: TypeAlias = (
    ListLocations
    | AskTemplates
    | AskOffer
    | GiveUp
    | AskTogether
    | ListOffers
    | AcceptOffer
    | DeclineOffer
    | AskStatus
    | AskHosts
    | AskLeases
    | AskShares
    | RenewLease
    | EndLease
    | SplitLease
    | HoldLeases
    | TellUse
)

# Node -> client


class LocationRow(msgspec.Struct, frozen=True):
    """One location. `manager`: the node that leads; empty: none has answered."""

    location: str
    nodes: tuple[str, ...]
    manager: str
    templates: tuple[str, ...]


class Locations(msgspec.Struct, frozen=True, tag="locations"):
    """All that this node's directory knows, by name."""

    rows: tuple[LocationRow, ...]


class TemplatesAre(msgspec.Struct, frozen=True, tag="templates_are"):
    """`suspect`: ids of those which only hosts offer that have not been heard of for a while."""

    location: str
    templates: tuple[Template, ...]
    suspect: tuple[str, ...] = ()


class OfferIs(msgspec.Struct, frozen=True, tag="offer_is"):
    """It binds the location for `offer_ms`."""

    document: LeaseDocument
    offer_ms: int


class Offers(msgspec.Struct, frozen=True, tag="offers"):
    """Open ones, each with what is left of its time."""

    rows: tuple[OfferIs, ...]


class InLine(msgspec.Struct, frozen=True, tag="in_line"):
    """A request waits, as nothing can be offered for it now."""

    position: int
    """1: nobody waits before it."""
    ahead: int
    """Of those before it so many want one of its terms: no more are served before it."""
    reason: str
    """Why nothing could be offered when that was tried last, with the term, and what could have been had then."""
    term: str = ""
    best_possible: dict[str, int] = {}


class NoOffer(msgspec.Struct, frozen=True, tag="no_offer"):
    """Nothing is offered, or renewed: the lease that there is goes on as it was."""

    reason: str
    term: str = ""
    rule: str = ""
    text: str = ""
    best_possible: dict[str, int] = {}
    missing: dict[str, str] = {}
    """Host -> the first term that it does not support."""
    templates: tuple[Template, ...] = ()
    retry_after_ms: int = 0


class LeaseIs(msgspec.Struct, frozen=True, tag="lease_is"):
    """The lease now. `valid_for_ms` 0: this node does not hold it for the client, who has only its document."""

    document: LeaseDocument
    valid_for_ms: int = 0


class LeaseParted(msgspec.Struct, frozen=True, tag="lease_parted"):
    """What is left of the lease, and the other one, which is its new holder's to renew."""

    rest: LeaseIs
    part: LeaseDocument


class LeasesAre(msgspec.Struct, frozen=True, tag="leases_are"):
    """One for each part, in their order; all are active."""

    leases: tuple[LeaseIs, ...]


class Over(msgspec.Struct, frozen=True, tag="over"):
    """`declined`, `released`, `lapsed`, `stale_revision`, `unknown`, `expired`, `revoked`, `ended`."""

    lease: str
    reason: str


class HeldLease(msgspec.Struct, frozen=True):
    """One of HoldLeases. `document` None: it is over, or not held here; `reason` tells."""

    lease: str
    valid_for_ms: int = 0
    document: LeaseDocument | None = None
    reason: str = ""
    warned: str = ""
    """It will be taken away: why."""


class Held(msgspec.Struct, frozen=True, tag="held"):
    """In the order in which they were asked for."""

    leases: tuple[HeldLease, ...]


class HostsAre(msgspec.Struct, frozen=True, tag="hosts_are"):
    """`manager`: the node that answers. `next` empty: that is all."""

    manager: str
    rows: tuple[HostRow, ...]
    next: str = ""


class AllLeasesAre(msgspec.Struct, frozen=True, tag="all_leases_are"):
    """Everybody's, those that are over lately too."""

    documents: tuple[LeaseDocument, ...]
    next: str = ""


class SharesAre(msgspec.Struct, frozen=True, tag="shares_are"):
    """All capacities of the host, and a part of the demands on them."""

    host: str
    capacities: tuple[CapacityRow, ...]
    rows: tuple[ShareRow, ...]
    next: str = ""


ToClient: TypeAlias = (
    Locations
    | TemplatesAre
    | OfferIs
    | Offers
    | InLine
    | NoOffer
    | LeaseIs
    | LeaseParted
    | LeasesAre
    | Over
    | Held
    | HostsAre
    | AllLeasesAre
    | SharesAre
)

_encoder = msgspec.msgpack.Encoder()
_from_client: msgspec.msgpack.Decoder[FromClient] = msgspec.msgpack.Decoder(FromClient)
_to_client: msgspec.msgpack.Decoder[ToClient] = msgspec.msgpack.Decoder(ToClient)


def pack(value: FromClient | ToClient) -> bytes:
    """The body of a frame."""
    return _encoder.encode(value)


def read_question(body: bytes) -> FromClient:
    """What a client asks. Raises msgspec.DecodeError (incl. ValidationError), ValueError or RecursionError when it is none."""
    question = _from_client.decode(body)
    if isinstance(question, RenewLease) and question.terms and len(question.terms) > NEEDS_MAX:
        raise ValueError(f"{len(question.terms)} terms; at most {NEEDS_MAX}")
    return question


def read_answer(body: bytes) -> ToClient:
    """What a node answers. Raises msgspec.DecodeError (incl. ValidationError) when it is none."""
    return decoded(_to_client.decode, body)


def location_of(lease: str) -> str:
    """The location in a lease's id, `L-LOCATION-NODE-NUMBER`; empty where it is no such id."""
    start, _, rest = lease.partition("-")
    parts = rest.rsplit("-", 2)
    return parts[0] if start == "L" and len(parts) == 3 else ""


def part_id(lease: str, node: str, request: str) -> str:
    """Of what is cut off this lease by somebody of that node."""
    return f"L-{location_of(lease)}-{node}-{PART_MARK}{request}"


def is_part_of(part: str, lease: str) -> bool:
    """Whether it can be the id of a part of this lease, and of nothing else."""
    location = location_of(lease)
    own = part.removeprefix(f"L-{location}-")
    return len(part) <= ID_MAX and location != "" and own != part and bool(_OWN_WORDS.fullmatch(own))

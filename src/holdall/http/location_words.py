"""What requests about locations say and answers tell; the rows are those of `holdall location … --json`."""

from typing import Annotated, Literal

import msgspec

from holdall.http.problems import ProblemDetail
from holdall.http.request_words import Body, Duration, PageQuery, Query, Word
from holdall.http.words import Answer, Page
from holdall.model.location_frames import PARTS_MAX, REQUEST_PATTERN, LocationRow, OfferIs
from holdall.model.location_rows import CapacityRow, HostRow, ShareRow
from holdall.model.terms import TERMS_MAX, BeforeEnd, LeaseDocument, Template


class HostsQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which hosts."""

    host: Word = ""
    presence: Word = ""


class LeasesQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which leases; `term`: those that have one of that name."""

    host: Word = ""
    holder: Word = ""
    state: Word = ""
    term: Word = ""


class CapacitiesQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which capacities."""

    host: Word = ""
    term: Word = ""


class SharesQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which demands."""

    host: Word = ""
    term: Word = ""
    holder: Word = ""
    place: Word = ""


# Rows


class HostShown(HostRow, frozen=True, kw_only=True):
    """A host as its location's manager knows it, and its node as the one that answers does."""

    manages: bool
    """Whether its node is the location's manager."""
    leases: int
    """That are active or draining."""
    state: str
    """Of its node, as in `/v1/nodes`; empty: not known here."""
    silent_ms: int | None
    version: str


class CapacityShown(CapacityRow, frozen=True, kw_only=True):
    """A capacity of a host."""

    host: str


class ShareShown(ShareRow, frozen=True, kw_only=True):
    """A demand on a capacity of a host."""

    host: str


# Answers


class Locations(Page, frozen=True, kw_only=True):
    """A page of locations."""

    locations: tuple[LocationRow, ...]


class OneLocation(Answer, frozen=True, kw_only=True):
    """One location."""

    location: LocationRow


class Templates(Answer, frozen=True, kw_only=True):
    """As `holdall location templates --json`."""

    location: str
    templates: tuple[Template, ...]
    suspect: tuple[str, ...]
    """Ids of those that only silent hosts offer."""


class Hosts(Page, frozen=True, kw_only=True):
    """A page of hosts."""

    location: str
    manager: str
    hosts: tuple[HostShown, ...]


class LocationLeases(Page, frozen=True, kw_only=True):
    """A page of negotiated leases."""

    location: str
    leases: tuple[LeaseDocument, ...]


class Capacities(Page, frozen=True, kw_only=True):
    """A page of capacities."""

    location: str
    capacities: tuple[CapacityShown, ...]


class Shares(Page, frozen=True, kw_only=True):
    """A page of demands with their shares."""

    location: str
    shares: tuple[ShareShown, ...]


class OneTemplate(Answer, frozen=True, kw_only=True):
    """What so many hosts offer. As XML: a Template of WS-Agreement."""

    location: str
    template: Template


class Offers(Answer, frozen=True, kw_only=True):
    """As `holdall location offers --json`."""

    offers: tuple[OfferIs, ...]


class Given(Answer, frozen=True, kw_only=True):
    """An offer or a lease. As XML: AgreementProperties of WS-Agreement."""

    lease: LeaseDocument
    offer_ms: int | None = None
    """Of an offer: how long it binds the location."""
    valid_for_ms: int = 0
    """Counted from before the request was sent; 0: this node does not hold it for you."""
    warned: str = ""
    """Not empty: it will be taken away, and why."""


class Parted(Answer, frozen=True, kw_only=True):
    """As `holdall location split --json`: what is left of the lease, and the other one."""

    rest: LeaseDocument
    part: LeaseDocument


class RequestShown(Answer, frozen=True, kw_only=True):
    """A request that may wait, and what has come of it."""

    request: str
    location: str
    state: Literal["waiting", "offered", "leased", "ended"]
    beat_ms: int
    """While it waits ask so often how it stands, or it leaves the line."""
    left_ms: int | None = None
    """How long it may yet wait."""
    position: int | None = None
    """In line, 1: nobody waits before it; null: it is being asked for the first time."""
    ahead: int | None = None
    """Of those before it so many want one of its terms: no more are served before it."""
    reason: str = ""
    """Why nothing could be offered when that was tried last, with the term, and what could have been had then."""
    term: str = ""
    best_possible: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    lease: LeaseDocument | None = None
    """What is offered, or held."""
    offer_ms: int | None = None
    """How long the offer still binds the location."""
    valid_for_ms: int | None = None
    """Of a lease, counted from before the request was sent."""
    warned: str = ""
    """Not empty: it will be taken away, and why."""
    problem: ProblemDetail | None = None
    """Why nothing comes of it."""


class GivenTogether(Answer, frozen=True, kw_only=True):
    """One for each part, in their order; all are active."""

    leases: tuple[LeaseDocument, ...]


# Bodies of requests

Amount = bool | Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)] | Word
"""`true` or a word for a function; else base units, or text as `50KiB/s`."""
Floor = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)] | Word
TermName = Annotated[str, msgspec.Meta(max_length=63)]


class WishBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A wish for one lease on one host, as `holdall location request` says it. As XML: an AgreementOffer."""

    terms: Annotated[dict[TermName, Amount], msgspec.Meta(min_length=1, max_length=TERMS_MAX)]
    floors: Annotated[dict[TermName, Floor], msgspec.Meta(max_length=TERMS_MAX)] = msgspec.field(
        default_factory=dict
    )
    """Less than this of a term is of no use."""
    weights: Annotated[dict[TermName, Floor], msgspec.Meta(max_length=TERMS_MAX)] = msgspec.field(
        default_factory=dict
    )
    """How much a shortfall of a term counts: 1 to 100, or a fraction as `3/2`."""
    duration: Duration = ""
    template: Word = ""
    replaces: Word = ""
    wait: Duration = ""
    """Stand in line for so long where nothing can be offered now; empty: do not wait."""
    before_end: BeforeEnd | None = None
    """What whoever runs a command under the lease does before its end; you find it, and what became of it, in the lease."""
    host: Annotated[str, msgspec.Meta(max_length=64)] = ""
    """Only this host is asked."""


class TogetherBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of these become leases, or none."""

    parts: Annotated[tuple[WishBody, ...], msgspec.Meta(min_length=1, max_length=PARTS_MAX)]


class SplitBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody else gets of a lease's capacities."""

    terms: Annotated[dict[TermName, Floor], msgspec.Meta(min_length=1, max_length=TERMS_MAX)]
    to: Word
    """`user@node`."""
    request: Annotated[str, msgspec.Meta(pattern=f"^$|{REQUEST_PATTERN}")] = ""
    """Id of this order: the same again is the same split."""


class RenewLeaseBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`duration`: how long from now; else as long as before."""

    duration: Duration = ""


class WishQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`accept`: take what is offered at once. `dialect`: of the XML that is sent."""

    accept: bool = False
    dialect: Literal["2007-03", "draft-2004"] = "2007-03"

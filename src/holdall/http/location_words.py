"""What requests about locations say and answers tell; the rows are those of `holdall location … --json`."""

from holdall.http.words import Answer, Page, PageQuery, Word
from holdall.model.location_frames import LocationRow
from holdall.model.location_rows import CapacityRow, HostRow, ShareRow
from holdall.model.terms import LeaseDocument, Template


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

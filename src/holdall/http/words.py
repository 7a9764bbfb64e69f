"""What answers tell, beside the rows of `model.frames`; the description for programs is made of these."""

from typing import Any, Literal

import msgspec

from holdall.client.finding import Finding
from holdall.http.problems import ProblemDetail
from holdall.model import frames
from holdall.model.why import Why

# Rows


class PoolSummary(msgspec.Struct, frozen=True):
    """A pool without its units."""

    id: str
    pool: str
    node: str
    labels: dict[str, str]
    reach: str
    state: str
    total: int
    free: int
    held: int
    unusable: int
    waiting: int


class UnitShown(msgspec.Struct, frozen=True):
    """A unit with what is known of the lease that has it."""

    id: str
    pool: str
    node: str
    labels: dict[str, str]
    unit: str
    state: str
    fence: int
    lease: str = ""
    holder: str = ""
    reason: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    expires_ms: int | None = None
    renewing: bool | None = None
    note: str = ""
    party: str = ""


class NodeShown(msgspec.Struct, frozen=True):
    """A node; what only it knows is null for others than the one that answers."""

    node: str
    id: str
    here: bool
    state: str
    address: str
    location: str
    silent_ms: int
    pools: int
    version: str
    units: int | None = None
    leases: int | None = None
    waiting: int | None = None
    quarantine_ms: int | None = None
    since_ms: int | None = None


class UsageSum(frames.UsageRow, frozen=True):
    """As the node tells it, with its largest number as a number."""

    amount_ms: int  # type: ignore[assignment]


class Totals(msgspec.Struct, frozen=True):
    """Sums over the system."""

    pools: int
    units: int
    free: int
    held: int
    unusable: int
    leases: int
    waiting: int
    longest_wait_ms: int
    silent: int
    """Nodes that are not heard."""


# Answers


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Every answer has the version of its form."""

    v: Literal[1] = 1


class Page(Answer, frozen=True, kw_only=True):
    """`next` is the `after` of the next page."""

    total: int
    next: str | None
    not_asked: tuple[frames.NotAsked, ...] = ()


class Pools(Page, frozen=True, kw_only=True):
    """A page of pools."""

    pools: tuple[PoolSummary, ...]


class Units(Page, frozen=True, kw_only=True):
    """A page of units."""

    units: tuple[UnitShown, ...]


class Leases(Page, frozen=True, kw_only=True):
    """A page of leases."""

    leases: tuple[frames.LeaseView, ...]


class Waiting(Page, frozen=True, kw_only=True):
    """A page of waiting claims."""

    waiting: tuple[Why, ...]


class Log(Page, frozen=True, kw_only=True):
    """A page of the history."""

    log: tuple[frames.LogRow, ...]


class OneLease(Answer, frozen=True, kw_only=True):
    """With its history; null: it has ended."""

    lease: frames.LeaseView | None
    log: tuple[frames.LogRow, ...] = ()
    not_asked: tuple[frames.NotAsked, ...] = ()


class OneWhy(Answer, frozen=True, kw_only=True):
    """Null: it waits no more; then `leases` has what became of it, or `log` its history."""

    why: Why | None
    leases: tuple[frames.LeaseView, ...] = ()
    log: tuple[frames.LogRow, ...] = ()
    not_asked: tuple[frames.NotAsked, ...] = ()


class Nodes(Answer, frozen=True, kw_only=True):
    """All nodes."""

    nodes: tuple[NodeShown, ...]


class Me(Answer, frozen=True, kw_only=True):
    """Who asks."""

    node: str
    version: str
    user: str
    via: Literal["socket", "token", "login", "nobody"]
    may: tuple[Literal["see", "claim", "kick"], ...]


class Findings(Answer, frozen=True, kw_only=True):
    """What could keep nodes from granting."""

    findings: tuple[Finding, ...]


class Usages(Answer, frozen=True, kw_only=True):
    """What was used, as `holdall usage --json`. As CSV: as `holdall usage --csv`."""

    usage: tuple[UsageSum, ...]
    by: str
    node: str
    since_ms: int | None


class Snapshot(Answer, frozen=True, kw_only=True):
    """The state of the system, and the newest of its history."""

    at_ms: int
    node: str
    totals: Totals
    nodes: tuple[NodeShown, ...]
    pools: tuple[PoolSummary, ...]
    leases: tuple[frames.LeaseView, ...]
    waiting: tuple[Why, ...]
    log: tuple[frames.LogRow, ...]
    not_asked: tuple[frames.NotAsked, ...] = ()


class Token(Answer, frozen=True, kw_only=True):
    """A new access token; it is told this once."""

    token: str
    name: str
    may: Literal["see", "act"]


class TokenRow(msgspec.Struct, frozen=True):
    """An access token without its secret."""

    name: str
    may: str
    at_ms: int


class Tokens(Answer, frozen=True, kw_only=True):
    """Access tokens of one user."""

    tokens: tuple[TokenRow, ...]


class Login(Answer, frozen=True, kw_only=True):
    """Opens the dashboard once."""

    path: str
    valid_s: int


class Done(Answer, frozen=True, kw_only=True):
    """Something was done; `text` is for people."""

    text: str


class Invitation(Answer, frozen=True, kw_only=True):
    """Lets one node join: `holdall join CODE`."""

    code: str
    valid_s: int


class Decided(Answer, frozen=True, kw_only=True):
    """As `holdall policy check --json`."""

    allowed: bool
    terms: dict[str, Any]
    duration_ms: dict[str, Any]
    rules: tuple[dict[str, Any], ...]


class Released(Answer, frozen=True, kw_only=True):
    """As `holdall release --json`."""

    lease: str
    what: str
    free_by_ms: int = 0


class Renewed(Answer, frozen=True, kw_only=True):
    """A lease with its new end."""

    lease: frames.LeaseView


class Changed(Answer, frozen=True, kw_only=True):
    """What the lease has now; null: nothing is left, and it has ended."""

    lease: frames.LeaseView | None


class ClaimShown(Answer, frozen=True, kw_only=True):
    """A claim that was made here, and what has become of it."""

    claim: str
    state: Literal["waiting", "granted", "ended"]
    beat_ms: int
    """Say so often that you are there."""
    why: Why | None = None
    lease: frames.LeaseView | None = None
    key: str = ""
    valid_for_ms: int | None = None
    """Counted from before the request was sent."""
    for_left_ms: int | None = None
    revoked: str = ""
    """Not empty: stop using it and release it."""
    problem: ProblemDetail | None = None

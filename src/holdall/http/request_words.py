"""What requests say: their parameters and bodies; the description for programs is made of these."""

from typing import Annotated, Literal

import msgspec

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Word = Annotated[str, msgspec.Meta(max_length=200)]
Line = Annotated[str, msgspec.Meta(max_length=1000)]
Duration = Annotated[str, msgspec.Meta(max_length=40)]
"""`90s`, `10m`, `2h`, `inf`"""
Spec = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]

# Parameters


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class PageQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page, and what is found anywhere in a row."""

    limit: Limit = 100
    after: Word = ""
    q: Word = ""


class PoolsQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pools."""

    pool: Word = ""
    node: Word = ""


class UnitsQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which units."""

    pool: Word = ""
    node: Word = ""
    state: Word = ""
    holder: Word = ""


class ClaimsQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which leases or claims."""

    pool: Word = ""
    node: Word = ""
    holder: Word = ""


class LogQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which lines of the history."""

    since: Duration = ""
    node: Word = ""
    kind: Word = ""
    lease: Word = ""
    pool: Word = ""


class UsageQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the sums are of, and only what was held within this time."""

    by: Literal["holder", "affiliation", "pool", "unit", "lease", "end"] = "holder"
    since: Duration = ""


class LoginQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which link."""

    code: str = ""


class EventsQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`last`: the id of the last event that was read."""

    last: Word = ""


class WaitQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait for a change."""

    wait: Duration = ""


# Bodies


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing, or an empty object."""


class ClaimBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for all needs or none."""

    needs: Annotated[
        tuple[Spec | Annotated[tuple[Spec, ...], msgspec.Meta(min_length=1, max_length=4)], ...],
        msgspec.Meta(min_length=1, max_length=32),
    ]
    """Each a SPEC, or alternatives."""
    wait: Duration = ""
    hold_for: Duration = msgspec.field(name="for", default="")
    ttl: Duration = ""
    reason: Line = ""
    holder: Word = ""
    detached: bool = False
    allow_future: bool = False


class BeatBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`key`: takes a lease up again that this server does not know."""

    key: Word = ""


class ReleaseBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`key`: of the lease, or its printed id."""

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    wait: bool = False


class RenewBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`for`: the new hard end, counted from now."""

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    hold_for: Duration = msgspec.field(name="for")


class DropBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is given back: `POOL/UNIT`, a pool's name (all its units), or a SPEC with a number."""

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    drop: Annotated[tuple[Spec, ...], msgspec.Meta(min_length=1, max_length=64)]


class ExchangeBody(DropBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`add`: what is wanted instead, each a SPEC or alternatives."""

    add: Annotated[
        tuple[Spec | Annotated[tuple[Spec, ...], msgspec.Meta(min_length=1, max_length=4)], ...],
        msgspec.Meta(min_length=1, max_length=32),
    ]


class ForgetBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`force`: also when it is heard, or was a short while ago."""

    force: bool = False


class Who(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who would ask."""

    id: Word
    affiliation: Word = ""
    groups: Annotated[tuple[Word, ...], msgspec.Meta(max_length=64)] = ()
    role: Word = ""


class PolicyBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question to policies that are sent with it, as `holdall policy check` asks; nothing of it is put in force."""

    policies: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=2)]
    """In TOML: one, or the location's and then the host's."""
    who: Who
    needs: Annotated[tuple[Spec, ...], msgspec.Meta(max_length=32)] = ()
    terms: Annotated[dict[Word, Word], msgspec.Meta(max_length=32)] = msgspec.field(default_factory=dict)
    duration: Duration = "60s"
    floors: Annotated[dict[Word, Word], msgspec.Meta(max_length=32)] = msgspec.field(default_factory=dict)
    capacities: Annotated[dict[Word, Word], msgspec.Meta(max_length=32)] = msgspec.field(default_factory=dict)
    held: Annotated[dict[Word, Word], msgspec.Meta(max_length=32)] = msgspec.field(default_factory=dict)
    at: Word = ""


class KickBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why, and whether without the holder."""

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
    unsafe: bool = False


class DrainBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """False: grant again."""

    on: bool = True


class ClearBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`unit`: as POOL/UNIT."""

    unit: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class TokenBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Its name, and what it may."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=63, pattern="^[a-z0-9][a-z0-9._-]*$")]
    may: Literal["see", "act"] = "act"

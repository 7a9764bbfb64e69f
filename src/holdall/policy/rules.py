"""A policy as values: rules of six kinds, what each may say, and to whom it applies.

`allow` and `deny` decide about terms, `limit` about amounts and the lease duration, `fair` how a scarce capacity is
divided, `rank` which host is taken among equals. Source: lease negotiation, section 6.1.
"""

import re
from fractions import Fraction
from typing import Literal, TypeAlias

import msgspec

from holdall.model.quantities import BaseUnit

Access: TypeAlias = Literal["allow", "deny"]
Per: TypeAlias = Literal["holder", "affiliation", "all", "lease"]
WeightBy: TypeAlias = Literal["equal", "sqrt"]
Scope: TypeAlias = Literal["host", "location"]
TermUnit: TypeAlias = BaseUnit | Literal["function"]

EXPRESSION_BYTES_MAX = 2048
RULES_MAX = 1000
GROUPS_MAX = 32
"""Groups of one agent."""


class Agent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who asks, as the credential of its connection says; never from the body of a request."""

    id: str
    affiliation: str = ""
    groups: tuple[str, ...] = ()
    role: str = ""


class Now(msgspec.Struct, frozen=True):
    """A moment as it is called in one time zone."""

    year: int
    month: int
    day: int
    weekday: int
    """0 is Monday."""
    hour: int
    minute: int


class Expression(msgspec.Struct, frozen=True):
    """A condition in CEL over `agent`, `now` (in `zone`) and `request`."""

    text: str
    zone: str = "UTC"


class Attribute(msgspec.Struct, frozen=True):
    """The short form of a grant: an attribute has this value, or `groups` contains it."""

    name: Literal["id", "affiliation", "group", "role"]
    value: str


Condition: TypeAlias = Expression | Attribute


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What all rules have. It applies when `who` and `when` are both true; None is always true."""

    name: str
    who: Condition | None = None
    when: Expression | None = None
    line: int = 0
    """Where it begins in its file."""


class Allow(Rule, frozen=True, kw_only=True, tag="allow"):
    """These terms may be asked for. Without one that applies, `Policy.access` decides."""

    terms: tuple[str, ...]


class Deny(Rule, frozen=True, kw_only=True, tag="deny"):
    """These terms may not be had, whatever allows them."""

    terms: tuple[str, ...]
    revoke: bool = False
    """Live leases end, too, when the rule begins to apply."""


class Limit(Rule, frozen=True, kw_only=True, tag="limit"):
    """At most so much of a term, in base units and as a fraction of the capacity; the smaller one counts."""

    term: str
    per: Per
    max: int | None = None
    fraction: Fraction | None = None
    unit: BaseUnit | None = None
    """Of `max`, when the file says it; None: a plain number."""
    revoke: bool = False


class Fair(Rule, frozen=True, kw_only=True, tag="fair"):
    """A capacity is divided among groups by weight first, then inside each group."""

    term: str
    group: Literal["", "affiliation", "role"] = ""
    weights: tuple[tuple[str, Fraction], ...] = ()
    scope: Scope = "host"
    weight_by: WeightBy = "equal"
    """Of members: all alike, or each by the square root of what it asks."""

    def weight(self, group: str) -> Fraction:
        """Of a group; 1 when the file names none."""
        return dict(self.weights).get(group, Fraction(1))

    def group_of(self, agent: Agent) -> str:
        """The group that an agent belongs to; "" where there are none."""
        return {"": "", "affiliation": agent.affiliation, "role": agent.role}[self.group]


class Rank(Rule, frozen=True, kw_only=True, tag="rank"):
    """Among proposals that are equally close the host with the smallest rank is taken."""

    host: str
    rank: int


AnyRule: TypeAlias = Allow | Deny | Limit | Fair | Rank


class Policy(msgspec.Struct, frozen=True):
    """All rules of one file. Their order has no meaning."""

    name: str
    rules: tuple[AnyRule, ...] = ()
    access: Access = "deny"
    terms: tuple[tuple[str, TermUnit], ...] = ()
    """The terms that the file says there are; empty: any."""

    def rank(self, host: str) -> int:
        """Of a host; 0 when no rule names it."""
        return next((rule.rank for rule in self.rules if isinstance(rule, Rank) and rule.host == host), 0)

    def fair(self, term: str, scope: Scope) -> Fair | None:
        """How a capacity is divided there; None: nothing is said about it."""
        found = (rule for rule in self.rules if isinstance(rule, Fair))
        return next((rule for rule in found if rule.term == term and rule.scope == scope), None)

    def unit(self, term: str) -> TermUnit | None:
        """What amounts of it count, as far as the file says it."""
        for name, unit in self.terms:
            if name == term:
                return unit
        for rule in self.rules:
            if isinstance(rule, Limit) and rule.term == term and rule.unit is not None:
                return rule.unit
        return None

    def conditions(self) -> tuple[tuple[str, str, Expression], ...]:
        """(rule, `who` or `when`, expression) of all that are written in CEL."""
        return tuple(
            (rule.name, field, condition)
            for rule in self.rules
            for field, condition in (("who", rule.who), ("when", rule.when))
            if isinstance(condition, Expression)
        )


def kind_of(rule: AnyRule) -> str:
    """`allow`, `deny`, `limit`, `fair` or `rank`."""
    return type(rule).__name__.lower()


def covers(pattern: str, term: str) -> bool:
    """Whether `*`, `net.*` or a plain name stands for the term."""
    if pattern == "*":
        return True
    if pattern.endswith(".*"):
        return term.startswith(pattern[:-1])
    return pattern == term


PATTERN_RE = re.compile(r"\*|[a-z0-9][a-z0-9._-]{0,60}(?:\.\*)?", re.ASCII)

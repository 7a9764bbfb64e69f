"""What can be negotiated and what came of it: terms of a template, of a request, and of a lease with its status.

Amounts are whole numbers of the term's base unit; functions have `true` or one of some words. Values are as sent in
JSON, field by field. Source: lease negotiation, sections 3.2 to 3.5.
"""

from fractions import Fraction
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from holdall.model import strict_json
from holdall.model.names import NEEDS_MAX, is_name
from holdall.model.quantities import AMOUNT_MAX, BaseUnit
from holdall.model.refusals import Refusal

Kind: TypeAlias = Literal["pool", "capacity", "function", "time"]
"""`pool`: whole units; `capacity`: divisible, shared; `function`: there or not; `time`: how long one may stay."""
Sharing: TypeAlias = Literal["", "fair", "first"]
AmountUnit: TypeAlias = Literal["", "B/s", "B", "mcpu"]
"""Of a capacity."""
Value: TypeAlias = bool | int | str
"""An amount of base units, or what a function is."""

TermState: TypeAlias = Literal["not_ready", "ready.idle", "ready.processing", "completed"]
Guarantee: TypeAlias = Literal["not_determined", "fulfilled", "violated"]
Enforced: TypeAlias = Literal["kernel", "process", "observed", "none"]
"""By whom the host keeps a lease to its term; never more than is true."""
EndSignal: TypeAlias = Literal["TERM", "INT", "HUP", "USR1", "USR2"]
LeaseState: TypeAlias = Literal[
    "proposed",
    "offered",
    "active",
    "draining",
    "withdrawn",
    "declined",
    "lapsed",
    "released",
    "expired",
    "revoked",
]

DURATION = "duration"
"""Names the lease duration where terms are named; no term is called so."""
STAY = "stay"
"""The term that says how long one may stay."""
COMMAND_TERMS = ("cpu", "mem", STAY)
"""Terms to which a command is held by whoever runs it; they are of use on the host that grants them, and nowhere else."""
VALUES_MAX = 10
TERMS_MAX = NEEDS_MAX
WEIGHT_MAX = 100

_Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=AMOUNT_MAX)]
_UNIT_OF: dict[str, BaseUnit] = {"pool": "unit", "time": "ms"}


class TemplateTerm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What may be asked of one term. Without `min`, `max`, `step` and `values` everything may be asked."""

    kind: Kind
    unit: AmountUnit = ""
    """Of a capacity; pools count units, times ms."""
    min: _Amount | None = None
    max: _Amount | None = None
    """Inclusive."""
    step: _Amount = 1
    """`amount - min` is a multiple of it; from 0 where there is no `min`."""
    values: tuple[Value, ...] = ()
    sharing: Sharing = ""

    @property
    def base_unit(self) -> BaseUnit:
        """What amounts of it count."""
        return _UNIT_OF.get(self.kind) or self.unit or "unit"


class Durations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lease durations that a host grants, in ms; `default` where a request names none."""

    min: _Amount
    max: _Amount
    default: _Amount


class Template(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What so many hosts offer, all the same. Advisory: that a request keeps to it promises nothing."""

    template: str
    terms: dict[str, TemplateTerm]
    duration: Durations
    hosts: int = 1
    valid_for_ms: int = 0
    policy_hint: str = ""


class RequestedTerm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is asked of one term."""

    amount: Value
    floor: _Amount | None = None
    """Less than this is of no use."""
    weight: int | str = 1
    """How much a shortfall of it counts: 1 to 100, or a fraction as `3/2`."""
    exact: bool = False
    """More than asked counts against a proposal."""
    prefer: Literal["high", "low"] = "high"
    """`low`: the less the better; a proposal falls short by what it has too much."""


class BeforeEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is done before the lease ends: a command gets the signal, any other holder is told."""

    lead_ms: _Amount
    signal: EndSignal = "TERM"


BEFORE_END_SHARE = 4
"""Before an end that a renewal moves on nothing is done sooner than in the last quarter of the duration."""


class LeaseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A wish for one lease on one host. Who asks comes from the connection, never from here."""

    request: str
    """Id of the holder's, unique among its own."""
    terms: dict[str, RequestedTerm]
    template: str | None = None
    """None: whatever any host offers."""
    duration: _Amount | None = None
    """ms; None: the template's default."""
    replaces: str | None = None
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=AMOUNT_MAX)] = 0
    before_end: BeforeEnd | None = None
    host: Annotated[str, msgspec.Meta(min_length=1, max_length=128)] | None = None
    """Only this host is asked, by its node's name; None: all are."""


class LeasedUnit(msgspec.Struct, frozen=True, order=True):
    """One unit of a leased pool."""

    name: str
    node: str
    fence: int


_Counted: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=AMOUNT_MAX)]
"""By somebody else; it is added up, and must fit into a record."""


class Usage(msgspec.Struct, frozen=True):
    """What was used of a term: in all, in the last second, and in the busiest second."""

    total: _Counted = 0
    rate_1s: _Counted = 0
    peak_1s: _Counted = 0


class TermUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was measured of one term of a lease, by whoever keeps its holder to it."""

    name: str
    used: Usage = Usage()
    state: TermState = "ready.idle"
    guarantee: Guarantee = "not_determined"
    denied: _Counted = 0
    violated_s: _Counted = 0
    enforced: Enforced = "process"
    """As whoever measures keeps it."""


class TermStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """One term of a lease: what was asked and granted, and how it stands."""

    name: str
    kind: Kind
    requested: Value
    granted: Value
    state: TermState = "not_ready"
    guarantee: Guarantee = "not_determined"
    fraction: str = ""
    """Granted of requested, lowest terms (`3/5`, `1`); "" for functions."""
    used: Usage = Usage()
    denied: int = 0
    """Uses that were refused."""
    enforced: Enforced = "none"
    violated_s: int = 0
    """Seconds in which all that was granted was wanted, and less than 95 % of it was to be had."""
    fence: int = 0
    units: tuple[LeasedUnit, ...] = ()
    unit: AmountUnit = ""
    """What amounts of a capacity count; "" of other terms, and of a capacity that was granted before documents told it."""


class LeaseDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A lease as its host knows it. Times are what is left in ms, for the clock of whoever reads it."""

    lease: str
    location: str
    host: str
    host_incarnation: int
    holder: str
    state: LeaseState
    revision: int
    duration: int
    request: str
    terms: tuple[TermStatus, ...]
    remaining_ms: int = 0
    renew_after_ms: int = 0
    rebind_after_ms: int = 0
    """When any location manager or the host itself may be asked for renewal."""
    template: str | None = None
    fence: int = 0
    host_reachable: bool = True
    why: str = ""
    """Of a lease that was revoked: the reason that was given."""
    before_end: BeforeEnd | None = None
    """What its holder wants done before the end."""
    before_end_outcome: str = ""
    """What became of that; empty: it was not done."""

    def term(self, name: str) -> TermStatus:
        """Its status. Raises KeyError."""
        for status in self.terms:
            if status.name == name:
                return status
        raise KeyError(name)


def fraction_text(granted: Value, requested: Value) -> str:
    """Granted of requested in lowest terms, "" where they are no amounts."""
    if isinstance(granted, int) and isinstance(requested, int) and not isinstance(requested, bool):
        return str(Fraction(granted, requested))
    return ""


def weight_of(term: RequestedTerm, *, where: str = "weight") -> Fraction:
    """Its weight, exact. Raises Refusal `request.weight`."""
    weight: Fraction | None = None
    if isinstance(term.weight, int):
        weight = Fraction(term.weight)
    else:
        above, slash, below = term.weight.partition("/")
        if all(part.isascii() and part.isdigit() and len(part) <= 4 for part in (above, below)) and slash:
            weight = Fraction(int(above), int(below)) if int(below) else None
    if weight is None or not 1 <= weight <= WEIGHT_MAX:
        raise Refusal(
            "request.weight",
            f"weights are 1 to {WEIGHT_MAX}, or a fraction as 3/2, not {term.weight!r}",
            where=where,
        )
    return weight


def read_request(text: bytes | str) -> LeaseRequest:
    """A request from JSON. Raises Refusal: `json.…`, `request.…` or `term.…`. Amounts in words are not read yet."""
    return checked_request(strict_json.read(text, LeaseRequest, prefix="request"))


def checked_request(request: LeaseRequest) -> LeaseRequest:
    """The same, when its names, numbers of terms and weights are within bounds. Raises Refusal."""
    if not 1 <= len(request.request) <= 64 or not request.request.isascii():
        raise Refusal("request.id", "a request's id has 1 to 64 ASCII letters")
    _check_terms(request.terms, "request")
    for name, term in request.terms.items():
        weight_of(term, where=name)
    return request


def read_template(text: bytes | str) -> Template:
    """A template from JSON. Raises Refusal: `json.…`, `template.…` or `term.…`."""
    return checked_template(strict_json.read(text, Template, prefix="template"))


def checked_template(template: Template) -> Template:
    """The same, when no term of it contradicts itself. Raises Refusal."""
    _check_terms(template.terms, "template")
    span = template.duration
    if not span.min <= span.default <= span.max:
        raise Refusal("template.duration", "min <= default <= max must hold", where="duration")
    for name, term in template.terms.items():
        _check_template_term(name, term)
    return template


def _check_terms(terms: dict[str, Any], prefix: str) -> None:
    if not terms:
        raise Refusal(f"{prefix}.no_terms", "no term is named; name one at least")
    if len(terms) > TERMS_MAX:
        raise Refusal(f"{prefix}.too_many_terms", f"{len(terms)} terms; at most {TERMS_MAX} are taken")
    for name in terms:
        if not is_name(name) or name == DURATION:
            raise Refusal(
                "term.name",
                f"{name[:64]!r} names no term; write small letters, digits, `.`, `_`, `-`, at most 63",
            )


def _check_template_term(name: str, term: TemplateTerm) -> None:
    if len(term.values) > VALUES_MAX:
        raise Refusal("template.values", f"{len(term.values)} values; at most {VALUES_MAX}", where=name)
    if term.min is not None and term.max is not None and term.min > term.max:
        raise Refusal("template.range", f"min {term.min} is above max {term.max}", where=name)
    if term.kind == "capacity" and not term.unit:
        raise Refusal("template.unit", "a capacity needs its unit: B/s, B or mcpu", where=name)
    if term.kind != "capacity" and (term.unit or term.sharing):
        raise Refusal("template.unit", "only capacities have a unit and a sharing", where=name)
    limits = term.min is not None or term.max is not None or term.step != 1
    if term.kind == "function" and limits:
        raise Refusal("template.range", "functions have values, not min, max and step", where=name)
    amounts = all(type(value) is int and 1 <= value <= AMOUNT_MAX for value in term.values)
    words = all(value is True or isinstance(value, str) for value in term.values)
    if not (words if term.kind == "function" else amounts):
        raise Refusal(
            "template.values", "functions have true and words as values, all others amounts", where=name
        )

"""Templates of hosts: their ids, how a location shows them together, and whether a request keeps to one.

Only equal templates are shown as one. Were the largest amounts of different hosts joined, a template could promise
what no single host has. Source: lease negotiation, sections 3.3 and 4.3.
"""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from holdall.leases.distance import is_amount
from holdall.model.quantities import parse_quantity
from holdall.model.refusals import Refusal
from holdall.model.terms import (
    DURATION,
    Durations,
    LeaseRequest,
    RequestedTerm,
    Template,
    TemplateTerm,
    Value,
)

NO_HOST_SUPPORTS = "no_host_supports"


class Violation(msgspec.Struct, frozen=True):
    """One way in which a request does not keep to a template."""

    code: str
    """`constraint.unknown_term`, `.kind`, `.min`, `.max`, `.step`, `.values`, or `request.floor`."""
    term: str
    bound: Value | None = None
    """What was not kept, in base units."""

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.term}: {self.code}" + ("" if self.bound is None else f" {self.bound}")


def template_id(terms: Mapping[str, TemplateTerm], duration: Durations) -> str:
    """`t-` and 16 hex digits of the canonical JSON: keys in order, no blanks, defaults left out."""
    text = msgspec.json.encode({"duration": duration, "terms": terms}, order="deterministic")
    return "t-" + hashlib.sha256(text).hexdigest()[:16]


def template_of(
    terms: Mapping[str, TemplateTerm], duration: Durations, *, valid_for_ms: int = 0, policy_hint: str = ""
) -> Template:
    """A host's template with the id that its terms give it."""
    return Template(
        template_id(terms, duration),
        dict(terms),
        duration,
        valid_for_ms=valid_for_ms,
        policy_hint=policy_hint,
    )


def aggregate(templates: Iterable[Template]) -> tuple[Template, ...]:
    """Those of all hosts as a location shows them: equal ones once, with their number, ordered by id."""
    counted: dict[str, Template] = {}
    for template in templates:
        known = counted.get(template.template)
        if known is None:
            counted[template.template] = template
            continue
        counted[template.template] = msgspec.structs.replace(
            known,
            hosts=known.hosts + template.hosts,
            valid_for_ms=min(known.valid_for_ms, template.valid_for_ms),
        )
    return tuple(counted[name] for name in sorted(counted))


def in_base_units(request: LeaseRequest, terms: Mapping[str, TemplateTerm]) -> LeaseRequest:
    """The same request; amounts that are text (`50KiB/s`) count base units then, as the terms say. Raises Refusal.

    Terms that are not among `terms`, and functions, stay as they are.
    """
    read: dict[str, RequestedTerm] = {}
    for name, asked in request.terms.items():
        known = terms.get(name)
        if known is not None and known.kind != "function" and isinstance(asked.amount, str):
            amount = parse_quantity(asked.amount, known.base_unit, what=name)
            read[name] = msgspec.structs.replace(asked, amount=amount)
        else:
            read[name] = asked
    return msgspec.structs.replace(request, terms=read)


def violations(request: LeaseRequest, template: Template) -> tuple[Violation, ...]:
    """Each way in which the request does not keep to the template, terms in order; amounts are in base units."""
    found: list[Violation] = []
    for name in sorted(request.terms):
        found += _of_term(name, request.terms[name], template.terms.get(name))
    if request.duration is not None:
        if request.duration < template.duration.min:
            found.append(Violation("constraint.min", DURATION, template.duration.min))
        if request.duration > template.duration.max:
            found.append(Violation("constraint.max", DURATION, template.duration.max))
    return tuple(found)


def require(request: LeaseRequest, template: Template) -> None:
    """Raises Refusal with the first violation's code, naming term and bound."""
    for violation in violations(request, template):
        bound = "" if violation.bound is None else f"; the template says {violation.bound}"
        raise Refusal(violation.code, f"does not keep to {template.template}{bound}", where=violation.term)


def candidates(
    request: LeaseRequest, hosts: Mapping[str, Template]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The hosts that support every term, in order; and for each other one the first term that it does not.

    A host supports a term when its template has it and what is asked keeps to it.
    """
    able: list[str] = []
    missing: dict[str, str] = {}
    for host in sorted(hosts):
        found = violations(request, hosts[host])
        if found:
            missing[host] = found[0].term
        else:
            able.append(host)
    return tuple(able), missing


def _of_term(name: str, asked: RequestedTerm, known: TemplateTerm | None) -> list[Violation]:
    if known is None:
        return [Violation("constraint.unknown_term", name)]
    amount = asked.amount
    if known.kind == "function":
        return _of_function(name, asked, known)
    if not isinstance(amount, int) or not is_amount(amount) or amount < 1:
        return [Violation("constraint.kind", name)]
    found: list[Violation] = []
    if known.min is not None and amount < known.min:
        found.append(Violation("constraint.min", name, known.min))
    if known.max is not None and amount > known.max:
        found.append(Violation("constraint.max", name, known.max))
    if (amount - (known.min or 0)) % known.step:
        found.append(Violation("constraint.step", name, known.step))
    if known.values and amount not in known.values:
        found.append(Violation("constraint.values", name))
    if asked.floor is not None and asked.floor > amount:
        found.append(Violation("request.floor", name, amount))
    return found


def _of_function(name: str, asked: RequestedTerm, known: TemplateTerm) -> list[Violation]:
    if asked.amount is not True and not isinstance(asked.amount, str):
        return [Violation("constraint.kind", name)]
    if asked.floor is not None:
        return [Violation("request.floor", name)]
    # True == 1 also in `in`; values of functions are True and words only.
    if known.values and asked.amount not in known.values:
        return [Violation("constraint.values", name)]
    return []

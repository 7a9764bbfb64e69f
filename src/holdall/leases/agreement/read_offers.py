"""Requests and templates out of WS-Agreement documents, strictly: what is not known is refused, nothing is guessed.

Paths are compared as text with those that this adapter writes, and never evaluated. Who asks is not read from a document.
Source: lease negotiation, section 11. Codes of refusals: `strict`.
"""

from collections.abc import Iterable, Sequence

import msgspec

from holdall.leases.agreement.elements import Element
from holdall.leases.agreement.strict import (
    WHOLE_RE,
    amount_of,
    attribute_of,
    by_name,
    check_provider,
    duration_of,
    exactly,
    fit,
    own_attributes,
    parts_of,
    refuse,
    refuse_compositor,
    refuse_unknown,
    root_of,
    text_of,
    value_of,
    whole,
    word_of,
)
from holdall.leases.agreement.words import (
    DURATION_PATH,
    FACET_KINDS,
    facet,
    ours,
    term_path,
    wsag,
)
from holdall.model.terms import (
    BeforeEnd,
    Durations,
    LeaseRequest,
    RequestedTerm,
    Template,
    TemplateTerm,
    Value,
    checked_request,
    checked_template,
)

_COMPOSITORS = {wsag("ExactlyOne"), wsag("OneOrMore"), wsag("All")}


def read_offer(text: bytes | str, location: str, *, now_unix_ms: int) -> LeaseRequest:
    """A request for this location. An `ExpirationTime` shortens the duration and can't lengthen it. Raises Refusal."""
    root = root_of(text, "AgreementOffer")
    name, context, terms = parts_of(root, "Name", "Context", "Terms")
    known = ("ServiceProvider", "AgreementInitiator", "AgreementResponder", "ExpirationTime", "TemplateId")
    inside = by_name(context, (*map(wsag, known), wsag("TemplateName"), ours("request")))
    check_provider(context, inside)
    wish = inside.get(ours("request"))
    wanted = {} if wish is None else own_attributes(wish, _WISHES)
    asked, floors = read_terms(terms, location)
    read = {term: _asked(term, element) for term, element in asked.items()}
    for term, floor in floors.items():
        if term not in read:
            refuse("wsag.missing", terms, f"a guarantee is for {term[:64]!r}, which is not asked for")
        read[term] = msgspec.structs.replace(read[term], floor=floor)
    request = LeaseRequest(
        name.text,
        read,
        template=text_of(inside.get(wsag("TemplateId"))),
        duration=duration_of(wanted.get("duration_ms"), inside.get(wsag("ExpirationTime")), now_unix_ms),
        replaces=wanted.get("replaces"),
        wait_ms=whole(wanted.get("wait_ms", "0"), context),
        before_end=_before_end(wanted, context),
        host=wanted.get("host"),
    )
    return checked_request(fit(request, LeaseRequest, root))


def read_template(text: bytes | str) -> Template:
    """What a location offers. Raises Refusal."""
    root = root_of(text, "Template", attributes=("TemplateId",), own=("hosts", "valid_for_ms", "policy_hint"))
    _, context, terms, constraints = parts_of(root, "Name", "Context", "Terms", "CreationConstraints")
    check_provider(context, by_name(context, (wsag("ServiceProvider"),)))
    described, guarantees = read_terms(terms, None)
    if guarantees:
        refuse("wsag.unknown_element", terms, "a template has no guarantees")
    limits, duration = _limits(constraints, described)
    found = {term: _template_term(term, element, limits.get(term)) for term, element in described.items()}
    template = Template(
        root.attributes.get(wsag("TemplateId"), ""),
        found,
        duration,
        hosts=whole(root.attributes.get(ours("hosts"), "1"), root),
        valid_for_ms=whole(root.attributes.get(ours("valid_for_ms"), "0"), root),
        policy_hint=root.attributes.get(ours("policy_hint"), ""),
    )
    return checked_template(fit(template, Template, root))


_WISHES = ("duration_ms", "replaces", "wait_ms", "lead_ms", "signal", "host")
# ---------------------------------------------------------------- terms


def read_terms(terms: Element, location: str | None) -> tuple[dict[str, Element], dict[str, int]]:
    """Term -> its `h:amount`, and term -> its floor. `location` None: any one, but the same for all."""
    if len(terms.children) != 1 or terms.children[0].name != wsag("All"):
        for child in terms.children:
            if child.name in _COMPOSITORS - {wsag("All")}:
                refuse_compositor(child)
        refuse("wsag.missing", terms, "Terms must hold one All")
    amounts: dict[str, Element] = {}
    floors: dict[str, int] = {}
    for child in terms.children[0].children:
        if child.name in _COMPOSITORS:
            refuse_compositor(child)
        if child.name == wsag("GuaranteeTerm"):
            term, floor = _guarantee(child)
            if term in floors:
                refuse("wsag.duplicate", child, f"two guarantees for {term[:64]!r}")
            floors[term] = floor
            continue
        if child.name != wsag("ServiceDescriptionTerm"):
            refuse_unknown(child)
        term = attribute_of(child, "Name")
        if term in amounts:
            refuse("wsag.duplicate", child, f"the term {term[:64]!r} comes twice")
        service = attribute_of(child, "ServiceName")
        location = service if location is None else location
        if service != location:
            refuse("wsag.location", child, f"the service {service[:64]!r} is not the location {location!r}")
        (amounts[term],) = exactly(child, (ours("amount"),))
    return amounts, floors


def _guarantee(element: Element) -> tuple[str, int]:
    if attribute_of(element, "Obligated") != "ServiceProvider":
        refuse("wsag.provider", element, "a floor is an obligation of the ServiceProvider")
    _, objective = exactly(element, (wsag("ServiceScope"), wsag("ServiceLevelObjective")))
    (target,) = exactly(objective, (wsag("KPITarget"),))
    name, amount = exactly(target, (wsag("KPIName"), wsag("Target")))
    return name.text, amount_of(amount.text, name.text)


def _asked(term: str, element: Element) -> RequestedTerm:
    values = own_attributes(element, ("weight", "exact", "prefer", "type"))
    weight = values.get("weight", "1")
    return RequestedTerm(
        value_of(element.text, values.get("type"), term),
        weight=int(weight) if WHOLE_RE.fullmatch(weight) else weight,
        exact=word_of(values.get("exact", "false"), {"true": True, "false": False}, element),
        prefer=word_of(values.get("prefer", "high"), {"high": "high", "low": "low"}, element),
    )


def _template_term(term: str, element: Element, limits: Sequence[Element] | None) -> TemplateTerm:
    values = own_attributes(element, ("kind", "unit", "sharing", "step"))
    if element.text:
        refuse("wsag.value", element, "a template's term has no amount")
    bounds: dict[str, int | None] = {"minInclusive": None, "maxInclusive": None}
    listed: list[Value] = []
    for one in limits or ():
        kind, given = one.name[1], _facet_value(one, term)
        if kind == "enumeration":
            listed.append(given)
        elif bounds[kind] is not None or type(given) is not int:
            refuse("wsag.value", one, f"{kind} must be one amount")
        else:
            bounds[kind] = given
    return TemplateTerm(
        values.get("kind", ""),  # type: ignore[arg-type]  # checked by fit
        values.get("unit", ""),  # type: ignore[arg-type]
        min=bounds["minInclusive"],
        max=bounds["maxInclusive"],
        step=whole(values.get("step", "1"), element),
        values=tuple(listed),
        sharing=values.get("sharing", ""),  # type: ignore[arg-type]
    )


def _limits(constraints: Element, terms: Iterable[str]) -> tuple[dict[str, list[Element]], Durations]:
    """Term -> its facets, and the durations."""
    paths = {term_path(term): term for term in terms}
    found: dict[str, list[Element]] = {}
    duration: Durations | None = None
    for item in constraints.children:
        if item.name != wsag("Item"):
            refuse_unknown(item)
        location, constraint = exactly(item, (wsag("Location"), wsag("ItemConstraint")))
        for one in constraint.children:
            if one.name not in set(map(facet, FACET_KINDS)):
                refuse_unknown(one)
        if location.text == DURATION_PATH and duration is None:
            duration = _span(item, constraint)
        elif location.text in paths and paths[location.text] not in found:
            found[paths[location.text]] = constraint.children
        else:
            refuse(
                "wsag.unknown_path", location, f"{location.text[:80]!r} is no path to a term, or a second one"
            )
    if duration is None:
        refuse("wsag.missing", constraints, "there is no Item for the duration")
    return found, duration


def _span(item: Element, constraint: Element) -> Durations:
    lowest, highest = exactly(constraint, (facet("minInclusive"), facet("maxInclusive")))
    low, high = (_facet_value(one, "duration") for one in (lowest, highest))
    default = amount_of(item.attributes.get(ours("default"), ""), "duration")
    if type(low) is not int or type(high) is not int:
        refuse("wsag.value", constraint, "durations are amounts")
    return Durations(low, high, default)


def _facet_value(element: Element, term: str) -> Value:
    return value_of(element.attributes.get(("", "value"), ""), element.attributes.get(ours("type")), term)


def _before_end(wanted: dict[str, str], context: Element) -> BeforeEnd | None:
    if "lead_ms" not in wanted:
        return None
    return BeforeEnd(whole(wanted["lead_ms"], context), wanted.get("signal", "TERM"))  # type: ignore[arg-type]

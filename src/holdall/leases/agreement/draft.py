"""Requests and templates in the form of the draft of 2004: a facet stands directly under its Item, terms are AgentScape's.

Read only where the caller names this dialect, and only when well-formed. The draft's prefixes were never bound to one
agreed namespace, so any namespace is taken and local names decide; each may come once.
Source: lease negotiation, section 11.
"""

from typing import NoReturn

from holdall.leases.agreement.elements import Element, parse
from holdall.leases.agreement.strict import amount_of, attribute_of, refuse
from holdall.leases.templates import template_of
from holdall.model.refusals import Refusal
from holdall.model.terms import (
    Durations,
    LeaseRequest,
    RequestedTerm,
    Template,
    TemplateTerm,
    checked_request,
)

DIALECT = "draft-2004"
STAY, NET = "stay", "net.tx"
"""What the draft calls `timeToLive` (in seconds) and `communication` (in bytes a second)."""
_PATHS = {
    "//wsag:ServiceDescriptionTerm//agentscape:timeToLive": STAY,
    "//wsag:ServiceDescriptionTerm//agentscape:communication": NET,
}
_MS = 1000


def read_draft_offer(text: bytes | str, location: str) -> LeaseRequest:
    """A request for this location; its duration is the template's default. Raises Refusal."""
    root = _root(text, "AgreementOffer")
    name, _, terms = _each(root, "Name", "Context", "Terms")
    (all_of,) = _each(terms, "All")
    found: dict[str, RequestedTerm] = {}
    for described in all_of.children:
        if described.name[1] != "ServiceDescriptionTerm" or len(described.children) != 1:
            _refuse_unknown(described)
        service = attribute_of_any(described, "ServiceName")
        if service != location:
            refuse(
                "wsag.location", described, f"the service {service[:64]!r} is not the location {location!r}"
            )
        term, amount = _draft_term(described.children[0])
        if term in found:
            refuse("wsag.duplicate", described, f"the term {term} comes twice")
        found[term] = RequestedTerm(amount)
    return checked_request(LeaseRequest(name.text, found))


def read_draft_template(text: bytes | str, duration: Durations) -> Template:
    """What a location offers, with these durations, of which the draft says nothing. Raises Refusal."""
    root = _root(text, "Template")
    *_, constraints = _each(root, "Name", "Context", "Terms", "CreationConstraints")
    terms: dict[str, TemplateTerm] = {}
    for item in constraints.children:
        if item.name[1] != "Item":
            _refuse_unknown(item)
        location = next((one for one in item.children if one.name[1] == "Location"), None)
        if location is None:
            refuse("wsag.missing", item, "Item has no Location")
        term = _PATHS.get("".join(location.text.split()))
        if term is None or term in terms:
            refuse(
                "wsag.unknown_path", location, f"{location.text[:80]!r} is no path to a term, or a second one"
            )
        terms[term] = _limited(term, [one for one in item.children if one is not location])
    if not terms:
        refuse("template.no_terms", constraints, "no term is named; name one at least")
    return template_of(terms, duration)


def attribute_of_any(element: Element, local: str) -> str:
    """Of any namespace."""
    for (_, name), value in element.attributes.items():
        if name == local:
            return value
    return attribute_of(element, local)


def _limited(term: str, facets: list[Element]) -> TemplateTerm:
    most: int | None = None
    for one in facets:
        if one.name[1] != "maxInclusive" or most is not None:
            _refuse_unknown(one)
        most = amount_of(attribute_of_any(one, "value"), term)
    if term == STAY:
        return TemplateTerm("time", max=None if most is None else _in_ms(most))
    return TemplateTerm("capacity", "B/s", max=most, sharing="fair")


def _draft_term(element: Element) -> tuple[str, int]:
    if element.name[1] == "timeToLive" and not element.children:
        return STAY, _in_ms(amount_of(element.text, STAY))
    if element.name[1] != "communication":
        _refuse_unknown(element)
    (rate,) = _each(element, "minBandWidth")
    return NET, amount_of(rate.text, NET)


def _in_ms(seconds: int) -> int:
    return amount_of(str(seconds * _MS), STAY)


def _root(text: bytes | str, local: str) -> Element:
    root = parse(text)
    if root.name[1] != local:
        refuse("wsag.root", root, f"a {root.name[1][:40]} where a {local} is expected")
    return root


def _each(element: Element, *names: str) -> list[Element]:
    """Its children, which are these, each once; a template's Context and Terms may be empty."""
    found: dict[str, Element] = {}
    for child in element.children:
        if child.name[1] not in names:
            _refuse_unknown(child)
        if child.name[1] in found:
            refuse("wsag.duplicate", child, f"{child.name[1]} comes twice")
        found[child.name[1]] = child
    for name in names:
        if name not in found:
            raise Refusal("wsag.missing", f"{element.name[1]} has no {name} ({element.place})", where=name)
    return [found[name] for name in names]


def _refuse_unknown(element: Element) -> NoReturn:
    refuse("wsag.unknown_element", element, f"{element.name[1][:40]} has no meaning here")

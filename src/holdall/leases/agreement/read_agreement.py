"""A lease out of a WS-Agreement document: what `export.agreement_xml` writes, and nothing else. Codes: `strict`."""

from collections.abc import Iterable

from holdall.leases.agreement.elements import Element
from holdall.leases.agreement.read_offers import read_terms
from holdall.leases.agreement.strict import (
    attribute_of,
    by_name,
    check_provider,
    exactly,
    fit,
    needed,
    own_attributes,
    parts_of,
    refuse,
    refuse_unknown,
    root_of,
    text_of,
    value_of,
    whole,
    word_of,
)
from holdall.leases.agreement.words import AGREEMENT_STATE, GUARANTEE_STATE, SERVICE_STATE, WSAG, ours, wsag
from holdall.model.terms import LeaseDocument, LeasedUnit, TermStatus, Usage, fraction_text

_LEASES = (
    "host", "host_incarnation", "state", "revision", "duration_ms", "remaining_ms", "renew_after_ms",
    "rebind_after_ms", "fence", "host_reachable", "why",
)  # fmt: skip
_USES = ("total", "rate_1s", "peak_1s", "denied", "enforced", "violated_s", "fence")


def read_agreement(text: bytes | str) -> LeaseDocument:
    """A lease. Raises Refusal."""
    root = root_of(text, "AgreementProperties")
    states = (wsag("ServiceTermState"), wsag("GuaranteeTermState"))
    single = [one for one in root.children if one.name not in states]
    plain = Element(root.name, root.attributes, single, root.text, root.line, root.column)
    name, lease_id, context, terms, state = parts_of(
        plain, "Name", "AgreementId", "Context", "Terms", "AgreementState"
    )
    known = ("AgreementInitiator", "AgreementResponder", "ServiceProvider", "ExpirationTime", "TemplateId")
    inside = by_name(context, (*map(wsag, known), ours("lease")))
    check_provider(context, inside)
    lease = own_attributes(needed(inside, ours("lease"), context), _LEASES)
    location = needed(inside, wsag("AgreementResponder"), context).text
    described, guarantees = read_terms(terms, location)
    if guarantees:
        refuse("wsag.unknown_element", terms, "an agreement's guarantees are its terms' states")
    services = _states(root, "ServiceTermState", described)
    assured = _states(root, "GuaranteeTermState", described)
    document = LeaseDocument(
        lease_id.text,
        location,
        lease.get("host", ""),
        whole(lease.get("host_incarnation", "0"), context),
        needed(inside, wsag("AgreementInitiator"), context).text,
        lease.get("state", ""),  # type: ignore[arg-type]  # checked by fit
        whole(lease.get("revision", "0"), context),
        whole(lease.get("duration_ms", "0"), context),
        name.text,
        tuple(_status(term, described[term], services[term], assured[term]) for term in described),
        remaining_ms=whole(lease.get("remaining_ms", "0"), context),
        renew_after_ms=whole(lease.get("renew_after_ms", "0"), context),
        rebind_after_ms=whole(lease.get("rebind_after_ms", "0"), context),
        template=text_of(inside.get(wsag("TemplateId"))),
        fence=whole(lease.get("fence", "0"), context),
        host_reachable=word_of(lease.get("host_reachable", "true"), {"true": True, "false": False}, context),
        why=lease.get("why", ""),
    )
    document = fit(document, LeaseDocument, root)
    if [one.name for one in state.children] != [wsag(AGREEMENT_STATE[document.state])]:
        refuse("wsag.value", state, f"the lease is {document.state}, and its agreement in another state")
    return document


# ---------------------------------------------------------------- states


def _states(root: Element, kind: str, terms: Iterable[str]) -> dict[str, Element]:
    """Of each term, once."""
    found: dict[str, Element] = {}
    wanted = list(terms)
    for one in root.all(wsag(kind)):
        term = attribute_of(one, "termName")
        if term in found or term not in wanted:
            refuse("wsag.duplicate", one, f"a second {kind} of {term[:64]!r}, or one of no term")
        found[term] = one
    for term in wanted:
        if term not in found:
            refuse("wsag.missing", root, f"there is no {kind} of {term!r}")
    return found


def _status(term: str, amount: Element, service: Element, assured: Element) -> TermStatus:
    values = own_attributes(amount, ("kind", "unit", "requested", "type"))
    state, use = exactly(service, (wsag("State"), ours("use")))
    used = own_attributes(use, _USES)
    counts = {name: whole(used.get(name, "0"), use) for name in _USES if name != "enforced"}
    granted = value_of(amount.text, values.get("type"), term, least=0)
    requested = value_of(values.get("requested", ""), values.get("type"), term)
    (guarantee,) = exactly(assured, (wsag("State"),))
    return TermStatus(
        term,
        values.get("kind", ""),  # type: ignore[arg-type]  # checked by fit
        requested,
        granted,
        word_of(_nested(state), {"/".join(path): one for one, path in SERVICE_STATE.items()}, state),
        word_of(guarantee.text, {word: one for one, word in GUARANTEE_STATE.items()}, guarantee),
        fraction_text(granted, requested),
        used=_usage(counts),
        denied=counts["denied"],
        enforced=used.get("enforced", "none"),  # type: ignore[arg-type]
        violated_s=counts["violated_s"],
        fence=counts["fence"],
        units=tuple(_unit(one) for one in use.children),
        unit=values.get("unit", ""),  # type: ignore[arg-type]  # checked by fit
    )


def _usage(counts: dict[str, int]) -> Usage:
    """Nothing is the default of all leases, which JSON leaves out."""
    found = Usage(counts["total"], counts["rate_1s"], counts["peak_1s"])
    unused: Usage = TermStatus("", "time", 0, 0).used
    return unused if found == unused else found


def _nested(state: Element) -> str:
    names: list[str] = []
    while state.children:
        if len(state.children) > 1 or state.children[0].name[0] != WSAG:
            refuse_unknown(state.children[-1])
        state = state.children[0]
        names.append(state.name[1])
    return "/".join(names)


def _unit(element: Element) -> LeasedUnit:
    if element.name != ours("unit"):
        refuse_unknown(element)
    values = own_attributes(element, ("name", "node", "fence"))
    fence = whole(values.get("fence", "0"), element)
    return LeasedUnit(values.get("name", ""), values.get("node", ""), fence)

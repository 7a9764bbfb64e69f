"""Templates, requests, leases and refusals as WS-Agreement documents.

A term is a ServiceDescriptionTerm with one `h:amount`; what a request will not go below is a GuaranteeTerm; what a template
allows is an Item with the facets of XML schema. Instants are for people: `h:duration` and `h:lease` carry the durations
that count. Source: lease negotiation, section 11.
"""

from collections.abc import Mapping

from holdall.leases.agreement.dates import instant_text
from holdall.leases.agreement.elements import Element, Name, write
from holdall.leases.agreement.words import (
    AGREEMENT_STATE,
    DURATION_PATH,
    FAULTS,
    GUARANTEE_STATE,
    PREFIXES,
    SERVICE_STATE,
    facet,
    is_plain_word,
    ours,
    term_path,
    wsag,
)
from holdall.leases.negotiation.messages import Declined
from holdall.model.terms import (
    LeaseDocument,
    LeaseRequest,
    RequestedTerm,
    Template,
    TemplateTerm,
    TermStatus,
    Value,
)


def template_xml(template: Template, location: str) -> str:
    """What a location offers."""
    context = Element(wsag("Context"), children=[_provider()])
    terms = [_described(name, location, _kind_of(term), "") for name, term in template.terms.items()]
    limits = [one for name, term in template.terms.items() if (one := _item(name, term)) is not None]
    root = Element(
        wsag("Template"),
        {
            wsag("TemplateId"): template.template,
            ours("hosts"): str(template.hosts),
            ours("valid_for_ms"): str(template.valid_for_ms),
            ours("policy_hint"): template.policy_hint,
        },
        [
            _leaf(wsag("Name"), template.template),
            context,
            Element(wsag("Terms"), children=[Element(wsag("All"), children=terms)]),
            Element(wsag("CreationConstraints"), children=[*limits, _durations(template)]),
        ],
    )
    return write(root, PREFIXES)


def offer_xml(request: LeaseRequest, location: str) -> str:
    """A request, as whoever initiates an agreement sends it."""
    context = [_provider()]
    if request.template is not None:
        context.append(_leaf(wsag("TemplateId"), request.template))
    context.append(_wish(request))
    terms = [_asked(name, location, term) for name, term in request.terms.items()]
    floors = [
        _floor(name, location, term.floor) for name, term in request.terms.items() if term.floor is not None
    ]
    root = Element(
        wsag("AgreementOffer"),
        children=[
            _leaf(wsag("Name"), request.request),
            Element(wsag("Context"), children=context),
            Element(wsag("Terms"), children=[Element(wsag("All"), children=[*terms, *floors])]),
        ],
    )
    return write(root, PREFIXES)


def agreement_xml(lease: LeaseDocument, *, now_unix_ms: int) -> str:
    """A lease with the state of each of its terms. `now_unix_ms` dates its end, for people."""
    context = [
        _leaf(wsag("AgreementInitiator"), lease.holder),
        _leaf(wsag("AgreementResponder"), lease.location),
        _provider(),
        _leaf(wsag("ExpirationTime"), instant_text(now_unix_ms + lease.remaining_ms)),
    ]
    if lease.template is not None:
        context.append(_leaf(wsag("TemplateId"), lease.template))
    context.append(_lease(lease))
    terms = [_granted(one, lease.location) for one in lease.terms]
    root = Element(
        wsag("AgreementProperties"),
        children=[
            _leaf(wsag("Name"), lease.request),
            _leaf(wsag("AgreementId"), lease.lease),
            Element(wsag("Context"), children=context),
            Element(wsag("Terms"), children=[Element(wsag("All"), children=terms)]),
            Element(wsag("AgreementState"), children=[Element(wsag(AGREEMENT_STATE[lease.state]))]),
            *(_service_state(one) for one in lease.terms),
            *(_guarantee_state(one) for one in lease.terms),
        ],
    )
    return write(root, PREFIXES)


def declined_xml(declined: Declined, *, now_unix_ms: int) -> str:
    """Why there is no agreement, as a fault after which the same may be tried again."""
    said = " ".join(part for part in (declined.reason, declined.term, declined.rule, declined.text) if part)
    reason = {
        "reason": declined.reason,
        "request": declined.request,
        "term": declined.term,
        "rule": declined.rule,
        "retry_after_ms": str(declined.retry_after_ms) if declined.retry_after_ms else "",
    }
    best = [
        Element(ours("best_possible"), {ours("term"): term, ours("amount"): str(amount)})
        for term, amount in declined.best_possible.items()
    ]
    root = Element(
        wsag("ContinuingFault"),
        children=[
            _leaf((FAULTS, "Timestamp"), instant_text(now_unix_ms)),
            _leaf((FAULTS, "Description"), said),
            Element(ours("declined"), _present(reason), best),
        ],
    )
    return write(root, PREFIXES)


# ---------------------------------------------------------------- parts


def _provider() -> Element:
    return _leaf(wsag("ServiceProvider"), "AgreementResponder")


def _leaf(name: Name, text: str) -> Element:
    return Element(name, text=text)


def _present(values: Mapping[str, str]) -> dict[Name, str]:
    return {ours(name): value for name, value in values.items() if value}


def value_text(value: Value) -> str:
    """An amount, a word, or `true`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _described(term: str, location: str, attributes: dict[Name, str], text: str) -> Element:
    return Element(
        wsag("ServiceDescriptionTerm"),
        {wsag("Name"): term, wsag("ServiceName"): location},
        [Element(ours("amount"), attributes, text=text)],
    )


def _kind_of(term: TemplateTerm) -> dict[Name, str]:
    step = str(term.step) if term.step != 1 else ""
    return _present({"kind": term.kind, "unit": term.unit, "sharing": term.sharing, "step": step})


def _item(name: str, term: TemplateTerm) -> Element | None:
    """None: the term is allowed without limit."""
    facets = [("minInclusive", term.min), ("maxInclusive", term.max)]
    children = [_facet(kind, bound) for kind, bound in facets if bound is not None]
    children += [_facet("enumeration", value) for value in term.values]
    return _constraint(name, term_path(name), children) if children else None


def _durations(template: Template) -> Element:
    span = template.duration
    children = [_facet("minInclusive", span.min), _facet("maxInclusive", span.max)]
    item = _constraint("duration", DURATION_PATH, children)
    item.attributes[ours("default")] = str(span.default)
    return item


def _constraint(name: str, path: str, facets: list[Element]) -> Element:
    return Element(
        wsag("Item"),
        {wsag("Name"): name},
        [_leaf(wsag("Location"), path), Element(wsag("ItemConstraint"), children=facets)],
    )


def _facet(kind: str, value: Value) -> Element:
    return Element(facet(kind), {("", "value"): value_text(value), **_typed(value)})


def _typed(value: Value) -> dict[Name, str]:
    """A word that looks like an amount, or like `true`, says that it is a word."""
    says_so = isinstance(value, str) and not is_plain_word(value)
    return {ours("type"): "word"} if says_so else {}


def _asked(name: str, location: str, term: RequestedTerm) -> Element:
    attributes = _present(
        {
            "weight": str(term.weight) if term.weight != 1 else "",
            "exact": "true" if term.exact else "",
            "prefer": term.prefer if term.prefer != "high" else "",
        }
    )
    return _described(name, location, {**attributes, **_typed(term.amount)}, value_text(term.amount))


def _floor(term: str, location: str, amount: int) -> Element:
    target = Element(
        wsag("KPITarget"),
        children=[_leaf(wsag("KPIName"), term), _leaf(wsag("Target"), str(amount))],
    )
    return Element(
        wsag("GuaranteeTerm"),
        {wsag("Name"): f"floor.{term}", wsag("Obligated"): "ServiceProvider"},
        [
            Element(wsag("ServiceScope"), {wsag("ServiceName"): location}, text=term),
            Element(wsag("ServiceLevelObjective"), children=[target]),
        ],
    )


def _wish(request: LeaseRequest) -> Element:
    values = {
        "duration_ms": "" if request.duration is None else str(request.duration),
        "replaces": request.replaces or "",
        "wait_ms": str(request.wait_ms) if request.wait_ms else "",
        "host": request.host or "",
    }
    if request.before_end is not None:
        values |= {"lead_ms": str(request.before_end.lead_ms), "signal": request.before_end.signal}
    return Element(ours("request"), _present(values))


def _lease(lease: LeaseDocument) -> Element:
    values = {
        "host": lease.host,
        "host_incarnation": str(lease.host_incarnation),
        "state": lease.state,
        "revision": str(lease.revision),
        "duration_ms": str(lease.duration),
        "remaining_ms": str(lease.remaining_ms),
        "renew_after_ms": str(lease.renew_after_ms),
        "rebind_after_ms": str(lease.rebind_after_ms),
        "fence": str(lease.fence),
        "host_reachable": value_text(lease.host_reachable),
        "why": lease.why,
    }
    return Element(ours("lease"), _present(values))


def _granted(status: TermStatus, location: str) -> Element:
    attributes = {
        **_present({"kind": status.kind, "unit": status.unit, "requested": value_text(status.requested)}),
        **_typed(status.granted),
    }
    return _described(status.name, location, attributes, value_text(status.granted))


def _service_state(status: TermStatus) -> Element:
    state: Element | None = None
    for name in reversed(SERVICE_STATE[status.state]):
        state = Element(wsag(name), children=[state] if state is not None else [])
    used = _present(
        {
            "total": str(status.used.total),
            "rate_1s": str(status.used.rate_1s),
            "peak_1s": str(status.used.peak_1s),
            "denied": str(status.denied),
            "enforced": status.enforced,
            "violated_s": str(status.violated_s),
            "fence": str(status.fence),
        }
    )
    units = [
        Element(ours("unit"), _present({"name": one.name, "node": one.node, "fence": str(one.fence)}))
        for one in status.units
    ]
    children = [Element(wsag("State"), children=[state] if state is not None else [])]
    return Element(
        wsag("ServiceTermState"),
        {wsag("termName"): status.name},
        [*children, Element(ours("use"), used, units)],
    )


def _guarantee_state(status: TermStatus) -> Element:
    return Element(
        wsag("GuaranteeTermState"),
        {wsag("termName"): status.name},
        [_leaf(wsag("State"), GUARANTEE_STATE[status.guarantee])],
    )

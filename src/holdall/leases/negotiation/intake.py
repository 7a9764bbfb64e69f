"""What a location makes of a request before it asks any host: is it sound, what does policy leave, who supports it.

Source: lease negotiation, section 4.3, steps 1 to 3.
"""

from collections.abc import Mapping, Sequence

import msgspec

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.desk import Desk
from holdall.leases.negotiation.interfaces import Asker, Holding, Policy, TermAsk
from holdall.leases.negotiation.members import Members
from holdall.leases.negotiation.states import TERMINAL
from holdall.leases.negotiation.waiting import WAIT_MS_MAX
from holdall.leases.templates import NO_HOST_SUPPORTS, candidates, in_base_units, require
from holdall.model.refusals import Refusal
from holdall.model.terms import (
    BEFORE_END_SHARE,
    DURATION,
    STAY,
    LeaseDocument,
    LeaseRequest,
    Template,
    TemplateTerm,
    Value,
    checked_request,
)


class Plan(msgspec.Struct, frozen=True):
    """Whom to ask, and for what."""

    asker: Asker
    request: LeaseRequest
    """In base units, lessened by policy, with its duration."""
    duration: int
    requested: dict[str, int]
    """As asked, of what was lessened."""
    hosts: tuple[str, ...]


class Intake:
    """Decides on one request; changes nothing."""

    def __init__(self, members: Members, desk: Desk, policy: Policy) -> None:
        self._members, self._desk, self._policy = members, desk, policy

    def plan(self, asker: Asker, request: LeaseRequest) -> Plan | m.Declined:
        """Whom to ask, or why nobody."""
        if request.wait_ms > WAIT_MS_MAX:
            text = (
                f"wait_ms: a request waits for {WAIT_MS_MAX:,} ms at most; ask for less, and again after that"
            )
            return m.Declined(request.request, "request.wait", text=text)
        hosts = self._members.may_be_asked()
        if request.replaces is not None:
            known = self._desk.leases.get(request.replaces)
            if known is None or known.holder != asker.holder or known.state in TERMINAL:
                return m.Declined(request.request, "replaces")
            hosts = {host: template for host, template in hosts.items() if host == known.host}
        if request.host is not None:
            hosts = {host: template for host, template in hosts.items() if host == request.host}
            if not hosts:
                text = "the host that alone was to be asked takes no leases of this location now"
                return m.Declined(request.request, "host_away", text=text)
        try:
            request = self._sound(request, hosts)
        except Refusal as refused:
            current = self._members.templates().templates if refused.reason == "template.unknown" else ()
            return m.Declined(
                request.request, refused.reason, refused.where, text=refused.text, templates=current
            )
        return self._allowed(asker, request, hosts)

    def _sound(self, request: LeaseRequest, hosts: Mapping[str, Template]) -> LeaseRequest:
        """In base units and with a duration. Raises Refusal."""
        checked_request(request)
        if request.template is None:
            request = in_base_units(request, _all_terms(hosts))
            spans = [template.duration.default for template in hosts.values()]
            request = msgspec.structs.replace(request, duration=request.duration or min(spans, default=1))
            return _with_time_before_the_end(request)
        named = [one for one in self._members.templates().templates if one.template == request.template]
        if not named:
            raise Refusal("template.unknown", f"no host offers {request.template} now")
        request = in_base_units(request, named[0].terms)
        request = msgspec.structs.replace(request, duration=request.duration or named[0].duration.default)
        require(request, named[0])
        return _with_time_before_the_end(request)

    def _allowed(
        self, asker: Asker, request: LeaseRequest, hosts: Mapping[str, Template]
    ) -> Plan | m.Declined:
        able, missing = candidates(request, hosts)
        if not able:
            return m.Declined(request.request, NO_HOST_SUPPORTS, missing=missing)
        holdings = self._desk.holdings(request.replaces)
        duration = request.duration or 1
        terms, requested = dict(request.terms), dict[str, int]()
        amounts = {name: asked.amount for name, asked in terms.items()}
        limits = self._limits(asker, amounts, duration, holdings)
        span, by = limits.pop(DURATION, (duration, ""))
        duration = min(duration, span)
        if not duration:
            return m.Declined(request.request, "policy", DURATION, by)
        for name, (most, rule) in sorted(limits.items()):
            asked = terms[name]
            if most < (asked.floor or 1):
                return m.Declined(request.request, "policy", name, rule)
            if type(asked.amount) is int and most < asked.amount:
                requested[name] = asked.amount
                terms[name] = msgspec.structs.replace(asked, amount=most)
        request = msgspec.structs.replace(request, terms=terms, duration=duration)
        return Plan(asker, request, duration, requested, able)

    def renewal(self, asker: Asker, known: LeaseDocument, renewal: m.Renewal, duration: int) -> m.LeaseLimits:
        """What a lease may have when it is renewed now; its host knows floors, and judges."""
        asked = {one.name: one.requested if one.kind == "capacity" else one.granted for one in known.terms}
        asked |= {name: term.amount for name, term in (renewal.terms or {}).items()}
        return m.LeaseLimits(
            known.lease, self._limits(asker, asked, duration, self._desk.holdings(known.lease))
        )

    def part(self, asker: Asker, known: LeaseDocument, order: m.SplitLease) -> m.LeaseLimits:
        """What its new holder may have of it, as though he asked for it beside what stays; its host knows amounts, and judges."""
        if min(order.amounts.values(), default=0) < 1:
            return m.LeaseLimits(order.part, {})
        holdings = self._desk.holdings(known.lease)
        for one in known.terms:
            cut = order.amounts.get(one.name, 0) if one.kind == "capacity" else 0
            left = max(0, int(one.granted) - cut) if cut else one.granted
            holdings.append(Holding(asker, one.name, left))
        return m.LeaseLimits(order.part, self._limits(order.to, order.amounts, known.duration, holdings))

    def _limits(
        self, asker: Asker, amounts: Mapping[str, Value], duration: int, holdings: Sequence[Holding]
    ) -> dict[str, tuple[int, str]]:
        """Of each term that policy limits, and of the duration: so much, by which rule."""
        found: dict[str, tuple[int, str]] = {}
        span = self._policy.may_have(TermAsk(asker, DURATION, duration, duration, terms=amounts), holdings)
        if span.amount is not None:
            found[DURATION] = span.amount, span.rule
            duration = min(duration, span.amount)
        for name, amount in amounts.items():
            ask = TermAsk(asker, name, amount, duration, self._members.capacity(name), amounts)
            allowed = self._policy.may_have(ask, holdings)
            if allowed.amount is not None:
                found[name] = allowed.amount, allowed.rule
        return found


def _with_time_before_the_end(request: LeaseRequest) -> LeaseRequest:
    """Where no term `stay` says when it will end: the lead leaves the usual renewals room. Raises Refusal."""
    before, duration = request.before_end, request.duration or 1
    if before is None or STAY in request.terms or before.lead_ms * BEFORE_END_SHARE <= duration:
        return request
    raise Refusal(
        "request.before_end",
        f"{before.lead_ms:,} ms before the end is more than a quarter of the lease's duration ({duration:,} ms), "
        "within which it is renewed; ask for a longer duration, or for a shorter lead",
        where="before_end",
    )


def _all_terms(hosts: Mapping[str, Template]) -> dict[str, TemplateTerm]:
    """Of all hosts, for the units of amounts; a unit is the same at all hosts of a location."""
    found: dict[str, TemplateTerm] = {}
    for host in sorted(hosts):
        found = {**hosts[host].terms, **found}
    return found

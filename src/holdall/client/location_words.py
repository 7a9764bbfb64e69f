"""Requests as people write them, and refusals as errors with the next step; for command line and SDK alike."""

import secrets
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from holdall.model import location_frames as f
from holdall.model.durations import finite_duration, show_duration
from holdall.model.errors import (
    BadSpec,
    HoldallError,
    LeaseLost,
    NeverSatisfiable,
    NotGranted,
    NotHolder,
    Refused,
)
from holdall.model.quantities import BaseUnit, parse_quantity
from holdall.model.refusals import Refusal
from holdall.model.terms import (
    BEFORE_END_SHARE,
    BeforeEnd,
    LeaseDocument,
    LeaseRequest,
    RequestedTerm,
    Value,
    checked_request,
)

Amount: TypeAlias = bool | int | str
"""`True` or a word for a function; else base units, or text as `50KiB/s`."""
UNITS: tuple[BaseUnit, ...] = ("unit", "B/s", "B", "mcpu", "ms")
_LATER = frozenset(
    {
        "oversubscribed",
        "not_free",
        "no_answer",
        "busy",
        "others_first",
        "others_wait",
        "limits_unsure",
        "stale_lm",
        "draining",
        "quarantine",
        "withdrawn",
        "lapsed",
    }
)
"""Reasons for which the same request may be granted later."""
HOLDER_TOLD = "its holder was told"
"""What became of that which was to be done before the end of a lease without a command."""
_HINTS = {
    "template.unknown": "See: holdall location templates LOCATION",
    "no_host_supports": "See: holdall location templates LOCATION",
}


def new_request(
    terms: Mapping[str, Amount],
    *,
    duration: float | str | None = None,
    floors: Mapping[str, int | str] | None = None,
    weights: Mapping[str, int | str] | None = None,
    template: str | None = None,
    replaces: str | None = None,
    wait: float | str | None = None,
    before_end: BeforeEnd | None = None,
    host: str | None = None,
) -> LeaseRequest:
    """A request with an id of its own. `duration` and `wait` as seconds or text; None: it does not wait. Raises BadSpec."""
    floors, weights = floors or {}, weights or {}
    for name in (*floors, *weights):
        if name not in terms:
            raise BadSpec(f"{name} has a floor or a weight, but is not asked for. Add it: {name}=AMOUNT")
    wait_ms = 0 if wait is None else finite_duration(wait, what="wait")
    duration_ms = None if duration is None else finite_duration(duration, what="duration")
    made = {
        name: RequestedTerm(
            _value(amount),
            None if name not in floors else base_units(f"floor of {name}", floors[name]),
            weights.get(name, 1),
        )
        for name, amount in terms.items()
    }
    request = LeaseRequest(
        secrets.token_hex(16),
        made,
        template=template,
        duration=duration_ms or None,
        replaces=replaces,
        wait_ms=wait_ms or 0,
        before_end=before_end,
        host=host,
    )
    try:
        return checked_request(request)
    except Refusal as refusal:
        raise BadSpec(f"{refusal.where}: {refusal.text}" if refusal.where else refusal.text) from None


def before_end_of(lead: float | str | None) -> BeforeEnd | None:
    """Of a lease without a command: its holder is told so long before the end; None: he is not. Raises BadSpec."""
    if lead is None:
        return None
    lead_ms = finite_duration(lead, what="before_end")
    if not lead_ms:
        raise BadSpec("before_end: nobody can be told in no time. Say how long before the end, e.g. 10s")
    return BeforeEnd(lead_ms)


def before_end_ms(document: LeaseDocument, until_ms: int) -> int | None:
    """When a holder who asked for it is told that his lease, which he may use until then, will end; None: never."""
    before = document.before_end
    return None if before is None else until_ms - min(before.lead_ms, document.duration // BEFORE_END_SHARE)


def wait_ms_of(question: f.FromClient) -> int:
    """For how long the location may let it wait."""
    return question.request.wait_ms if isinstance(question, f.AskOffer) else 0


def together(
    location: str, parts: Sequence[Mapping[str, Amount]], duration: float | str | None
) -> f.AskTogether:
    """The question for all of them at once. Raises BadSpec."""
    if not 1 <= len(parts) <= f.PARTS_MAX:
        raise BadSpec(f"{len(parts)} parts; 1 to {f.PARTS_MAX} can be asked together")
    asked = [f.AskOffer(location, new_request(terms, duration=duration)) for terms in parts]
    return f.AskTogether(tuple(asked))


def renewal_of(lease: str, location: str, duration: float | str) -> f.RenewLease:
    """The question by which a lease that is held nowhere is taken up. Raises BadSpec."""
    if f.location_of(lease) != location or len(lease) > f.ID_MAX:
        raise BadSpec(f"that is no id of a lease of {location}. See: holdall location status")
    duration_ms = finite_duration(duration, what="duration")
    if not duration_ms:
        raise BadSpec("duration: a lease lasts 1 ms or more")
    return f.RenewLease(lease, duration_ms)


def refused(answer: f.NoOffer, location: str) -> HoldallError:
    """Why there is no offer, or no renewal, as an error with the status of its kind."""
    kind = _kind_of(answer.reason)
    facts = [answer.text] if answer.text else []
    if answer.rule:
        facts.append(f'rule "{answer.rule}"')
    for name, amount in sorted(answer.best_possible.items()):
        facts.append(f"at most {amount:,} of {name} now" if amount else f"nothing of {name} now")
    for host, term in sorted(answer.missing.items()):
        facts.append(f"{host} has no such {term}")
    where = f" at {location}" if location else ""
    what = f"{answer.term}: " if answer.term else ""
    text = f"not offered{where}: {what}{answer.reason.replace('_', ' ')}"
    if facts:
        text += f" — {'; '.join(facts)}"
    return kind(f"{text}. {_next_step(answer, location)}".rstrip())


def over(answer: f.Over) -> HoldallError:
    """What has become of an offer or a lease, where it should have gone on."""
    lease, reason = answer.lease, answer.reason
    if reason == "unknown":
        return NotHolder(f"no offer or lease {lease} of yours is known. See: holdall location offers")
    if reason in {"lapsed", "stale_revision", "no_answer", "withdrawn", "stale_lm", "declined"}:
        return NotGranted(
            f"offer {lease} is over ({reason.replace('_', ' ')}); nothing is granted by it. Ask anew: "
            "holdall location request"
        )
    return LeaseLost(f"lease {lease} is over: {reason}. Ask anew: holdall location request")


def _kind_of(reason: str) -> type[HoldallError]:
    if reason == "policy":
        return Refused
    if reason == "replaces":
        return NotHolder
    if reason in _LATER or reason == "worse":
        return NotGranted
    if reason.startswith(("constraint.", "template.")) or reason == "no_host_supports":
        return NeverSatisfiable
    if reason.startswith(("quantity.", "request.", "term.", "json.")):
        return BadSpec
    return NotGranted


def _next_step(answer: f.NoOffer, location: str) -> str:
    if answer.retry_after_ms:
        return f"Try again in {show_duration(answer.retry_after_ms)}."
    if answer.reason == "policy":
        return "See: holdall policy check"
    if answer.reason == "worse":
        return "Say with a floor how far it may shrink."
    return _HINTS.get(answer.reason, "").replace("LOCATION", location or "LOCATION")


def _value(amount: Amount) -> Value:
    return True if amount == "true" and isinstance(amount, str) else amount


def base_units(what: str, amount: int | str) -> int:
    """So many base units; the amount's own unit says which. `what` it is, for people. Raises BadSpec."""
    problem: Refusal | None = None
    for unit in UNITS:
        try:
            return parse_quantity(amount, unit, what=what)
        except Refusal as refusal:
            problem = refusal if refusal.reason != "quantity.wrong_unit" or problem is None else problem
    raise BadSpec(f"{what}: {'' if problem is None else problem.text}")

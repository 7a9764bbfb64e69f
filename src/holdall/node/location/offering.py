"""What a configuration offers at its location: the terms of the host's template, and its capacities."""

from collections import Counter

from holdall.leases.templates import template_of
from holdall.model.terms import STAY, TERMS_MAX, Durations, Template, TemplateTerm
from holdall.node.configured import Settings
from holdall.node.process import Process
from holdall.parties.location.parts import Divided, LocationParts


def location_parts_of(settings: Settings, process: Process) -> LocationParts:
    """The node's part in its location. Pools of one name are one term."""
    if not settings.node.location:
        return LocationParts(uid=process.uid, ttl_ms=settings.defaults.ttl_ms, seed=process.number)
    times = settings.negotiation
    return LocationParts(
        settings.node.location,
        _terms(settings),
        {
            one.name: Divided(one.amount, one.step, "fair" if one.sharing == "fair" else "none")
            for one in settings.capacities
        },
        Durations(times.duration_min_ms, times.duration_max_ms, times.duration_ms),
        times.propose_ms,
        times.offer_ms,
        uid=process.uid,
        ttl_ms=settings.defaults.ttl_ms,
        seed=process.number,
        strict=settings.policy.limits == "strict",
    )


def offered_now(running: Settings, fresh: Settings) -> Template | None:
    """What a running node may offer by a configuration that was read again: other amounts of capacities, functions, times.

    Pools are those of the start; None where there is nothing to offer, or only a start can offer it.
    """
    if shape(running) != shape(fresh) or not running.node.location:
        return None
    terms = {name: term for name, term in _terms(fresh).items() if term.kind != "pool"}
    terms |= {name: term for name, term in _terms(running).items() if term.kind == "pool"}
    times = fresh.negotiation
    if not terms or len(terms) > TERMS_MAX:
        return None
    return template_of(terms, Durations(times.duration_min_ms, times.duration_max_ms, times.duration_ms))


def shape(settings: Settings) -> tuple[object, ...]:
    """What of capacities only a start takes over, and how long answers take."""
    times = settings.negotiation
    return (
        tuple((one.name, one.unit, one.step, one.sharing) for one in settings.capacities),
        times.propose_ms,
        times.offer_ms,
    )


def _terms(settings: Settings) -> dict[str, TemplateTerm]:
    """A template has so many terms at most; pools beyond that are claimed as ever, but not negotiated."""
    room = TERMS_MAX - len(settings.capacities) - len(settings.functions) - 1
    terms: dict[str, TemplateTerm] = {}
    for one in settings.capacities:
        terms[one.name] = TemplateTerm(
            "capacity", one.unit, min=one.least, max=one.amount, step=one.step, sharing=one.sharing
        )
    units = Counter[str]()
    for pool in settings.pools:
        units[pool.name] += len(pool.units)
    for name, count in sorted(units.items())[:room]:
        terms[name] = TemplateTerm("pool", max=count)
    for function in settings.functions:
        terms[function.name] = TemplateTerm("function", values=function.values)
    if settings.negotiation.stay_max_ms is not None:
        terms[STAY] = TemplateTerm("time", max=settings.negotiation.stay_max_ms)
    return terms

"""How `holdall location` shows locations, templates, offers and leases."""

import sys

from holdall.cli.options import converse
from holdall.cli.tables import plain, print_json, print_table
from holdall.client.location_talk import LocationTalk
from holdall.client.location_words import over
from holdall.model import location_frames as f
from holdall.model.durations import show_duration
from holdall.model.location_rows import HostRow
from holdall.model.terms import LeaseDocument, Template, TemplateTerm, TermStatus, Value


def locations(url: str, *, as_json: bool) -> None:
    """All of them."""
    with converse(url) as node:
        rows = LocationTalk(node).expect(f.ListLocations(), f.Locations).rows
    if as_json:
        print_json("locations", rows)
        return
    print_table(
        ("LOCATION", "MANAGER", "NODES", "TEMPLATES"),
        [
            (
                plain(row.location),
                plain(row.manager) or "none answers",
                plain(" ".join(row.nodes)),
                " ".join(row.templates) or "none",
            )
            for row in rows
        ],
        empty='no location is known. Write location = "NAME" below [node] in a configuration',
    )


def hosts(location: str, url: str, *, as_json: bool) -> None:
    """Of one location, as its manager knows them."""
    rows: list[HostRow] = []
    with converse(url) as node:
        talk = LocationTalk(node)
        found = talk.expect(f.AskHosts(location), f.HostsAre)
        rows += found.rows
        while found.next:
            found = talk.expect(f.AskHosts(location, found.next), f.HostsAre)
            rows += found.rows
    if as_json:
        print_json("hosts", rows, location=location, manager=found.manager)
        return
    print_table(
        ("HOST", "STATE", "INCARNATION", "TEMPLATE", "FREE"),
        [
            (
                plain(row.host),
                f"{row.presence}, draining" if row.draining else row.presence,
                str(row.incarnation),
                row.template,
                " · ".join(f"{plain(term)} {amount:,}" for term, amount in sorted(row.free.items())),
            )
            for row in rows
        ],
        empty=f"no host of {plain(location)} offers anything now. Add a [[capacity]] to a node's configuration",
    )


def templates(location: str, url: str, *, as_json: bool) -> None:
    """Of one location."""
    with converse(url) as node:
        found = LocationTalk(node).expect(f.AskTemplates(location), f.TemplatesAre)
    if as_json:
        print_json("templates", found.templates, location=location, suspect=found.suspect)
        return
    rows = [
        row
        for template in found.templates
        for row in _template_rows(template, template.template in found.suspect)
    ]
    print_table(
        ("TEMPLATE", "HOSTS", "TERM", "KIND", "WHAT MAY BE ASKED"),
        rows,
        empty=f"no host of {plain(location)} offers anything now. Add a [[capacity]] to a node's configuration",
    )


def offers(url: str, *, as_json: bool) -> None:
    """The caller's."""
    with converse(url) as node:
        rows = LocationTalk(node).expect(f.ListOffers(), f.Offers).rows
    if as_json:
        print_json("offers", rows)
        return
    print_table(
        ("LEASE", "HOST", "TERMS", "DURATION", "OPEN FOR"),
        [
            (
                plain(row.document.lease),
                plain(row.document.host),
                terms_text(row.document),
                show_duration(row.document.duration),
                show_duration(row.offer_ms),
            )
            for row in rows
        ],
        empty="no open offers. Ask for one: holdall location request LOCATION --term NAME=AMOUNT",
    )


def status(lease: str, url: str, *, as_json: bool) -> None:
    """One lease."""
    with converse(url) as node:
        answer = LocationTalk(node).ask(f.AskStatus(lease))
    if isinstance(answer, f.LeaseIs):
        show_lease(answer.document, as_json=as_json)
    elif isinstance(answer, f.Over):
        raise over(answer)


def show_lease(document: LeaseDocument, *, as_json: bool) -> None:
    """A lease on stdout."""
    if as_json:
        print_json("lease", document)
        return
    left = f", {show_duration(document.remaining_ms)} left" if document.state == "active" else ""
    silent = "" if document.host_reachable else ", its host is silent"
    why = f" ({plain(document.why)})" if document.why else ""
    sys.stdout.write(
        f"{plain(document.lease)}  {document.state}{left}{silent}{why}\n"
        f"host {plain(document.host)} · holder {plain(document.holder)} · revision {document.revision}"
        f" · fence {document.fence} · duration {show_duration(document.duration)}\n"
    )
    print_table(
        ("TERM", "ASKED", "GRANTED", "PART", "STATE", "GUARANTEE", "USED", "DENIED", "ENFORCED"),
        [_term_row(one) for one in document.terms],
        empty="no terms",
    )


def terms_text(document: LeaseDocument) -> str:
    """`gpu 2 · net.tx 30,720 (3/5 of 51,200)`."""
    return " · ".join(_granted_text(one) for one in document.terms)


def _granted_text(one: TermStatus) -> str:
    if one.kind == "function":
        return f"{plain(one.name)} {_shown(one.granted)}"
    part = "" if one.fraction in {"", "1"} else f" ({one.fraction} of {_shown(one.requested)})"
    return f"{plain(one.name)} {_shown(one.granted)}{part}"


def _term_row(one: TermStatus) -> tuple[str, ...]:
    units = " ".join(f"{plain(unit.name)}@{plain(unit.node)}#{unit.fence}" for unit in one.units)
    return (
        plain(one.name),
        _shown(one.requested),
        _shown(one.granted) + (f" ({units})" if units else ""),
        one.fraction,
        one.state,
        one.guarantee,
        f"{one.used.total:,}" if one.used.total else "",
        str(one.denied or ""),
        one.enforced,
    )


def _template_rows(template: Template, suspect: bool) -> list[tuple[str, ...]]:
    hosts = f"{template.hosts} (silent)" if suspect else str(template.hosts)
    span = template.duration
    rows = [
        (template.template, hosts, plain(name), term.kind, _constraint(term))
        for name, term in sorted(template.terms.items())
    ]
    shown = f"{show_duration(span.min)} to {show_duration(span.max)}, else {show_duration(span.default)}"
    return [*rows, (template.template, hosts, "duration", "time", shown)]


def _constraint(term: TemplateTerm) -> str:
    if term.kind == "function":
        return " or ".join(_shown(value) for value in term.values) or "anything"
    unit = "units" if term.kind == "pool" else term.base_unit
    low = f"{term.min:,} to " if term.min is not None else "up to "
    text = f"{low}{term.max:,} {unit}" if term.max is not None else f"any {unit}"
    if term.step != 1:
        text += f", in steps of {term.step:,}"
    return text + (f", {term.sharing}" if term.sharing else "")


def _shown(value: Value) -> str:
    if value is True:
        return "yes"
    return f"{value:,}" if isinstance(value, int) else plain(str(value))

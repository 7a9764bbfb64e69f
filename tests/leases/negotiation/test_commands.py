"""Leases for commands: one host alone is asked, what is used and how that is kept is told, and so is what came before the end."""

import msgspec
from leases.negotiation.town import AGENT, LM, Town, accepts, at, gets, lease, offered, wish

from holdall.leases.negotiation import messages as m
from holdall.model.terms import BeforeEnd, LeaseRequest, TemplateTerm, TermUse, Usage

MEM = TemplateTerm("capacity", "B", min=1, max=1000, sharing="fair")
CPU = TemplateTerm("capacity", "mcpu", min=1, max=2000, sharing="fair")
STAY = TemplateTerm("time", max=5_000_000)
TERMS = {"mem": MEM, "cpu": CPU, "stay": STAY}
ASKED = {"mem": 400, "cpu": 1000, "stay": 60_000}


def town_of(*hosts: str) -> Town:
    town = Town()
    town.location()
    for host in hosts:
        town.host(host, TERMS, {"mem": 1000, "cpu": 2000})
    return town


def asks(request: m.RequestLease, **how: object) -> m.RequestLease:
    return m.RequestLease(msgspec.structs.replace(request.request, **how))


def declined(town: Town, request: m.RequestLease) -> m.Declined:
    answer = town.ask(LM, request)
    assert isinstance(answer, m.Declined)
    return answer


def test_one_host_alone_is_asked_where_that_is_wished() -> None:
    town = town_of("h1", "h2")
    assert offered(town.ask(LM, asks(wish("a", mem=400), host="h2"))).host == "h2"
    assert town.count(m.Propose) == 1
    # It has less free than the other one, and is asked all the same; what it can't give nobody gives.
    assert offered(town.ask(LM, asks(wish("b", mem=1000), host="h2"))).term("mem").granted == 600
    away = declined(town, asks(wish("c", mem=1), host="h3"))
    assert (away.reason, "takes no leases of this location now" in away.text) == ("host_away", True)
    town.dies(at("h2"))
    town.passes(3000)
    assert declined(town, asks(wish("d", mem=1), host="h2")).reason == "host_away"
    assert town.count(m.Propose) == 2


def test_what_a_guardian_tells_is_in_the_status_with_how_it_is_kept_and_lives_through_a_restart() -> None:
    town = town_of("h1")
    held = gets(town, wish("r1", 60_000, None, **ASKED))
    assert {one.name: one.enforced for one in held.terms} == dict.fromkeys(ASKED, "none")
    told = (
        TermUse("cpu", Usage(1500, 700, 900), "ready.processing", enforced="kernel"),
        TermUse("mem", Usage(800, 300, 400), "ready.processing", denied=2, enforced="observed"),
        TermUse("stay", Usage(2000), "ready.processing"),
        TermUse("gpu", Usage(1)),
    )
    town.send(AGENT, at("h1"), m.UseIs(held.lease, told, "meter-1"))

    def status() -> dict[str, tuple[object, ...]]:
        found = lease(town.ask(at("h1"), m.GetStatus(held.lease)))
        return {one.name: (one.used, one.denied, one.enforced) for one in found.terms}

    expected = {
        "cpu": (Usage(1500, 700, 900), 0, "kernel"),
        "mem": (Usage(800, 300, 400), 2, "observed"),
        "stay": (Usage(2000), 0, "process"),
    }
    assert status() == expected
    town.dies(at("h1"))
    town.comes_up(at("h1"))
    assert status() == expected


def test_before_the_end_what_is_wished_and_what_came_of_it_are_in_the_lease_and_its_journal() -> None:
    town = town_of("h1")
    wished = BeforeEnd(500, "USR1")
    offer = offered(town.ask(LM, asks(wish(duration=2000, mem=400), before_end=wished)))
    assert (offer.before_end, offer.before_end_outcome) == (wished, "")
    held = accepts(town, offer)
    assert held.before_end == wished
    town.send(AGENT, at("h1"), m.UseIs(held.lease, (), "", "signal SIGUSR1 was sent"))
    # Who tells less later takes nothing back.
    town.send(AGENT, at("h1"), m.UseIs(held.lease, (), ""))
    town.dies(at("h1"))
    town.comes_up(at("h1"))
    found = lease(town.ask(at("h1"), m.GetStatus(held.lease)))
    assert (found.before_end, found.before_end_outcome) == (wished, "signal SIGUSR1 was sent")
    # It is the holder's to tell.
    other = town.send(LM, at("h1"), m.UseIs(held.lease, (), "", "nothing of it"))
    assert other == []
    assert lease(town.ask(at("h1"), m.GetStatus(held.lease))).before_end_outcome == "signal SIGUSR1 was sent"


def test_a_lead_leaves_renewals_their_room_unless_the_end_is_known_by_a_term() -> None:
    town = town_of("h1")

    def asked(name: str, lead_ms: int, **terms: object) -> object:
        before = asks(wish(name, 2000, None, **terms), before_end=BeforeEnd(lead_ms))
        return town.ask(LM, before)

    assert isinstance(asked("a", 500, mem=100), m.Offer)
    refused = asked("b", 501, mem=100)
    assert isinstance(refused, m.Declined)
    assert (refused.reason, refused.term) == ("request.before_end", "before_end")
    assert "more than a quarter of the lease's duration (2,000 ms)" in refused.text
    assert isinstance(asked("c", 20_000, mem=100, stay=60_000), m.Offer)
    # Of a template's default duration, too.
    terms = wish("d", None, mem=100).request.terms
    named = LeaseRequest("d", terms, before_end=BeforeEnd(15_001))
    assert isinstance(town.ask(LM, m.RequestLease(named)), m.Declined)

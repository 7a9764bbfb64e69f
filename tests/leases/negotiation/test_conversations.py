"""Agents, a location and its hosts: whole conversations, with every message counted."""

from collections.abc import Sequence

import msgspec
import pytest
from leases.negotiation.town import (
    AGENT,
    LM,
    NET,
    TTL,
    Town,
    accepts,
    all_arrive,
    at,
    gets,
    lease,
    offered,
    wish,
)

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Allowed, Holding, TermAsk
from holdall.machine.contract import Address
from holdall.model.terms import LeaseRequest, RequestedTerm, TemplateTerm

SECOND = Address("y", "agent")
BOTH = {"ttl": TTL, "net.tx": NET}


def seed_town() -> Town:
    town = Town()
    town.location()
    town.host("h1", BOTH, {"net.tx": 15_360})
    town.host("h2", BOTH, {"net.tx": 30_720})
    return town


def free(town: Town, host: str) -> int:
    return town.host_manager(host).book.allotments.free()["net.tx"]


def test_n1_the_host_that_has_most_of_it_is_offered_and_the_other_is_free_again() -> None:
    town = seed_town()
    document = offered(town.ask(LM, wish(ttl=2_000_000, net__tx=51_200)))
    assert (document.host, document.state, document.revision) == ("h2", "offered", 1)
    net = document.term("net.tx")
    assert (net.requested, net.granted, net.fraction) == (51_200, 30_720, "3/5")
    assert document.term("ttl").granted == 2_000_000
    assert (free(town, "h1"), free(town, "h2")) == (15_360, 0)
    assert town.counts() == {
        "RequestLease": 1,
        "Propose": 2,
        "Proposal": 2,
        "Select": 1,
        "Cancel": 1,
        "Offer": 1,
    }
    active = accepts(town, document)
    assert (active.state, active.remaining_ms, active.renew_after_ms, active.rebind_after_ms) == (
        "active",
        2000,
        1000,
        1750,
    )
    assert town.counts()["Confirm"] == 1
    assert sum(town.counts().values()) == 8 + 4


def test_n2_a_host_without_a_term_is_asked_nothing() -> None:
    town = seed_town()
    town.host("h3", {"ttl": TTL}, {})
    town.ask(LM, wish(ttl=2_000_000, net__tx=51_200))
    assert town.count(m.Propose) == 2
    assert not [one for _, to, one in town.said if to == at("h3") and not isinstance(one, m.Welcome)]


def test_n3_a_time_above_the_templates_is_declined_by_name_and_nobody_is_asked() -> None:
    town = seed_town()
    (template,) = {one.template: one for one in _templates(town).templates}.values()
    assert template.hosts == 2
    at_most = wish("a", ttl=5_000_000)
    above = wish("b", ttl=5_001_000)
    named = [m.RequestLease(_with_template(one, template.template)) for one in (at_most, above)]
    assert isinstance(town.ask(LM, named[0]), m.Offer)
    asked = town.count(m.Propose)
    answer = town.ask(LM, named[1])
    assert isinstance(answer, m.Declined)
    assert (answer.reason, answer.term) == ("constraint.max", "ttl")
    assert "5000000" in answer.text
    assert town.count(m.Propose) == asked


def test_n3_an_unknown_template_is_answered_with_the_current_ones() -> None:
    town = seed_town()
    answer = town.ask(LM, m.RequestLease(_with_template(wish(ttl=1), "t-unknown")))
    assert isinstance(answer, m.Declined)
    assert answer.reason == "template.unknown"
    assert answer.templates == _templates(town).templates


def test_n4_an_offer_that_is_accepted_too_late_grants_nothing() -> None:
    town = seed_town()
    document = offered(town.ask(LM, wish(net__tx=51_200)))
    town.passes(9_999)
    assert free(town, "h2") == 0
    town.passes(2)
    assert free(town, "h2") == 30_720
    assert town.ask(LM, m.AcceptLease(document.lease, 1)) == m.Lapsed(document.lease, 1)
    assert town.host_manager("h2").book.active() == []


def test_n4_a_lost_cancel_is_harmless_as_the_hold_lapses() -> None:
    town = seed_town()
    town.lost = lambda _from, _to, message: isinstance(message, m.Cancel)
    town.ask(LM, wish(net__tx=51_200))
    assert free(town, "h1") == 0
    town.passes(12_000)
    assert (free(town, "h1"), free(town, "h2")) == (15_360, 30_720)


def test_n5_accepting_twice_is_answered_the_same_and_a_stale_revision_is_refused() -> None:
    town = seed_town()
    document = offered(town.ask(LM, wish(net__tx=20_000)))
    first = accepts(town, document)
    assert accepts(town, document) == first
    assert town.count(m.Confirm) == 1
    again = offered(town.ask(LM, wish("r2", replaces=first.lease, net__tx=30_000)))
    assert (again.lease, again.revision) == (first.lease, 2)
    second = accepts(town, again)
    assert (second.revision, second.fence) == (2, first.fence)
    assert second.term("net.tx").granted == 30_000
    assert town.ask(LM, m.AcceptLease(first.lease, 1)) == m.StaleRevision(first.lease, 1, 2)
    assert free(town, "h2") == 720


def test_n5_the_same_request_has_the_same_answer_and_asks_nobody_again() -> None:
    town = seed_town()
    first = town.ask(LM, wish(net__tx=20_000))
    assert town.ask(LM, wish(net__tx=20_000)) == first
    assert town.count(m.Propose) == 2


def test_n6_what_two_hosts_have_together_nobody_has() -> None:
    town = Town()
    town.location()
    gib = 1 << 30
    for name, cpu, mem in (("a", 8000, 4 * gib), ("b", 2000, 64 * gib)):
        terms = {
            "cpu": TemplateTerm("capacity", "mcpu", max=cpu),
            "mem": TemplateTerm("capacity", "B", max=mem),
        }
        town.host(name, terms, {"cpu": cpu, "mem": mem})
    assert len(_templates(town).templates) == 2
    answer = town.ask(LM, wish(cpu=8000, mem="64GiB"))
    assert isinstance(answer, m.Declined)
    assert (answer.reason, answer.missing) == ("no_host_supports", {"a": "mem", "b": "cpu"})
    assert town.count(m.Propose) == 0


def test_n7_a_silent_host_is_suspect_and_its_lease_lives_to_its_end() -> None:
    town = seed_town()
    got = gets(town, wish(duration=60_000, net__tx=30_000))
    assert got.host == "h2"
    town.lost = lambda sender, to, _message: at("h2") in {sender, to}
    town.passes(2_000)
    assert town.location_manager().members.known["h2"].presence == "live"
    town.passes(1_100)
    assert town.location_manager().members.known["h2"].presence == "suspect"
    assert len(_templates(town).templates) == 1
    before = town.count(m.Propose)
    declined = offered(town.ask(LM, wish("r2", net__tx=15_000), SECOND))
    assert (declined.host, town.count(m.Propose) - before) == ("h1", 1)
    status = lease(town.ask(LM, m.GetStatus(got.lease)))
    assert (status.state, status.host_reachable) == ("active", False)
    town.passes(7_000)
    assert town.location_manager().members.known["h2"].presence == "gone"
    assert _templates(town).templates[0].hosts == 1
    assert town.host_manager("h2").book.active() == [got.lease]
    town.passes(52_000)
    assert town.host_manager("h2").book.active() == []
    assert lease(town.ask(LM, m.GetStatus(got.lease))).state == "expired"


class Caps:
    """A limit for each holder that can be changed."""

    def __init__(self, amount: int | None) -> None:
        self.amount = amount

    def may_have(self, ask: TermAsk, holdings: Sequence[Holding]) -> Allowed:
        held = sum(int(one.amount) for one in holdings if one.term == ask.term and one.asker == ask.asker)
        if self.amount is None or ask.term != "net.tx":
            return Allowed()
        return Allowed(max(0, self.amount - held), "each-holder")

    def rank(self, host: str) -> int:
        del host
        return 0


@pytest.mark.parametrize("to", [LM, at("h2")])
def test_n8_a_renewal_after_a_tighter_policy_gets_less_or_is_refused_by_the_rules_name(to: Address) -> None:
    town, caps = Town(), Caps(None)
    town.location()
    town.host("h2", BOTH, {"net.tx": 30_720}, policy=caps)
    got = gets(town, wish(net__tx=20_000))
    caps.amount = 5_000
    town.passes(1_000)
    answer = town.ask(to, m.RenewLeases(1, (m.Renewal(got.lease),), 2000))
    assert isinstance(answer, m.Renewed)
    assert answer.document is not None
    assert (answer.document.revision, answer.document.term("net.tx").granted) == (2, 5_000)
    assert answer.document.term("net.tx").requested == 20_000
    caps.amount = 0
    refused = town.ask(to, m.RenewLeases(2, (m.Renewal(got.lease),), 2000))
    assert refused == m.Renewed(
        2, got.lease, reason="policy", term="net.tx", rule="each-holder", best_possible={"net.tx": 0}
    )
    status = lease(town.ask(to, m.GetStatus(got.lease)))
    assert (status.state, status.revision, status.term("net.tx").granted) == ("active", 2, 5_000)
    town.passes(2_040)
    assert lease(town.ask(to, m.GetStatus(got.lease))).state == "expired"
    assert free(town, "h2") == 30_720


def test_a_location_policy_lessens_before_hosts_are_asked_and_what_was_asked_is_remembered() -> None:
    town = Town()
    town.location(policy=Caps(12_000))
    town.host("h2", BOTH, {"net.tx": 30_720})
    document = offered(town.ask(LM, wish(net__tx=20_000)))
    net = document.term("net.tx")
    assert (net.requested, net.granted, net.fraction) == (20_000, 12_000, "3/5")
    answer = town.ask(LM, wish("r2", net__tx=1))
    assert isinstance(answer, m.Declined)
    assert (answer.reason, answer.rule) == ("policy", "each-holder")


def test_below_its_floor_a_request_is_declined_with_the_best_that_is_possible() -> None:
    town = seed_town()
    answer = town.ask(LM, wish(net__tx=RequestedTerm(51_200, floor=40_000)))
    assert isinstance(answer, m.Declined)
    assert (answer.reason, answer.term, answer.best_possible) == (
        "oversubscribed",
        "net.tx",
        {"net.tx": 30_720},
    )
    assert (free(town, "h1"), free(town, "h2")) == (15_360, 30_720)


def test_a_late_proposal_is_cancelled() -> None:
    town = seed_town()
    held_back: list[tuple[Address, Address, object]] = []

    def late(sender: Address, to: Address, message: object) -> bool:
        if isinstance(message, m.Proposal) and sender == at("h1"):
            held_back.append((sender, to, message))
            return True
        return False

    town.lost = late
    assert town.send(AGENT, LM, wish(net__tx=51_200)) == []
    town.passes(1_000)
    (answer,) = town.hears(AGENT)
    assert offered(answer).host == "h2"
    town.lost = all_arrive
    ((sender, to, message),) = held_back
    assert isinstance(message, m.Proposal)
    town.send(sender, to, message)
    assert free(town, "h1") == 15_360


def test_a_location_manager_that_dies_between_accept_and_confirm_grants_nothing() -> None:
    town = seed_town()
    document = offered(town.ask(LM, wish(net__tx=30_000)))
    town.lost = lambda _from, _to, message: isinstance(message, m.Confirm)
    assert town.send(AGENT, LM, m.AcceptLease(document.lease, 1)) == []
    town.dies(LM)
    town.lost = all_arrive
    town.comes_up(LM)
    town.passes(1_100)
    assert town.ask(LM, m.AcceptLease(document.lease, 1)) == m.UnknownLease(document.lease)
    town.passes(12_000)
    assert town.host_manager("h2").book.active() == []
    assert free(town, "h2") == 30_720


def test_a_location_manager_that_dies_between_confirm_and_answer_learns_the_lease_from_its_host() -> None:
    town = seed_town()
    document = offered(town.ask(LM, wish(duration=60_000, net__tx=30_000)))
    town.lost = lambda _from, to, message: isinstance(message, m.Confirmed) and to == LM
    assert town.send(AGENT, LM, m.AcceptLease(document.lease, 1)) == []
    town.dies(LM)
    town.lost = all_arrive
    town.comes_up(LM)
    town.passes(1_100)
    found = accepts(town, document)
    assert (found.state, found.host, found.revision) == ("active", "h2", 1)
    assert town.host_manager("h2").book.active() == [document.lease]
    assert lease(town.ask(LM, m.GetStatus(document.lease))).state == "active"


def test_a_manager_whose_epoch_is_over_is_refused_and_stops() -> None:
    other = Address("lm2", "location")
    town = Town()
    town.location()
    town.location(other)
    town.host("h2", BOTH, {"net.tx": 30_720}, managers=(LM, other))
    document = offered(town.ask(LM, wish(net__tx=30_000)))
    town.send(AGENT, other, m.Lead(5))
    assert offered(town.ask(other, wish("other", net__tx=30_000), SECOND)).term("net.tx").granted == 720
    assert town.ask(LM, m.AcceptLease(document.lease, 1)) == m.Lapsed(document.lease, 1)
    assert town.location_manager().is_deposed
    again = town.ask(LM, wish("r9", net__tx=1))
    assert isinstance(again, m.Declined)
    assert again.reason == "stale_lm"
    town.passes(12_000)
    assert free(town, "h2") == 30_720


def test_a_declined_offer_is_free_at_once_and_a_release_too() -> None:
    town = seed_town()
    document = offered(town.ask(LM, wish(net__tx=30_000)))
    assert town.ask(LM, m.DeclineLease(document.lease, 1)) == m.Done(document.lease)
    assert free(town, "h2") == 30_720
    assert town.ask(LM, m.AcceptLease(document.lease, 1)) == m.Lapsed(document.lease, 1)
    got = gets(town, wish("r2", net__tx=30_000))
    assert town.ask(LM, m.ReleaseLease(got.lease), SECOND) == m.UnknownLease(got.lease)
    assert town.ask(LM, m.ReleaseLease(got.lease)) == m.Done(got.lease)
    assert town.ask(at("h2"), m.ReleaseLease(got.lease)) == m.Done(got.lease)
    assert free(town, "h2") == 30_720
    assert lease(town.ask(LM, m.GetStatus(got.lease))).state == "released"


def test_many_hosts_are_asked_in_one_round_and_no_more_than_fifty() -> None:
    town = Town()
    town.location()
    for number in range(50):
        town.host(f"h{number}", BOTH, {"net.tx": 1_000 + number})
    document = offered(town.ask(LM, wish(net__tx=51_200)))
    assert (document.host, document.term("net.tx").granted) == ("h49", 1_049)
    assert sum(town.counts().values()) == 3 * 50 + 2
    for number in range(50, 60):
        town.host(f"h{number}", BOTH, {"net.tx": 1_000 + number})
    town.passes(1_000)
    before = town.count(m.Propose)
    assert offered(town.ask(LM, wish("r2", net__tx=51_200))).host == "h59"
    assert town.count(m.Propose) - before == 50


def test_f1_renewals_of_four_holders_come_to_the_fair_division() -> None:
    town = Town()
    town.location()
    town.host("h1", BOTH, {"net.tx": 100_000})
    wanted = {10_000: 10_000, 25_000: 25_000, 40_000: 32_500, 50_000: 32_500}
    agents = {amount: Address(f"a{amount}", "agent") for amount in wanted}
    leases = {amount: gets(town, wish(net__tx=amount), agents[amount]).lease for amount in wanted}
    for count in (1, 2):
        town.passes(1_000)
        for amount in wanted:
            town.send(agents[amount], LM, m.RenewLeases(count, (m.Renewal(leases[amount]),), 2000))
    granted = {
        amount: lease(town.ask(LM, m.GetStatus(leases[amount]), agents[amount])).term("net.tx").granted
        for amount in wanted
    }
    assert granted == wanted


def _templates(town: Town) -> m.Templates:
    answer = town.ask(LM, m.GetTemplates())
    assert isinstance(answer, m.Templates)
    return answer


def _with_template(request: m.RequestLease, template: str) -> LeaseRequest:
    return msgspec.structs.replace(request.request, template=template)

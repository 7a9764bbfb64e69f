"""One host's manager alone: restarts, units, draining, revocation."""

from collections.abc import Mapping
from typing import Any

import pytest
from leases.negotiation.town import AGENT, LM, NET, TTL, Town, accepts, at, gets, lease, offered, wish

from holdall.leases.negotiation import host_messages as h
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.records import HeldLease
from holdall.machine.contract import Address, Message, ProtocolViolation, Received, Save, Send
from holdall.model.terms import RequestedTerm, TemplateTerm, TermStatus, Usage
from holdall.protocols.vocabulary import UnitGrant

H1 = at("h1")
SECOND = Address("y", "agent")
GATE, UNITS = Address("h1", "gate"), Address("h1", "units")
TERMS = {"ttl": TTL, "net.tx": NET, "gpu": TemplateTerm("pool", max=4)}
STEADY = {"net": TemplateTerm("capacity", "B/s", max=100, sharing="first")}


def town_of(
    terms: Mapping[str, TemplateTerm] = TERMS, capacity: int = 100_000, name: str = "net.tx", **how: Any
) -> Town:
    town = Town()
    town.location()
    town.host("h1", terms, {name: capacity}, **how)
    return town


def free(town: Town, name: str = "net.tx") -> int:
    return town.host_manager("h1").book.allotments.free()[name]


def renew(town: Town, name: str, count: int = 1, duration: int = 2000, **terms: RequestedTerm) -> m.Renewed:
    asked = {term.replace("__", "."): one for term, one in terms.items()} or None
    answer = town.ask(H1, m.RenewLeases(count, (m.Renewal(name, asked),), duration))
    assert isinstance(answer, m.Renewed)
    return answer


# ------------------------------------------------------------ restarts


def test_a_grant_is_saved_in_the_turn_of_its_answer() -> None:
    town = town_of()
    document = offered(town.ask(LM, wish(net__tx=40)))
    manager = town.host_manager("h1")
    (hold,) = manager.book.held
    effects = manager.handle(Received(LM, m.Confirm(1, hold, document.lease)))
    saved = [one.record for one in effects if isinstance(one, Save)]
    assert any(isinstance(one, HeldLease) and one.state == "active" for one in saved)
    assert any(isinstance(one, Send) and isinstance(one.message, m.Confirmed) for one in effects)


def test_after_a_restart_leases_live_a_whole_duration_again_and_holds_are_dropped() -> None:
    town = town_of()
    got = gets(town, wish(net__tx=60_000))
    held = offered(town.ask(LM, wish("r2", duration=60_000, net__tx=10_000), SECOND))
    town.passes(1_500)
    town.dies(H1)
    town.comes_up(H1)
    assert free(town) == 40_000
    assert town.host_manager("h1").book.active() == [got.lease]
    assert town.ask(LM, m.AcceptLease(held.lease, 1), SECOND) == m.Lapsed(held.lease, 1)
    town.passes(2_030)
    assert town.host_manager("h1").book.active() == [got.lease]
    town.passes(20)
    assert town.host_manager("h1").book.active() == []
    assert lease(town.ask(LM, m.GetStatus(got.lease))).state == "expired"


def test_fences_grow_over_restarts_and_are_kept_by_renewals() -> None:
    town = town_of()
    first = gets(town, wish(net__tx=10))
    renewed = renew(town, first.lease).document
    assert renewed is not None
    assert renewed.fence == first.fence
    town.dies(H1)
    town.comes_up(H1)
    assert gets(town, wish("r2", net__tx=10), SECOND).fence > first.fence


def test_in_quarantine_nothing_is_held() -> None:
    town = town_of()
    town.dies(H1)
    town.kept[H1] = {}
    town.comes_up(H1, "lost", quarantine_ms=5_000)
    answer = town.ask(LM, wish(net__tx=10))
    assert isinstance(answer, m.Declined)
    assert answer.reason == "quarantine"
    town.passes(5_000)
    assert offered(town.ask(LM, wish("r2", net__tx=10))).host == "h1"


def test_an_old_epoch_is_refused_after_a_restart_too() -> None:
    old = Address("old", "location")
    town = town_of(managers=(LM, old))
    town.send(AGENT, LM, m.Lead(7))
    gets(town, wish(net__tx=10))
    town.dies(H1)
    town.comes_up(H1)
    assert town.ask(H1, m.Confirm(6, "h1.1.1", "L-x"), old) == m.StaleLm(7)


# ------------------------------------------------------------ confirming


def test_a_confirm_that_comes_twice_has_one_effect() -> None:
    other = Address("z", "location")
    town = town_of(managers=(LM, other))
    got = gets(town, wish(net__tx=40))
    (hold,) = town.host_manager("h1").book.held
    answer = town.ask(H1, m.Confirm(1, hold, got.lease), other)
    assert isinstance(answer, m.Confirmed)
    assert (answer.document.revision, answer.document.fence) == (1, got.fence)
    assert town.ask(H1, m.Confirm(1, "h1.9.9", "L-x"), other) == m.UnknownHold("h1.9.9")


@pytest.mark.parametrize(
    "message",
    [
        m.Revoke(99, "L-x", 0, "because"),
        m.Cancel(99, "h1.1.1"),
        m.Confirm(99, "h1.1.1", "L-x"),
        m.Welcome(99, known=False),
        h.Drained("L-x"),
        h.UnitsAre("h1.1.1", "gpu", ()),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_only_the_location_or_a_neighbour_may_say_has_no_effect_from_a_stranger(
    message: Message,
) -> None:
    town = town_of(gate=GATE, units=UNITS)
    manager = town.host_manager("h1")
    before = manager.key()
    with pytest.raises(ProtocolViolation, match="not for it to say"):
        manager.handle(Received(Address("stranger", "location"), message))
    assert manager.key() == before


def test_a_confirm_whose_selection_was_lost_counts() -> None:
    town = town_of()
    town.lost = lambda _from, _to, message: isinstance(message, m.Select)
    assert gets(town, wish(net__tx=40)).state == "active"


def test_a_hold_can_become_no_lease_that_is_there_already() -> None:
    town = town_of()
    got = gets(town, wish(net__tx=40))
    offered(town.ask(LM, wish("r2", net__tx=40), SECOND))
    hold = max(town.host_manager("h1").book.held)
    with pytest.raises(ProtocolViolation):
        town.host_manager("h1").handle(Received(LM, m.Confirm(1, hold, got.lease)))
    assert town.host_manager("h1").book.active() == [got.lease]


def test_a_message_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(ProtocolViolation):
        town_of().host_manager("h1").handle(Received(AGENT, m.GetTemplates()))


# ------------------------------------------------------------ renewal


def test_renewal_with_more_or_less() -> None:
    town = town_of()
    got = gets(town, wish(net__tx=60_000))
    more = renew(town, got.lease, net__tx=RequestedTerm(70_000)).document
    assert more is not None
    assert (more.revision, more.term("net.tx").granted, free(town)) == (2, 70_000, 30_000)
    less = renew(town, got.lease, 2, net__tx=RequestedTerm(10)).document
    assert less is not None
    assert (less.revision, less.term("net.tx").granted, free(town)) == (3, 10, 99_990)
    assert renew(town, got.lease, 3, gpu=RequestedTerm(1)).reason == "term"
    assert renew(town, got.lease, 4, net__tx=RequestedTerm(100_001)).reason == "constraint.max"
    assert renew(town, "L-none", 5).reason == "unknown"


def test_a_steady_capacity_does_not_shrink_unless_its_holder_said_how_far() -> None:
    town = town_of(STEADY, 100, "net")
    got = gets(town, wish(net=100))
    town.host_manager("h1").book.allotments.sharings["net"].capacity = 60
    worse = renew(town, got.lease)
    assert (worse.reason, worse.best_possible) == ("worse", {"net": 60})
    known = town.host_manager("h1").book.of(got.lease)
    assert known is not None
    assert (known.terms[0].granted, known.revision) == (100, 1)
    agreed = renew(town, got.lease, 2, net=RequestedTerm(100, floor=50)).document
    assert agreed is not None
    assert agreed.term("net").granted == 60


def test_a_renewal_by_another_holder_is_unknown() -> None:
    town = town_of()
    got = gets(town, wish(net__tx=10))
    for to in (LM, H1):
        answer = town.ask(to, m.RenewLeases(1, (m.Renewal(got.lease),), 2000), SECOND)
        assert answer == m.Renewed(1, got.lease, reason="unknown")


def test_a_batch_of_renewals_is_one_message_to_each_host() -> None:
    town = town_of()
    town.host("h2", TERMS, {"net.tx": 10})
    names = [gets(town, wish(f"r{number}", net__tx=30_000)).lease for number in range(3)]
    answers = town.send(AGENT, LM, m.RenewLeases(4, tuple(m.Renewal(one) for one in names), 3000))
    assert [one.lease for one in answers if isinstance(one, m.Renewed) and one.document] == names
    assert town.count(m.PassOn) == 1


def test_a_replacement_that_is_not_confirmed_leaves_the_lease_as_it_is() -> None:
    town = town_of()
    got = gets(town, wish(net__tx=60_000, duration=60_000))
    offered(town.ask(LM, wish("r2", replaces=got.lease, net__tx=90_000)))
    assert free(town) == 10_000
    offered(town.ask(LM, wish("r3", replaces=got.lease, net__tx=80_000)))
    assert free(town) == 20_000
    town.passes(11_000)
    assert free(town) == 40_000
    known = town.host_manager("h1").book.of(got.lease)
    assert known is not None
    assert (known.state, known.revision, known.terms[0].granted) == ("active", 1, 60_000)


def test_a_replacement_goes_with_its_lease() -> None:
    town = town_of()
    got = gets(town, wish(net__tx=60_000))
    again = offered(town.ask(LM, wish("r2", replaces=got.lease, net__tx=90_000)))
    town.ask(LM, m.ReleaseLease(got.lease))
    assert free(town) == 100_000
    assert town.ask(LM, m.AcceptLease(again.lease, 2)) == m.Lapsed(again.lease, 2)
    assert town.host_manager("h1").book.active() == []


# ------------------------------------------------------------ ends


def test_what_drains_counts_as_used_until_its_work_is_done() -> None:
    town = town_of(gate=GATE)
    got = gets(town, wish(net__tx=60_000))
    assert town.hears(GATE) == [h.Begin(got.lease, "x/agent", got.fence, 2000, _held(town, got.lease))]
    town.passes(2_041)
    assert town.hears(GATE) == [h.Stop(got.lease, got.fence)]
    assert free(town) == 40_000
    assert lease(town.ask(H1, m.GetStatus(got.lease))).state == "draining"
    town.send(GATE, H1, h.Drained(got.lease))
    assert free(town) == 100_000
    assert lease(town.ask(H1, m.GetStatus(got.lease))).state == "expired"


def test_what_lingers_too_long_is_cut() -> None:
    town = town_of(gate=GATE)
    got = gets(town, wish(net__tx=60_000))
    town.ask(LM, m.ReleaseLease(got.lease))
    town.passes(1_999)
    assert free(town) == 40_000
    town.passes(1)
    assert town.hears(GATE)[-1] == h.Cut(got.lease)
    assert free(town) == 100_000
    assert lease(town.ask(H1, m.GetStatus(got.lease))).state == "released"


def test_a_lease_that_drains_does_so_after_a_restart_too() -> None:
    town = town_of(gate=GATE)
    got = gets(town, wish(net__tx=60_000))
    town.ask(LM, m.ReleaseLease(got.lease))
    town.dies(H1)
    town.comes_up(H1)
    assert (free(town), town.hears(GATE)[-1]) == (40_000, h.Stop(got.lease, got.fence))
    town.passes(2_000)
    assert free(town) == 100_000


def test_a_revocation_is_told_and_comes_after_its_grace_whatever_the_holder_does() -> None:
    town = town_of()
    got = gets(town, wish(net__tx=60_000, duration=60_000))
    town.send(LM, H1, m.Revoke(1, got.lease, 3_000, "maintenance"))
    assert town.hears(AGENT)[-1] == m.Revoking(got.lease, 3_000, "maintenance")
    assert renew(town, got.lease, duration=60_000).reason == "revoking"
    town.passes(2_999)
    assert town.host_manager("h1").book.active() == [got.lease]
    town.passes(1)
    status = lease(town.ask(H1, m.GetStatus(got.lease)))
    assert (status.state, status.why, free(town)) == ("revoked", "maintenance", 100_000)


def test_a_drained_host_withdraws_offers_and_revokes_after_its_time() -> None:
    town = town_of()
    got = gets(town, wish(net__tx=60_000, duration=60_000))
    held = offered(town.ask(LM, wish("r2", net__tx=10_000), SECOND))
    town.send(Address("h1", "operator"), H1, h.Drain(5_000))
    assert free(town) == 40_000
    assert town.ask(LM, m.AcceptLease(held.lease, 1), SECOND) == m.Lapsed(held.lease, 1)
    answer = town.ask(LM, wish("r3", net__tx=1), SECOND)
    assert isinstance(answer, m.Declined)
    assert answer.reason == "no_host_supports"
    town.passes(5_000)
    assert lease(town.ask(LM, m.GetStatus(got.lease))).state == "revoked"
    town.send(Address("h1", "operator"), H1, h.Undrain())
    assert offered(town.ask(LM, wish("r4", net__tx=1), SECOND)).host == "h1"


def test_what_is_over_is_known_for_a_day() -> None:
    town = town_of(heartbeat_ms=3_600_000)
    got = gets(town, wish(net__tx=60_000))
    town.passes(86_400_000)
    assert lease(town.ask(H1, m.GetStatus(got.lease))).state == "expired"
    town.passes(10_000)
    assert town.ask(H1, m.GetStatus(got.lease)) == m.UnknownLease(got.lease)
    assert not [key for key in town.kept[H1] if key.startswith("lease/")]


# ------------------------------------------------------------ units


def with_units(*units: UnitGrant, request: m.RequestLease | None = None) -> tuple[Town, str]:
    """A town in which the claim of a hold's units is under way; and the hold."""
    town = town_of(units=UNITS)
    assert town.send(AGENT, LM, request or wish(net__tx=10, gpu=2)) == []
    (want,) = town.hears(UNITS)
    assert isinstance(want, h.WantUnits)
    assert (want.pool, want.most, want.least) == ("gpu", 2, 1)
    if units:
        town.send(UNITS, H1, h.UnitsAre(want.party, "gpu", units))
    return town, want.party


def test_units_are_claimed_at_their_pools_manager_and_named_in_the_offer() -> None:
    units = (UnitGrant("h1", "gpu", "0", 41), UnitGrant("h1", "gpu", "3", 17))
    town, hold = with_units(*units)
    (answer,) = town.hears(AGENT)
    gpu = offered(answer).term("gpu")
    assert [(one.name, one.node, one.fence) for one in gpu.units] == [("0", "h1", 41), ("3", "h1", 17)]
    assert (gpu.granted, gpu.fraction) == (2, "1")
    got = accepts(town, offered(answer))
    assert town.hears(UNITS) == [h.KeepUnits(hold)]
    renewed = renew(town, got.lease).document
    assert renewed is not None
    assert renewed.term("gpu").units == gpu.units
    town.ask(LM, m.ReleaseLease(got.lease))
    assert town.hears(UNITS) == [h.FreeUnits(hold)]


def test_fewer_units_than_asked_are_a_counter_offer() -> None:
    town, _ = with_units(UnitGrant("h1", "gpu", "0", 41))
    (answer,) = town.hears(AGENT)
    gpu = offered(answer).term("gpu")
    assert (gpu.requested, gpu.granted, gpu.fraction) == (2, 1, "1/2")


def test_without_units_nothing_else_is_held() -> None:
    town, hold = with_units()
    assert free(town) == 99_990
    town.send(UNITS, H1, h.UnitsShort(hold, "gpu", 0))
    (answer,) = town.hears(AGENT)
    assert isinstance(answer, m.Declined)
    assert (answer.reason, answer.term, answer.best_possible) == ("not_free", "gpu", {"gpu": 0})
    assert free(town) == 100_000
    assert not [key for key in town.kept[H1] if key.startswith("lease/")]


def test_units_of_a_hold_are_given_back_after_a_restart_even_while_they_are_claimed() -> None:
    town, hold = with_units()
    town.dies(H1)
    town.comes_up(H1)
    assert town.hears(UNITS) == [h.FreeUnits(hold)]
    assert free(town) == 100_000


def test_a_hold_with_units_that_lapses_gives_them_back() -> None:
    town, hold = with_units(UnitGrant("h1", "gpu", "0", 41))
    town.passes(10_001)
    assert town.hears(UNITS) == [h.FreeUnits(hold)]


# ------------------------------------------------------------ status


def test_what_the_gate_measures_is_in_the_status() -> None:
    town = town_of(gate=GATE)
    got = gets(town, wish(net__tx=100))
    measure = TermStatus(
        "net.tx",
        "capacity",
        100,
        100,
        state="ready.processing",
        guarantee="fulfilled",
        used=Usage(812, 90, 99),
        denied=4,
        enforced="process",
    )
    town.send(GATE, H1, h.Measured(got.lease, (measure,)))
    net = lease(town.ask(LM, m.GetStatus(got.lease))).term("net.tx")
    assert (net.state, net.guarantee, net.used, net.denied, net.enforced) == (
        "ready.processing",
        "fulfilled",
        Usage(812, 90, 99),
        4,
        "process",
    )
    assert net.granted == 100


def _held(town: Town, name: str) -> tuple[TermStatus, ...]:
    record = town.host_manager("h1").book.of(name)
    assert record is not None
    return record.terms

"""Requests that stand in line at a location's manager: message by message, with a clock that is moved by hand."""

from collections.abc import Sequence

import msgspec
import pytest
from leases.negotiation.town import AGENT, LM, NET, Town, accepts, all_arrive, gets, offered, wish

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Allowed, Asker, Holding, TermAsk
from holdall.leases.negotiation.settling import Kept
from holdall.leases.negotiation.waiting import LINE_MOST, WAIT_MS_MAX, Line
from holdall.machine.contract import Address, Message
from holdall.model.terms import RequestedTerm

SECOND, THIRD = Address("y", "agent"), Address("z", "agent")
NET_ALL, NET_HALF = RequestedTerm(100, 100), RequestedTerm(50, 50)


class NoLimits:
    """A policy; a manager that has one waits for its hosts when it begins."""

    def may_have(self, ask: TermAsk, holdings: Sequence[Holding]) -> Allowed:
        del ask, holdings
        return Allowed()

    def rank(self, host: str) -> int:
        del host
        return 0


def waits(name: str, wait_ms: int, **terms: object) -> m.RequestLease:
    asked = wish(name, 60_000, None, **terms)
    return m.RequestLease(msgspec.structs.replace(asked.request, wait_ms=wait_ms))


def full_town() -> Town:
    """All of net.tx is had by AGENT."""
    town = Town()
    town.location()
    town.host("h1", {"net.tx": NET}, {"net.tx": 100})
    return town


def heard(town: Town, who: Address) -> list[Message]:
    """Since it was looked at last."""
    found, town.heard[who] = list(town.heard.get(who, [])), []
    return found


def test_what_is_given_back_goes_to_the_first_in_line_and_then_to_the_next() -> None:
    town = full_town()
    held = gets(town, wish("r0", duration=600_000, net__tx=NET_ALL))
    first_told = m.Queued("r1", 1, 0, "oversubscribed", "net.tx", {"net.tx": 0})
    assert town.send(SECOND, LM, waits("r1", 60_000, net__tx=NET_ALL)) == [first_told]
    second_told = m.Queued("r2", 2, 1, "others_wait")
    assert town.send(THIRD, LM, waits("r2", 60_000, net__tx=NET_HALF)) == [second_told]
    # Asked again, it stands where it stood, and is told so.
    assert town.send(SECOND, LM, waits("r1", 60_000, net__tx=NET_ALL)) == [first_told]
    heard(town, SECOND)
    heard(town, THIRD)
    town.passes(3000)
    assert heard(town, SECOND) == heard(town, THIRD) == []
    town.send(AGENT, LM, m.ReleaseLease(held.lease))
    town.passes(1000)
    (offer,) = heard(town, SECOND)
    first = accepts(town, offered(offer), SECOND)
    heard(town, SECOND)
    assert first.term("net.tx").granted == 100
    town.passes(1000)
    assert heard(town, THIRD) == []
    town.send(SECOND, LM, m.ReleaseLease(first.lease))
    town.passes(1000)
    assert offered(heard(town, THIRD)[0]).term("net.tx").granted == 50


def test_who_may_not_wait_does_not_pass_those_who_do() -> None:
    town = full_town()
    gets(town, wish("r0", duration=600_000, net__tx=NET_HALF))
    told = m.Queued("r1", 1, 0, "oversubscribed", "net.tx", {"net.tx": 50})
    assert town.send(SECOND, LM, waits("r1", 5_000, net__tx=NET_ALL)) == [told]
    (declined,) = town.send(THIRD, LM, wish("r2", duration=60_000, net__tx=NET_HALF))
    assert isinstance(declined, m.Declined)
    assert (declined.reason, "wait_ms" in declined.text) == ("others_wait", True)
    # When the one in line has waited for so long, it is declined as it was last; then the other one may have it.
    heard(town, SECOND)
    town.passes(6_000)
    (over,) = heard(town, SECOND)
    assert isinstance(over, m.Declined)
    assert (over.reason, over.term) == ("oversubscribed", "net.tx")
    # Its wish is remembered for a while, so that is a fair part.
    assert gets(town, wish("r3", duration=60_000, net__tx=50), THIRD).term("net.tx").granted == 33


def test_who_stands_behind_is_told_where_and_for_how_many_it_waits() -> None:
    town = Town()
    town.location()
    town.host("h1", {"net.tx": NET, "disk.tx": NET}, {"net.tx": 100, "disk.tx": 100})
    gets(town, wish("r0", duration=600_000, net__tx=NET_ALL, disk__tx=NET_ALL))
    for who, name, terms in (
        (SECOND, "r1", {"net__tx": NET_ALL}),
        (SECOND, "r2", {"disk__tx": NET_ALL}),
        (THIRD, "r3", {"disk__tx": NET_ALL}),
    ):
        town.send(who, LM, waits(name, 60_000, **terms))
    heard(town, THIRD)
    asks = waits("r3", 60_000, disk__tx=NET_ALL)
    (told,) = town.send(THIRD, LM, asks)
    assert isinstance(told, m.Queued)
    assert (told.position, told.ahead, told.reason) == (3, 1, "others_wait")
    # One who wants something else leaves the line, then the one whom it waited for.
    town.send(SECOND, LM, m.LeaveLine("r1"))
    (told,) = town.send(THIRD, LM, asks)
    assert isinstance(told, m.Queued)
    assert (told.position, told.ahead) == (2, 1)
    town.send(SECOND, LM, m.LeaveLine("r2"))
    heard(town, THIRD)
    town.passes(1000)
    (told,) = town.send(THIRD, LM, asks)
    assert told == m.Queued("r3", 1, 0, "oversubscribed", "disk.tx", {"disk.tx": 0})


def test_what_can_never_be_met_and_too_long_a_wait_are_refused_at_once() -> None:
    town = full_town()
    never = town.ask(LM, waits("r1", 5_000, gpu=1))
    assert isinstance(never, m.Declined)
    assert never.reason == "no_host_supports"
    long = town.ask(LM, waits("r2", WAIT_MS_MAX + 1, net__tx=50))
    assert isinstance(long, m.Declined)
    assert (long.reason, "3,600,000 ms" in long.text) == ("request.wait", True)
    assert offered(town.ask(LM, waits("r3", WAIT_MS_MAX, net__tx=50))).term("net.tx").granted == 50


def test_a_manager_that_is_replaced_declines_who_waits() -> None:
    town = full_town()
    gets(town, wish("r0", duration=600_000, net__tx=NET_ALL))
    town.send(SECOND, LM, waits("r1", 60_000, net__tx=NET_ALL))
    heard(town, SECOND)
    epoch = town.location_manager().epoch
    town.send(Address("h1", "host"), LM, m.StaleLm(epoch + 1))
    assert heard(town, SECOND) == [m.Declined("r1", "stale_lm")]
    town.passes(61_000)
    assert heard(town, SECOND) == []


@pytest.mark.parametrize("more", [0, 1])
def test_a_line_is_bounded(more: int) -> None:
    line = Line()
    took = [
        line.joins(Kept(AGENT, Asker("x"), waits(f"r{n}", 1000, net__tx=1)), 1000, [])
        for n in range(LINE_MOST + more)
    ]
    assert took == [True] * LINE_MOST + [False] * more


def test_one_whose_node_is_gone_holds_nobody_up_for_long_and_stands_at_the_end_when_he_comes_again() -> None:
    town = full_town()
    gets(town, wish("r0", duration=600_000, net__tx=NET_HALF))
    asked, other = waits("r1", WAIT_MS_MAX, net__tx=NET_ALL), waits("r2", WAIT_MS_MAX, net__tx=NET_HALF)
    town.send(SECOND, LM, asked)
    town.send(THIRD, LM, other)
    for _ in range(40):  # both ask again and again
        town.passes(2_000)
        town.send(SECOND, LM, asked)
        town.send(THIRD, LM, other)
    assert list(town.location_manager().line.waiters) == [("y/agent", "r1"), ("z/agent", "r2")]
    heard(town, THIRD)
    for _ in range(29):
        town.passes(2_000)
        town.send(THIRD, LM, other)
    assert all(isinstance(one, m.Queued) for one in heard(town, THIRD))
    town.passes(4_000)
    assert list(town.location_manager().line.waiters) == [("z/agent", "r2")]
    # What he wanted is forgotten one duration later.
    for _ in range(31):
        town.passes(2_000)
        town.send(THIRD, LM, other)
    assert any(isinstance(one, m.Offer) for one in heard(town, THIRD))
    assert town.location_manager().line.waiters == {}
    (again,) = town.send(SECOND, LM, asked)
    assert isinstance(again, m.Queued)
    assert (again.request, again.position, again.reason) == ("r1", 1, "oversubscribed")


def test_who_gives_up_while_a_manager_has_just_begun_does_not_stand_in_line_later() -> None:
    town = Town()
    manager = town.location(policy=NoLimits())
    town.host("h1", {"net.tx": NET}, {"net.tx": 100})
    town.lost = lambda _from, _to, message: isinstance(message, m.HostHello)
    town.send(LM, LM, m.Lead(5))
    assert town.send(SECOND, LM, waits("r1", 60_000, net__tx=NET_ALL)) == []
    assert town.send(SECOND, LM, m.LeaveLine("r1")) == [m.Declined("r1", "cancelled")]
    town.lost = all_arrive
    town.passes(10_000)
    assert heard(town, SECOND) == [m.Declined("r1", "cancelled")]
    assert (manager.line.waiters, town.count(m.Propose)) == ({}, 0)

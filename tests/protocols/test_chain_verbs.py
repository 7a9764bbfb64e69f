"""The claimant's verbs: without waiting, shrink, exchange, later end, cancel in every phase."""

from __future__ import annotations

import pytest
from protocols.conversation import AGENT, Net, claim_id, need, vec

from holdall.machine.contract import Address
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.claims import Ending, Inside, Waiting
from holdall.protocols.chain.messages import Allowed, Done, EndAck, Promote, Request, ShrinkRow, Tried, Try
from holdall.protocols.chain.settling import Settings
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import (
    ClaimId,
    Ended,
    Exchange,
    Exchanged,
    ExchangeRefused,
    Extend,
    Extended,
    ExtendRefused,
    Gone,
    Granted,
    LeaseLost,
    NotNow,
    Release,
    Shrink,
    Terms,
    UnitGrant,
)

A = vec(a=1)
C1, C2, C3 = claim_id("c1"), claim_id("c2"), claim_id("c3")
EXTRA = claim_id("c1", 9)


def net_of(claimants: str = "c1 c2 c3", **pools: int) -> Net:
    return Net({node: pools or {"a": 1} for node in ("n0", "n1", "n2")}, claimants)


def granted(net: Net, claim: ClaimId, *nodes: str) -> None:
    net.acquire(claim, need(*((node, A) for node in nodes)))
    net.run()
    assert net.is_granted(claim)


def nothing_is_left(net: Net) -> bool:
    managers = [net.manager(node) for node in ("n0", "n1", "n2")]
    return not net.wire and all(
        not manager.rows and not manager.mem and not manager.counts.lines() for manager in managers
    )


# Without waiting


def test_a_claim_without_waiting_gets_all_or_tells_not_now_and_holds_nothing() -> None:
    net = net_of()
    granted(net, C2, "n1")
    net.acquire(C1, need(("n0", A), ("n1", A)), wait=False)
    net.run()
    assert net.heard["c1"] == [NotNow(C1), Ended(C1)]
    assert net.manager("n0").rows == {}
    net.release(C2)
    net.run()
    third = claim_id("c1", 3)
    net.acquire(third, need(("n0", A), ("n1", A)), wait=False)
    net.run()
    assert [unit.node for unit in net.units(third)] == ["n0", "n1"]


def test_a_no_that_comes_first_ends_the_tries_that_are_still_on_their_way() -> None:
    net = net_of()
    granted(net, C2, "n0")
    net.acquire(C1, need(("n0", A), ("n1", A)), wait=False)
    net.deliver(Try, to="n0")
    net.deliver(Tried)
    net.deliver(Done, to="n1")
    net.deliver(Try, to="n1")
    net.run()
    assert C1 not in net.manager("n1").rows
    assert net.told("c1", NotNow) == [NotNow(C1)]


def test_a_failed_try_of_a_claim_that_waits_stands_in_line_under_another_attempt() -> None:
    net = net_of()
    net.claimant("c1").try_from = 2
    granted(net, C2, "n1")
    net.acquire(C1, need(("n0", A), ("n1", A)))
    net.run()
    phase = net.claimant("c1").claims[C1]
    assert isinstance(phase, Waiting)
    assert (phase.attempt, phase.owed) == (2, ())
    net.release(C2)
    net.run()
    assert net.told("c1", Granted)[0].attempt == 2


# Shrink


def test_a_shrink_frees_a_part_at_once_and_a_shrink_to_nothing_is_a_release() -> None:
    net = net_of(a=2)
    net.acquire(C1, need(("n0", vec(a=2)), ("n1", vec(a=2))))
    net.run()
    net.verb("c1", Shrink(C1, (("n0", vec(a=1)),)))
    net.run()
    assert net.manager("n0").rows[C1].vector == vec(a=1)
    assert C1 not in net.manager("n1").rows
    phase = net.claimant("c1").claims[C1]
    assert isinstance(phase, Inside)
    assert phase.units == (UnitGrant("n0", "a", "", 0),)
    net.verb("c1", Shrink(C1, ()))
    net.run()
    assert net.told("c1", Ended) == [Ended(C1)]
    assert nothing_is_left(net)


def test_ch13_a_node_that_was_shrunk_to_nothing_makes_no_grant_void() -> None:
    """2 -> 0 gives 0 back; 1 -> 2 waits at 2 and calls it back, which n0 must not answer."""
    net = net_of()
    granted(net, C1, "n2", "n0")
    net.verb("c1", Shrink(C1, (("n2", A),)))
    net.run()
    net.acquire(C2, need(("n1", A), ("n2", A)))
    net.run()
    assert not net.is_granted(C2)
    assert net.manager("n2").rows[C1].active
    net.release(C1)
    net.run()
    assert net.is_granted(C2)


def test_a_shrink_before_the_grant_or_after_the_end_is_ignored() -> None:
    net = net_of()
    net.acquire(C1, need(("n0", A)))
    net.verb("c1", Shrink(C1, ()))
    net.run()
    assert net.is_granted(C1)
    net.release(C1)
    net.verb("c1", Shrink(C1, ()))
    net.run()
    assert net.told("c1", Ended) == [Ended(C1)]


def test_a_shrink_is_said_again_with_every_renewal_to_other_nodes() -> None:
    net = Net(
        {"n0": {"a": 2}},
        "c1",
        make_claimant=lambda node: Claimant(node, Address(node, AGENT), repeat_ms=100),
    )
    net.acquire(C1, need(("n0", vec(a=2))))
    net.run()
    net.verb("c1", Shrink(C1, (("n0", A),)))
    net.lose(ShrinkRow)
    net.fire("c1", f"claimant!repeat/{C1}")
    net.run()
    assert net.manager("n0").rows[C1].vector == A


# Exchange


def test_ch18_an_exchange_adds_first_and_drops_when_all_nodes_said_yes() -> None:
    net = net_of(a=1, b=1)
    granted(net, C1, "n0")
    net.verb("c1", Exchange(C1, EXTRA, need(("n1", vec(b=1))), (("n0", A),)))
    net.deliver(Try)
    assert net.manager("n0").rows[C1].vector == A
    net.run()
    assert net.told("c1", Exchanged) == [Exchanged(C1, (UnitGrant("n1", "b", "", 0),))]
    assert C1 not in net.manager("n0").rows
    net.release(C1)
    net.run()
    assert net.told("c1", Ended) == [Ended(C1)]
    assert nothing_is_left(net)


def test_ch18_a_refused_exchange_leaves_the_lease_as_it_was() -> None:
    net = net_of()
    granted(net, C1, "n0")
    granted(net, C2, "n1")
    before = net.manager("n0").rows[C1]
    net.verb("c1", Exchange(C1, EXTRA, need(("n1", A)), (("n0", A),)))
    net.run()
    assert net.told("c1", ExchangeRefused) == [ExchangeRefused(C1)]
    assert net.manager("n0").rows[C1] == before
    assert EXTRA not in net.claimant("c1").claims
    net.release(C1)
    net.run()
    assert net.told("c1", Ended) == [Ended(C1)]


@pytest.mark.parametrize("deliveries", range(4))
def test_ch18_a_holder_that_ends_during_the_exchange_ends_both(deliveries: int) -> None:
    net = net_of()
    granted(net, C1, "n0")
    net.verb("c1", Exchange(C1, EXTRA, need(("n1", A), ("n2", A)), (("n0", A),)))
    for _ in range(deliveries):
        net.arrive(0)
    net.release(C1)
    net.run()
    assert net.told("c1", Ended) == [Ended(C1)]
    assert net.told("c1", Exchanged) == []
    assert nothing_is_left(net)


def test_an_exchange_without_anything_to_add_is_a_shrink_and_one_without_a_grant_is_refused() -> None:
    net = net_of(a=2)
    net.acquire(C1, need(("n0", vec(a=2))))
    net.verb("c1", Exchange(C1, EXTRA, need(("n1", A)), ()))
    assert net.told("c1", ExchangeRefused) == [ExchangeRefused(C1)]
    net.run()
    net.verb("c1", Exchange(C1, EXTRA, (), (("n0", A),)))
    net.run()
    assert net.manager("n0").rows[C1].vector == A


def test_after_an_exchange_a_shrink_and_a_later_end_reach_the_companion_too() -> None:
    net = net_of(a=2)
    granted(net, C1, "n0")
    net.verb("c1", Exchange(C1, EXTRA, need(("n0", A), ("n1", vec(a=2))), ()))
    net.run()
    net.verb("c1", Extend(C1, 90_000))
    net.run()
    assert net.told("c1", Extended) == [Extended(C1, 90_000)]
    assert net.manager("n1").rows[EXTRA].terms.for_ms == 90_000
    net.verb("c1", Shrink(C1, (("n0", vec(a=2)), ("n1", A))))
    net.run()
    assert net.manager("n1").rows[EXTRA].vector == A
    assert net.manager("n0").rows[C1].vector == A


# Later end


def test_a_later_end_is_told_when_every_node_has_it() -> None:
    net = net_of()
    granted(net, C1, "n0", "n1")
    net.verb("c1", Extend(C1, 90_000))
    net.arrive(0)
    assert net.told("c1", Extended) == []
    net.run()
    assert net.told("c1", Extended) == [Extended(C1, 90_000)]
    assert {net.manager(node).rows[C1].terms.for_ms for node in ("n0", "n1")} == {90_000}


def test_a_later_end_that_a_node_refuses_leaves_the_old_one() -> None:
    net = net_of()
    granted(net, C1, "n0", "n1")

    def never(claim: ClaimId, attempt: int, for_ms: int, out: Effects) -> bool:
        return False

    net.manager("n1").book.extend = never  # type: ignore[method-assign]
    net.verb("c1", Extend(C1, 90_000))
    net.run()
    assert net.told("c1", Extended) == []
    assert net.told("c1", ExtendRefused) == [ExtendRefused(C1, 90_000)]
    phase = net.claimant("c1").claims[C1]
    assert isinstance(phase, Inside)
    assert (phase.plan.terms.for_ms, phase.extending, phase.unextended) == (None, None, ())


def test_a_later_end_of_a_claim_that_is_not_granted_is_refused() -> None:
    net = net_of()
    net.verb("c1", Extend(C1, 90_000))
    assert net.heard["c1"] == [ExtendRefused(C1, 90_000)]


# Cancel, loss


@pytest.mark.parametrize("count", range(12))
@pytest.mark.parametrize("try_from", [2, 9])
def test_a_cancel_after_any_number_of_messages_leaves_nothing(count: int, try_from: int) -> None:
    net = net_of()
    net.claimant("c1").try_from = try_from
    net.acquire(C1, need(("n0", A), ("n1", A), ("n2", A)))
    for _ in range(min(count, 12)):
        if net.wire:
            net.arrive(0)
    net.release(C1)
    net.release(C1)
    net.run()
    assert net.told("c1", Ended) == [Ended(C1)]
    assert net.told("c1", Gone) == []
    assert net.claimant("c1").claims == {}
    assert net.disks["c1"] == {}
    assert nothing_is_left(net)


def test_a_cancel_of_an_unknown_claim_is_ignored() -> None:
    net = net_of()
    net.verb("c1", Release(C1))
    assert net.wire == []
    assert net.heard["c1"] == []


def test_a_lost_lease_ends_the_claim_as_a_whole_and_lets_a_waiting_one_come_again() -> None:
    net = net_of()
    granted(net, C1, "n0", "n1")
    net.acquire(C2, need(("n1", A)))
    net.run()
    net.verb("c2", LeaseLost(C2, "deadline"))
    net.run()
    assert net.manager("n1").rows[C2].attempt == 2
    net.verb("c1", LeaseLost(C1, "deadline"))
    net.run()
    assert net.heard["c1"][-2:] == [Gone(C1, "deadline"), Ended(C1)]
    assert net.is_granted(C2)


def test_a_late_grant_of_an_attempt_that_is_over_is_no_grant() -> None:
    net = net_of()
    net.acquire(C1, need(("n0", A)))
    net.deliver(Request)
    net.release(C1)
    net.deliver(Allowed)
    assert net.told("c1", Granted) == []
    assert isinstance(net.claimant("c1").claims[C1], Ending)
    net.run()
    assert nothing_is_left(net)


def test_doubled_messages_change_nothing() -> None:
    net = net_of()
    net.acquire(C1, need(("n0", A), ("n1", A)))
    for kind in (Request, Promote, Allowed):
        place = next(place for place, letter in enumerate(net.wire) if isinstance(letter[2], kind))
        net.wire.append(net.wire[place])
        net.deliver(kind)
    net.run()
    assert len(net.told("c1", Granted)) == 1
    net.release(C1)
    place = next(place for place, letter in enumerate(net.wire) if isinstance(letter[2], Done))
    net.wire.append(net.wire[place])
    net.run()
    assert net.in_flight(EndAck) == []
    assert net.told("c1", Ended) == [Ended(C1)]
    assert nothing_is_left(net)


def test_all_claims_of_one_node_share_one_claimant_and_do_not_disturb_each_other() -> None:
    net = Net({"n0": {"a": 3}}, settings=Settings())
    claims = [claim_id("n0", counter) for counter in range(1, 6)]
    for claim in claims:
        net.acquire(claim, need(("n0", A)), terms=Terms(holder="x"))
    assert [net.is_granted(claim) for claim in claims] == [True, True, True, False, False]
    for claim in claims:
        net.release(claim)
    assert net.told("n0", Ended) == [Ended(claim) for claim in claims]
    assert net.disks["n0"] == {}
    assert net.frames == 0

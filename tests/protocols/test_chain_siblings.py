"""Placements of one claim on several nodes: the first that is granted wins."""

from __future__ import annotations

import pytest
from protocols.conversation import Net, claim_id, need, vec

from holdall.machine.contract import ProtocolViolation
from holdall.protocols.chain.claims import family_of, sibling
from holdall.protocols.chain.messages import Allowed, Done
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Ended,
    Granted,
    NotNow,
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


def test_ch19_of_siblings_on_three_nodes_one_is_kept_and_the_others_units_are_free_after_one_round_trip() -> (
    None
):
    net = net_of()
    net.acquire(C1, need(("n0", A)), siblings=(need(("n1", A)), need(("n2", A))))
    assert net.run() == 4  # requests, grants, ends, acknowledgements
    assert [grant.claim for grant in net.told("c1", Granted)] == [C1]
    assert [node for node in ("n0", "n1", "n2") if net.manager(node).rows] == ["n0"]
    assert net.told("c1", Ended) == []
    net.release(C1)
    net.run()
    assert net.told("c1", Ended) == [Ended(C1)]
    assert nothing_is_left(net)


def test_ch19_the_sibling_that_is_granted_first_wins_whichever_it_is() -> None:
    net = net_of()
    for claim, node in ((C2, "n0"), (C3, "n1")):
        granted(net, claim, node)
    net.acquire(C1, need(("n0", A)), siblings=(need(("n1", A)),))
    net.run()
    net.release(C3)
    net.deliver(Done, to="n1")
    net.release(C2)
    net.deliver(Done, to="n0")
    net.deliver(Allowed, claim=sibling(C1, 1))
    net.deliver(Allowed, claim=C1)
    assert [unit.node for unit in net.units(C1)] == ["n1"]
    net.run()
    assert net.manager("n0").rows == {}
    net.release(C1)
    net.run()
    assert net.told("c1", Ended) == [Ended(C1)]


def test_a_claim_with_siblings_that_is_cancelled_ends_once_for_all() -> None:
    net = net_of()
    for claim, node in ((C2, "n0"), (C3, "n1")):
        granted(net, claim, node)
    net.acquire(C1, need(("n0", A)), siblings=(need(("n1", A)),))
    net.run()
    net.release(C1)
    net.run()
    assert net.told("c1", Ended) == [Ended(C1)]


def test_siblings_without_waiting_tell_not_now_only_when_none_is_left() -> None:
    net = net_of()
    granted(net, C2, "n0")
    net.acquire(C1, need(("n0", A)), wait=False, siblings=(need(("n1", A)),))
    net.run()
    assert [unit.node for unit in net.units(C1)] == ["n1"]
    assert net.told("c1", NotNow) == []
    third = claim_id("c3")
    net.acquire(third, need(("n0", A)), wait=False, siblings=(need(("n1", A)),))
    net.run()
    assert net.told("c3", NotNow) == [NotNow(third)]


def test_of_placements_over_several_nodes_one_waits_at_a_time_and_three_times_it_changes_with_its_age_kept() -> (
    None
):
    net = net_of()
    granted(net, C2, "n0")
    places = (need(("n0", A), ("n1", A)), need(("n0", A), ("n2", A)))
    net.acquire(C1, places[0], siblings=(places[1],))
    net.run()
    timer = f"claimant!patience/{C1}"
    stamp = net.manager("n0").rows[C1].stamp
    assert sibling(C1, 1) not in net.claimant("c1").claims
    for change in range(1, 4):
        net.fire("c1", timer)
        net.run()
        row = net.manager("n0").rows[C1]
        assert (row.attempt, row.stamp, row.need) == (1 + change, stamp, places[change % 2])
    assert timer not in net.timers["c1"]
    net.release(C2)
    net.run()
    assert [unit.node for unit in net.units(C1)] == ["n0", "n2"]
    net.release(C1)
    net.run()
    assert nothing_is_left(net)


def test_ids_of_siblings_are_their_own_and_lead_back_to_the_claim() -> None:
    ids = [sibling(C1, number) for number in range(4)]
    assert len(set(ids)) == 4
    assert {family_of(member) for member in ids} == {C1}


def test_more_than_four_placements_or_a_claim_that_was_started_before_are_refused() -> None:
    net = net_of()
    place = need(("n0", A))
    with pytest.raises(ProtocolViolation, match="1 to 4 placements"):
        net.verb("c1", Acquire(C1, place, siblings=(place,) * 4))
    net.acquire(C1, place)
    with pytest.raises(ProtocolViolation, match="started before"):
        net.acquire(C1, place)

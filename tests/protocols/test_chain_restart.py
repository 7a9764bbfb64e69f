"""Crashes and restarts of nodes: what goes on, what comes again, and with which age."""

from __future__ import annotations

import pytest
from protocols.conversation import AGENT, Net, claim_id, need, vec

from holdall.machine.contract import Address, Boot
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.claims import Ending, Inside, Waiting
from holdall.protocols.chain.messages import (
    Allowed,
    Done,
    EndAck,
    Kill,
    Promote,
    Queued,
    Refused,
    Request,
    Tried,
    Try,
)
from holdall.protocols.chain.settling import Settings
from holdall.protocols.vocabulary import Ended, Gone, Granted, LeaseLost, NotNow, Retrying, Stamp

A = vec(a=1)
C1, C2, C3 = claim_id("c1"), claim_id("c2"), claim_id("c3")
SAME = Boot("same", 1, 2)
REBOOT = Boot("reboot", 2, 2)


def repeating(node: str) -> Claimant:
    return Claimant(node, Address(node, AGENT), repeat_ms=100)


def net_of(claimants: str = "c1 c2 c3", **pools: int) -> Net:
    return Net(
        {"n0": pools or {"a": 1}, "n1": {"a": 1}},
        claimants,
        settings=Settings(repeat_ms=100),
        make_claimant=repeating,
    )


def fire_all(net: Net) -> None:
    """Every timer that repeats something fires once, and everything arrives."""
    for node in sorted(net.hosts):
        for timer in sorted(net.timers[node]):
            if timer.startswith(("manager!promote/", "claimant!repeat/")):
                net.fire(node, timer)
    net.run()


def test_a_manager_that_died_goes_on_with_holders_waiters_and_their_order() -> None:
    net = net_of()
    for claim in (C1, C2, C3):
        net.acquire(claim, need(("n0", A)))
        net.run()
    before = dict(net.manager("n0").rows)
    net.restart("n0", SAME)
    assert net.manager("n0").rows == before
    assert net.manager("n0").epoch == 1
    net.release(C1)
    net.run()
    assert net.is_granted(C2)
    assert not net.is_granted(C3)


def test_ch15_after_a_crash_with_all_messages_lost_everything_is_repeated() -> None:
    net = net_of()
    net.acquire(C1, need(("n0", A), ("n1", A)))
    net.deliver(Request)
    net.lose(Promote)
    net.restart("n0", SAME)
    assert [message.claim for message in net.in_flight(Promote)] == [C1]
    net.lose(Promote)
    fire_all(net)
    assert net.is_granted(C1)


def test_ch15_a_lost_grant_is_repeated() -> None:
    net = net_of()
    net.acquire(C1, need(("n0", A)))
    net.deliver(Request)
    net.lose(Allowed)
    net.restart("n0", SAME)
    fire_all(net)
    assert net.is_granted(C1)
    assert not net.timers["c1"]


def test_ch15_a_lost_kill_is_repeated() -> None:
    net = net_of()
    net.acquire(C3, need(("n1", A)))
    net.run()
    net.acquire(C2, need(("n0", A), ("n1", A)), stamp=Stamp(5, "n0", C2, 1))
    net.run()
    net.acquire(C1, need(("n0", A)), stamp=Stamp(1, "n0", C1, 1))
    net.deliver(Request)
    net.lose(Kill)
    net.restart("n0", SAME)
    net.run()
    assert net.is_granted(C1)


def test_ch15_a_lost_end_is_repeated_until_it_is_acknowledged() -> None:
    net = net_of()
    net.acquire(C1, need(("n0", A)))
    net.run()
    net.release(C1)
    net.lose(Done)
    fire_all(net)
    assert net.told("c1", Ended) == [Ended(C1)]
    net.acquire(C2, need(("n0", A)))
    net.run()
    net.release(C2)
    net.deliver(Done)
    net.lose(EndAck)
    fire_all(net)
    assert net.told("c2", Ended) == [Ended(C2)]
    assert not net.timers["c2"]


def test_ch16_a_reboot_that_drops_the_queue_keeps_holders_and_waiters_come_again_in_the_same_order() -> None:
    net = net_of("c1 c2 c3 c4")
    c4 = claim_id("c4")
    for claim in (C1, C2, C3):
        net.acquire(claim, need(("n0", A)))
        net.run()
    net.restart("n0", REBOOT)
    manager = net.manager("n0")
    assert list(manager.rows) == [C1]
    assert manager.epoch == 2
    # a newcomer that knows nothing of it comes first, and stands behind them all the same
    net.acquire(c4, need(("n0", A)))
    net.run()
    fire_all(net)
    assert net.told("c2", Retrying) == [Retrying(C2, "n0", 0)]
    for holder, following in ((C1, C2), (C2, C3), (C3, c4)):
        assert net.is_granted(holder)
        assert not net.is_granted(following)
        net.release(holder)
        net.run()
    assert net.is_granted(c4)
    net.release(c4)
    net.run()
    assert manager.rows == {}


def test_ch16_a_claim_that_holds_a_kept_row_goes_on_although_its_node_has_another_epoch() -> None:
    net = net_of()
    net.acquire(C1, need(("n1", A)))
    net.run()
    net.acquire(C2, need(("n0", A), ("n1", A)))
    net.run()
    net.restart("n0", REBOOT)
    net.run()
    assert net.manager("n0").rows[C2].active
    net.release(C1)
    net.run()
    assert net.is_granted(C2)


def test_a_kill_from_another_epoch_works_on_a_kept_row() -> None:
    net = net_of()
    net.acquire(C3, need(("n1", A)))
    net.run()
    net.acquire(C2, need(("n0", A), ("n1", A)), stamp=Stamp(5, "n0", C2, 1))
    net.run()
    net.restart("n0", REBOOT)
    net.run()
    net.acquire(C1, need(("n0", A)), stamp=Stamp(1, "n0", C1, 1))
    net.run()
    assert net.is_granted(C1)
    assert not net.manager("n0").rows[C2].active


def test_a_node_that_lost_everything_grants_nothing_before_its_quarantine_ends() -> None:
    net = net_of()
    net.acquire(C1, need(("n0", A)))
    net.run()
    net.disks["n0"].clear()
    net.restart("n0", Boot("lost", 7, 2, quarantine_ms=5_000))
    net.acquire(C2, need(("n0", A)))
    net.acquire(C3, need(("n0", A)), wait=False)
    net.run()
    assert net.told("c2", Retrying)[-1] == Retrying(C2, "n0", 5_000)
    assert net.told("c3", NotNow) == [NotNow(C3)]
    assert net.manager("n0").rows == {}
    # the holder's deadline comes first: it has stopped when the quarantine ends
    net.verb("c1", LeaseLost(C1, "deadline"))
    assert net.told("c1", Gone) == [Gone(C1, "deadline")]
    net.fire("n0", "manager!quarantine")
    net.run()
    assert net.is_granted(C2)
    assert net.told("c1", Ended) == [Ended(C1)]


def test_a_refused_claim_comes_by_itself_when_the_end_of_the_quarantine_is_not_heard() -> None:
    net = net_of()
    net.restart("n0", Boot("lost", 7, 2, quarantine_ms=5_000))
    net.acquire(C2, need(("n0", A)))
    net.run()
    net.fire("n0", "manager!quarantine")
    net.lose(Refused)
    net.fire("c2", f"claimant!retry/{C2}")
    net.run()
    assert net.is_granted(C2)
    net.release(C2)
    net.run()
    assert net.told("c2", Ended) == [Ended(C2)]


def test_a_claim_further_on_that_meets_another_epoch_ends_everywhere_and_comes_again_with_its_age() -> None:
    net = net_of()
    net.acquire(C1, need(("n0", A), ("n1", A)))
    net.restart("n1", REBOOT)
    net.deliver(Request)
    stamp = net.manager("n0").rows[C1].stamp
    net.deliver(Promote)
    net.deliver(Refused)
    phase = net.claimant("c1").claims[C1]
    assert isinstance(phase, Waiting)
    assert (phase.attempt, phase.stamp) == (2, stamp)
    net.run()
    assert net.is_granted(C1)
    granted = net.told("c1", Granted)[-1]
    assert (granted.attempt, granted.stamp) == (2, stamp)


@pytest.mark.parametrize("told", [True, False])
def test_a_claimant_that_died_while_it_waited_asks_again(told: bool) -> None:
    net = net_of()
    net.acquire(C1, need(("n0", A)))
    net.run()
    net.acquire(C2, need(("n0", A)))
    net.deliver(Request)
    if told:
        net.deliver(Queued)
    net.restart("c2", SAME)
    net.run()
    phase = net.claimant("c2").claims[C2]
    assert isinstance(phase, Waiting)
    net.release(C1)
    net.run()
    assert net.is_granted(C2)


def test_a_claimant_that_died_inside_is_inside_and_one_that_died_ending_ends_again() -> None:
    net = net_of()
    net.acquire(C1, need(("n0", A)))
    net.run()
    net.restart("c1", SAME)
    assert isinstance(net.claimant("c1").claims[C1], Inside)
    assert net.wire == []
    net.release(C1)
    net.lose(Done)
    net.restart("c1", SAME)
    assert isinstance(net.claimant("c1").claims[C1], Ending)
    net.run()
    assert net.told("c1", Ended) == [Ended(C1)]
    assert net.disks["c1"] == {}


def test_a_claimant_that_died_while_trying_asks_all_nodes_again() -> None:
    net = net_of()
    net.acquire(C1, need(("n0", A), ("n1", A)), wait=False)
    net.deliver(Try)
    net.deliver(Tried)
    net.restart("c1", SAME)
    net.run()
    assert net.is_granted(C1)
    assert len(net.units(C1)) == 2


def test_a_false_expiry_of_a_waiting_claim_makes_it_come_again_and_of_a_granted_one_ends_it() -> None:
    net = net_of()
    net.acquire(C1, need(("n1", A)))
    net.run()
    net.acquire(C2, need(("n0", A), ("n1", A)))
    net.run()
    stamp = net.manager("n0").rows[C2].stamp
    net.departed("n0", C2)
    net.run()
    assert net.told("c2", Retrying) == [Retrying(C2, "n0", 0)]
    assert net.manager("n0").rows[C2].stamp == stamp
    net.release(C1)
    net.run()
    assert net.is_granted(C2)
    net.departed("n1", C2)
    net.run()
    assert net.told("c2", Gone) == [Gone(C2, "expired")]
    assert net.told("c2", Ended) == [Ended(C2)]
    assert net.manager("n0").rows == {}


def test_passes_since_the_last_write_come_back_with_a_restart() -> None:
    net = net_of("c1 c2 c3", a=1, b=1)
    net.acquire(C1, need(("n0", A)))
    net.run()
    net.acquire(C2, need(("n0", vec(a=1, b=1))))
    net.run()
    net.acquire(C3, need(("n0", vec(b=1))))
    net.run()
    assert net.manager("n0").rows[C2].left == 7
    net.restart("n0", SAME)
    assert net.manager("n0").rows[C2].left == 8

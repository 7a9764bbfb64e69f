"""Claims that stand in each other's way over several nodes: who is called back, and what races there are."""

from protocols.conversation import Net, claim_id, need, vec

from holdall.machine.contract import Boot
from holdall.protocols.chain.messages import Allowed, Done, Kill, Killed, Promote, Request
from holdall.protocols.chain.rows import Killing
from holdall.protocols.chain.settling import Settings
from holdall.protocols.vocabulary import Stamp

A = vec(a=1)
OLD, YOUNG, THIRD = claim_id("c1"), claim_id("c2"), claim_id("c3")


def crossed() -> Net:
    """Two claims have the first of two nodes each, and are on the way to the other's."""
    net = Net({"n0": {"a": 1}, "n1": {"a": 1}}, "c1 c2 c3")
    net.acquire(OLD, need(("n0", A), ("n1", A)), stamp=Stamp(1, "n0", OLD, 1))
    net.acquire(YOUNG, need(("n1", A), ("n0", A)), stamp=Stamp(2, "n1", YOUNG, 1))
    net.deliver(Request)
    net.deliver(Request)
    return net


def test_ch7_of_two_that_hold_what_the_other_wants_exactly_the_younger_is_called_back() -> None:
    net = crossed()
    net.deliver(Promote, to="n1")
    assert [message.claim for message in net.in_flight(Kill)] == [YOUNG]
    net.deliver(Promote, to="n0")
    assert [message.claim for message in net.in_flight(Kill)] == [YOUNG]
    left = net.manager("n1").rows[YOUNG].left
    net.run()
    assert net.is_granted(OLD)
    assert not net.is_granted(YOUNG)
    waiting = net.manager("n1").rows[YOUNG]
    assert (waiting.stamp, waiting.left, waiting.active) == (Stamp(2, "n1", YOUNG, 1), left, False)
    net.release(OLD)
    net.run()
    assert net.is_granted(YOUNG)


def test_ch8_a_kill_runs_back_over_the_node_in_the_middle_and_frees_it() -> None:
    net = Net({f"n{place}": {"a": 1} for place in range(3)}, "c1 c2")
    # the younger one has n1 and n2 and waits at n0; the older one has n0 and comes to n1
    net.acquire(OLD, need(("n0", A), ("n1", A), ("n2", A)), stamp=Stamp(1, "n0", OLD, 1))
    net.acquire(YOUNG, need(("n1", A), ("n2", A), ("n0", A)), stamp=Stamp(2, "n1", YOUNG, 1))
    net.deliver(Request)
    net.deliver(Request)
    net.deliver(Promote, to="n2")
    net.deliver(Promote, to="n0")
    net.deliver(Promote, to="n1")
    net.deliver(Kill, to="n2")
    assert net.manager("n2").rows[YOUNG].kill is Killing.BEFORE
    net.deliver(Kill, to="n0")
    net.deliver(Killed, to="n2")
    assert YOUNG not in net.manager("n2").rows
    assert net.manager("n2").mem[YOUNG].n == 1
    net.run()
    assert net.is_granted(OLD)
    net.release(OLD)
    net.run()
    assert net.is_granted(YOUNG)


def test_ch9_a_kill_that_overtakes_its_promote_makes_it_void() -> None:
    net = crossed()
    net.deliver(Promote, to="n1")
    net.deliver(Kill, to="n0")
    assert YOUNG not in net.manager("n0").rows
    net.deliver(Killed, to="n1")
    assert net.manager("n1").rows[OLD].active
    net.deliver(Promote, to="n0")
    assert YOUNG not in net.manager("n0").rows
    net.run()
    net.release(OLD)
    net.run()
    assert net.is_granted(YOUNG)


def test_ch10_a_kill_that_meets_a_grant_comes_to_nothing() -> None:
    net = Net({"n0": {"a": 1}, "n1": {"a": 1}}, "c1 c2")
    net.acquire(YOUNG, need(("n1", A), ("n0", A)), stamp=Stamp(2, "n1", YOUNG, 1))
    net.deliver(Request)
    net.deliver(Promote, to="n0")
    net.acquire(OLD, need(("n1", A)), stamp=Stamp(1, "n1", OLD, 1))
    net.deliver(Request)
    assert [message.claim for message in net.in_flight(Kill)] == [YOUNG]
    assert [message.claim for message in net.in_flight(Allowed)] == [YOUNG]
    net.run()
    assert net.is_granted(YOUNG)
    assert not net.is_granted(OLD)
    assert net.manager("n0").rows[YOUNG].active
    net.release(YOUNG)
    net.run()
    assert net.is_granted(OLD)


def test_ch12_a_claim_that_holds_nothing_calls_back_who_stands_before_what_is_kept_for_it() -> None:
    """Three claims; the oldest holds nothing, and others wait behind what is kept for it."""
    net = Net(
        {"n0": {"a": 1, "b": 1}, "n1": {"a": 1}}, "c1 c2 c3", settings=Settings(passes=0, passes_per_ahead=0)
    )
    first, second, third = OLD, YOUNG, THIRD
    net.acquire(third, need(("n0", A), ("n1", A)), stamp=Stamp(3, "n0", third, 1))
    net.deliver(Request)
    net.acquire(second, need(("n1", A), ("n0", vec(b=1))), stamp=Stamp(2, "n1", second, 1))
    net.deliver(Request)
    net.acquire(first, need(("n0", vec(a=1, b=1))), stamp=Stamp(1, "n0", first, 1))
    net.deliver(Request)
    # n0: a is third's, b is free and kept for first; second comes for b and must wait behind it
    assert [message.claim for message in net.in_flight(Kill)] == [third]
    net.run()
    for claim in (first, second, third):
        assert net.is_granted(claim)
        net.release(claim)
        net.run()


def test_ch14_a_kill_for_an_epoch_that_is_gone_is_not_answered() -> None:
    net = Net({"n0": {"a": 1}, "n1": {"a": 1}, "n2": {"a": 1}}, "c1 c2")
    net.acquire(YOUNG, need(("n0", A), ("n1", A)), stamp=Stamp(2, "n0", YOUNG, 1))
    net.run()
    assert net.is_granted(YOUNG)
    net.disks["n1"].clear()
    net.restart("n1", Boot("lost", 9, 2, quarantine_ms=1000))
    net.acquire(OLD, need(("n0", A)), stamp=Stamp(1, "n0", OLD, 1))
    net.run()
    # n0 asked n1's new epoch to call the younger one back: no answer, so n0 keeps what was granted
    assert net.manager("n0").rows[YOUNG].active
    assert not net.is_granted(OLD)
    net.release(YOUNG)
    net.run()
    assert net.is_granted(OLD)


def test_ch17_a_unit_taken_out_while_an_old_claim_waits_calls_back_the_younger_one_that_has_the_other() -> (
    None
):
    net = Net({"n0": {"a": 2, "b": 1}, "n1": {"a": 1}}, "c1 c2 c3")
    holder = claim_id("c3", 2)
    net.acquire(THIRD, need(("n1", A)))
    net.acquire(holder, need(("n0", vec(b=1))))
    net.run()
    net.acquire(YOUNG, need(("n0", A), ("n1", A)), stamp=Stamp(5, "n0", YOUNG, 1))
    net.acquire(OLD, need(("n0", vec(a=1, b=1))), stamp=Stamp(4, "n0", OLD, 1))
    net.run()
    assert not net.manager("n0").counts.blocked(net.manager("n0").rows[OLD], "a")
    assert net.manager("n0").rows[YOUNG].kill is Killing.NO
    net.capacity("n0", "a", 1)
    assert [message.claim for message in net.in_flight(Kill)] == [YOUNG]
    net.release(holder)
    net.run()
    assert net.is_granted(OLD)
    assert not net.is_granted(YOUNG)
    net.release(THIRD)
    net.release(OLD)
    net.run()
    assert net.is_granted(YOUNG)


def test_a_claim_that_waits_and_is_cancelled_frees_its_nodes_and_late_messages_change_nothing() -> None:
    net = crossed()
    net.release(OLD)
    net.deliver(Done, to="n1")
    net.deliver(Promote, to="n1")
    assert OLD not in net.manager("n1").rows
    net.run()
    assert net.is_granted(YOUNG)
    net.release(YOUNG)
    net.run()
    assert all(not net.manager(node).rows for node in ("n0", "n1"))

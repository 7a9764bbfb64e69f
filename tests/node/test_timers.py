"""The heap of deadlines."""

from holdall.machine.contract import CancelTimer, SetTimer
from holdall.node.timers import Timers


def test_timers_come_due_in_the_order_of_their_deadlines_and_once() -> None:
    timers = Timers()
    timers.apply({"m!b": SetTimer("b", 20), "m!a": SetTimer("a", 10), "m!c": SetTimer("c", 30)}, 1000)
    assert timers.next_ms() == 1010
    assert timers.take_due(1009, most=9) == []
    assert timers.take_due(1020, most=9) == ["m!a", "m!b"]
    assert timers.take_due(1020, most=9) == []
    assert timers.next_ms() == 1030


def test_setting_a_timer_again_replaces_it_and_cancelling_forgets_it() -> None:
    timers = Timers()
    timers.apply({"m!a": SetTimer("a", 10), "m!b": SetTimer("b", 10)}, 0)
    timers.apply({"m!a": SetTimer("a", 50), "m!b": CancelTimer("b"), "m!x": CancelTimer("x")}, 5)
    assert timers.take_due(54, most=9) == []
    assert timers.take_due(55, most=9) == ["m!a"]
    assert timers.next_ms() is None
    assert len(timers) == 0


def test_a_turn_takes_a_bounded_number_of_timers() -> None:
    timers = Timers()
    timers.apply({f"m!{n}": SetTimer(str(n), n) for n in range(10)}, 0)
    assert timers.take_due(100, most=4) == ["m!0", "m!1", "m!2", "m!3"]
    assert len(timers) == 6


def test_the_spread_is_drawn_within_its_bounds() -> None:
    seen: set[int] = set()
    for _ in range(200):
        timers = Timers()
        timers.apply({"m!a": SetTimer("a", 10, spread_ms=3)}, 0)
        seen.add(timers.next_ms() or 0)
    assert seen == {10, 11, 12, 13}


def test_a_hundred_thousand_renewals_leave_a_small_heap() -> None:
    timers = Timers()
    for now in range(100_000):
        timers.apply({"m!ttl": SetTimer("ttl", 30_000)}, now)
    assert len(timers._heap) < 200
    assert timers.next_ms() == 99_999 + 30_000

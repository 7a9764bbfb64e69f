"""What was used of a rate, and whether the promise was kept."""

from hypothesis import given
from hypothesis import strategies as st

from holdall.leases.buckets import NS
from holdall.leases.meter import Meter
from holdall.model.terms import Usage


def test_before_a_whole_second_was_demanded_nothing_is_determined() -> None:
    meter = Meter(1_000, 0)
    assert meter.status(0) == (Usage(), "ready.idle", "not_determined")
    meter.offered(400, NS // 2)
    meter.left(400, NS // 2)
    assert meter.status(NS // 2) == (Usage(400, 400, 400), "ready.processing", "not_determined")
    assert meter.status(3 * NS) == (Usage(400, 0, 400), "ready.idle", "not_determined")


def test_a_demanded_second_is_kept_or_violated_at_95_percent() -> None:
    for sent, guarantee, violated in ((950, "fulfilled", 0), (949, "violated", 1)):
        meter = Meter(1_000, 0)
        meter.offered(1_000, 0)
        meter.left(sent, NS - 1)
        assert meter.status(NS - 1)[2] == "not_determined"
        assert meter.status(NS)[2] == guarantee
        assert meter.violated_s == violated


def test_the_state_is_that_of_the_last_second_and_violations_are_counted() -> None:
    meter = Meter(1_000, 0)
    meter.offered(1_500, 0)
    meter.left(500, 1)
    assert meter.status(NS)[2] == "violated"
    meter.left(1_000, NS + 1)
    assert meter.status(2 * NS)[2] == "fulfilled"
    assert meter.status(3 * NS)[2] == "fulfilled", "nothing was asked of it"
    assert meter.violated_s == 1


def test_seconds_in_which_all_waits_are_each_violated_however_late_one_looks() -> None:
    meter = Meter(1_000, 0)
    meter.offered(2_000, NS // 2)
    assert meter.status(10**6 * NS)[2] == "violated"
    assert meter.violated_s == 10**6
    meter.given_up(2_000, 10**6 * NS)
    assert meter.status((10**6 + 1) * NS)[2] == "fulfilled"
    assert (meter.violated_s, meter.waiting) == (10**6, 0)


def test_the_promise_of_a_second_follows_its_grants() -> None:
    meter = Meter(1_000, 0)
    meter.offered(10_000, 0)
    meter.grants(200, NS // 2)
    meter.left(599, NS // 2)
    assert meter.status(NS)[2] == "fulfilled", "half a second of 1,000 and half of 200 is 600"
    meter.grants(0, NS)
    assert meter.status(5 * NS)[1:] == ("completed", "fulfilled")
    assert meter.violated_s == 0


@given(
    st.lists(st.tuples(st.integers(0, 3 * NS), st.integers(0, 2_000), st.integers(0, 2_000)), max_size=25),
    st.integers(1, 2_000),
)
def test_looking_often_changes_nothing(course: list[tuple[int, int, int]], granted: int) -> None:
    watched, alone = Meter(granted, 0), Meter(granted, 0)
    now_ns = 0
    for pause_ns, offered, most in course:
        for step in range(1, 4):
            watched.status(now_ns + pause_ns * step // 4)
        now_ns += pause_ns
        for meter in (watched, alone):
            meter.offered(offered, now_ns)
            meter.left(min(most, meter.waiting), now_ns)
    assert watched.status(now_ns) == alone.status(now_ns)
    assert watched.violated_s == alone.violated_s

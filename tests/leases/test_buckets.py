"""Rates that hold over every window, on virtual time."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.leases.buckets import NS, Bucket, depth_for, quantum_for
from holdall.leases.windows import busiest

MS = 1_000_000


def test_a_full_bucket_gives_its_depth_at_once_then_its_rate() -> None:
    bucket = Bucket(1_000, 300)
    assert [bucket.take(100, 0) for _ in range(4)] == [0, 0, 0, 100 * MS]
    assert bucket.take(100, 100 * MS - 1) == 1
    assert bucket.take(100, 100 * MS) == 0
    assert bucket.level_at_ns(100 * MS) == 400 * MS


def test_a_wait_that_is_not_a_whole_number_of_nanoseconds_is_rounded_up_and_nothing_is_lost() -> None:
    bucket = Bucket(3, 2)
    assert [bucket.take(1, 0) for _ in range(3)] == [0, 0, 333_333_334]
    assert [bucket.take(1, at) for at in (333_333_333, 333_333_334)] == [1, 0]
    # Two thirds of a second after the first, rounded up once and not twice.
    assert [bucket.take(1, at) for at in (666_666_666, 666_666_667)] == [1, 0]
    assert bucket.take(1, NS) == 0


def test_bytes_come_from_the_root_too() -> None:
    root = Bucket(1_000, 100)
    first, second = Bucket(1_000, 100, root=root), Bucket(500, 100, root=root)
    assert first.take(100, 0) == 0
    assert second.take(100, 0) == 100 * MS
    assert second.take(100, 100 * MS) == 0
    assert second.take(100, 200 * MS) == 100 * MS
    assert first.take(100, 200 * MS) == 0, "what was refused was taken from neither"


def test_a_rate_of_nothing_permits_nothing_until_it_is_changed() -> None:
    bucket = Bucket(0, 10)
    assert bucket.take(10, 0) == 0
    assert bucket.take(1, 5 * NS) is None
    assert bucket.level_at_ns(5 * NS) is None
    bucket.change(5 * NS, rate=10, depth=10)
    assert bucket.take(1, 5 * NS) == 100 * MS
    assert bucket.level_at_ns(5 * NS) == 6 * NS


def test_a_changed_rate_counts_from_the_change_on() -> None:
    bucket = Bucket(100, 100)
    assert bucket.take(100, 0) == 0
    bucket.change(NS // 2, rate=50, depth=100)
    assert bucket.take(100, NS // 2) == NS


def test_a_bucket_that_was_emptied_at_a_high_rate_is_empty_at_a_low_one_and_no_emptier() -> None:
    bucket = Bucket(1_000_000, 50_000)
    assert bucket.take(50_000, 0) == 0
    bucket.change(0, rate=1_000, depth=100)
    assert bucket.take(100, 0) == 100 * MS
    assert bucket.level_at_ns(0) == 100 * MS


def test_what_could_not_be_sent_is_put_back() -> None:
    root = Bucket(100, 100)
    bucket = Bucket(100, 100, root=root)
    assert bucket.take(100, 0) == 0
    bucket.put_back(60, 0)
    assert (bucket.take(60, 0), root.take(1, 0)) == (0, 10 * MS)


@pytest.mark.parametrize("size", [0, -1, 101])
def test_more_than_can_ever_leave_at_once_is_an_error(size: int) -> None:
    with pytest.raises(ValueError, match="can't be taken at once"):
        Bucket(100, 1_000, root=Bucket(100, 100)).take(size, 0)


def test_the_depth_fits_two_quanta_and_fifty_milliseconds() -> None:
    assert [(quantum_for(rate), depth_for(rate, quantum_for(rate))) for rate in (10_000, 500_000, 10**8)] == [
        (1_500, 3_000),
        (5_000, 25_000),
        (65_536, 5_000_000),
    ]


steps = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 40), st.integers(0, 400 * MS)), min_size=1, max_size=120
)


@given(steps, st.integers(1, 2_000), st.integers(40, 200), st.integers(1, 2 * NS))
def test_no_window_has_more_than_rate_times_window_plus_depth(
    asked: list[tuple[int, int, int]], rate: int, depth: int, window_ns: int
) -> None:
    """Four leases whose rates are together twice the root's; each window of each bucket is judged."""
    root = Bucket(rate, depth)
    leases = [Bucket(max(1, rate // 2), depth, root=root) for _ in range(4)]
    now_ns = 0
    sent: list[list[tuple[int, int]]] = [[], [], [], [], []]
    for which, size, pause_ns in asked:
        now_ns += pause_ns
        if leases[which].take(size, now_ns) == 0:
            sent[which].append((now_ns, size))
            sent[4].append((now_ns, size))
    for bucket, record in zip([*leases, root], sent, strict=True):
        assert busiest(record, window_ns) * NS <= bucket.rate * window_ns + depth * NS


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=40), st.integers(0, 60))
def test_the_busiest_window_is_the_busiest_of_all(pauses: list[tuple[int, int]], length: int) -> None:
    now, sent = 0, list[tuple[int, int]]()
    for pause, size in pauses:
        now += pause
        sent.append((now, size))
    plain = max(
        (sum(size for at, size in sent if start <= at <= start + length) for start, _ in sent), default=0
    )
    assert busiest(sent, length) == plain


def send(rate: int, seconds: int, *, late_ns: int, seed: int) -> list[tuple[int, int]]:
    """What leaves when there is always more, under a root of the same rate, and each timer fires late by up to `late_ns`."""
    chance = random.Random(seed)
    quantum = quantum_for(rate)
    bucket = Bucket(rate, depth_for(rate, quantum), root=Bucket(rate, depth_for(rate, quantum)))
    now_ns, sent = 0, list[tuple[int, int]]()
    while now_ns <= seconds * NS:
        wait_ns = bucket.take(quantum, now_ns)
        assert wait_ns is not None
        if wait_ns:
            now_ns += wait_ns + chance.randrange(late_ns + 1)
        else:
            sent.append((now_ns, quantum))
    return sent


@pytest.mark.parametrize("late_ms", [0, 5, 20, 35])
def test_e1_a_sender_with_a_lease_of_100_000_bytes_a_second_for_5_s(late_ms: int) -> None:
    rate = 100_000
    sent = send(rate, 5, late_ns=late_ms * MS, seed=late_ms)
    depth = depth_for(rate, quantum_for(rate))
    total = sum(size for at, size in sent if at < 5 * NS)
    assert 475_000 <= total <= 500_000 + depth
    assert busiest(sent, NS) <= rate + depth
    # Nothing is lost to late timers: only what could still be on its way is missing.
    assert total >= 500_000 - depth

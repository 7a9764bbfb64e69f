"""Leases of one capacity: they live, drain and end by the host's clock."""

import random
from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as st

from holdall.leases.buckets import NS, Bucket
from holdall.leases.capacity import CapacityBook, Declined, Leased, Over
from holdall.leases.filling import Demand, water_filling
from holdall.leases.shares import Shares, Wanted
from holdall.leases.windows import busiest

TWO_S = 2_000


def book_of(capacity: int, *, rho_ppm: int = 0) -> CapacityBook:
    return CapacityBook(Shares(capacity), rho_ppm=rho_ppm)


def ask(book: CapacityBook, holder: str, amount: int, now_ms: int) -> Leased | Declined:
    return book.ask(holder, Wanted(amount), duration_ms=TWO_S, now_ms=now_ms)


def test_a_lease_admits_until_its_end_and_not_at_it() -> None:
    book = book_of(100)
    assert ask(book, "a", 60, 0) == Leased("L-1", 60, 2_000)
    assert book.admit("a", 1_999) == "L-1"
    book.done("L-1", 1_999)
    assert book.admit("a", 2_000) is None
    assert book.denied == {"a": 1}
    assert book.passed(2_000) == [Over("a", "L-1", "expired")]
    assert book.shares.free == 100


def test_the_host_frees_later_than_the_holder_counts() -> None:
    book = book_of(100, rho_ppm=20_000)
    assert ask(book, "a", 60, 0) == Leased("L-1", 60, 2_040)
    assert book.due_ms() == 2_040
    assert book.active("a", 2_039) == "L-1"
    assert book.active("a", 2_040) is None


def test_e2_expiry_in_the_middle_of_a_message() -> None:
    """50,000 bytes at 25,000 a second, begun a second before the end: it takes its two seconds."""
    book = book_of(100_000)
    ask(book, "a", 25_000, 0)
    lease = book.admit("a", 1_000)
    assert lease is not None
    bucket = Bucket(25_000, 2_500)
    now_ns, sent = NS, list[tuple[int, int]]()
    while sum(size for _, size in sent) < 50_000:
        wait_ns = bucket.take(1_250, now_ns)
        assert wait_ns is not None
        if wait_ns:
            now_ns += wait_ns
            continue
        sent.append((now_ns, 1_250))
        if now_ns >= 2 * NS:
            assert book.admit("a", now_ns // 1_000_000) is None, "the next message is denied"
            assert book.shares.taken == 25_000, "what was granted is used until the message is out"
    # The last bytes leave at 2.9 s: a depth's worth went at once.
    assert now_ns == 2_900_000_000
    assert busiest(sent, NS) <= 25_000 + 2_500
    book.done(lease, 2_900)
    assert (book.shares.taken, book.due_ms()) == (0, None)


def test_work_that_lingers_too_long_is_cut() -> None:
    book = book_of(100)
    ask(book, "a", 60, 0)
    lease = book.admit("a", 1_000)
    assert lease is not None
    assert book.passed(3_999) == [Over("a", "L-1", "expired")]
    assert book.shares.taken == 60
    assert book.passed(4_000) == [Over("a", "L-1", "cut")]
    assert book.shares.taken == 0
    book.done(lease, 4_001)
    assert book.shares.taken == 0


def test_how_long_work_may_linger_can_be_said() -> None:
    book = CapacityBook(Shares(100), linger_ms=10_000)
    ask(book, "a", 60, 0)
    assert book.admit("a", 1_999) == "L-1"
    assert book.passed(11_999) == [Over("a", "L-1", "expired")]
    assert book.passed(12_000) == [Over("a", "L-1", "cut")]


def test_a_release_drains_like_an_end_but_is_not_remembered() -> None:
    book = book_of(100)
    ask(book, "a", 60, 0)
    lease = book.admit("a", 0)
    assert lease is not None
    book.release("a", 500)
    book.release("a", 500)
    assert book.passed(500) == [Over("a", "L-1", "released")]
    assert ask(book, "b", 100, 600) == Leased("L-2", 40, 2_000)
    book.done(lease, 700)
    assert ask(book, "b", 100, 800) == Leased("L-2", 100, 2_000)


def test_one_who_finds_everything_taken_is_told_when_to_come_again() -> None:
    book = book_of(100_000)
    ask(book, "first", 100_000, 0)
    assert ask(book, "newcomer", 30_000, 500) == Declined(0, 1_500)
    assert ask(book, "first", 100_000, 2_000) == Leased("L-2", 70_000, 2_000)
    assert ask(book, "newcomer", 30_000, 2_000) == Leased("L-3", 30_000, 2_000)


def test_below_the_floor_the_best_is_told() -> None:
    book = book_of(100)
    ask(book, "a", 80, 0)
    assert book.ask("b", Wanted(60), duration_ms=TWO_S, now_ms=100, floor=30) == Declined(20, 1_900)


def test_a_declined_renewal_leaves_the_lease_as_it_was() -> None:
    book = book_of(100)
    ask(book, "a", 80, 0)
    book.ask("b", Wanted(80), duration_ms=TWO_S, now_ms=0, floor=50)
    assert book.ask("a", Wanted(80), duration_ms=TWO_S, now_ms=1_000, floor=60) == Declined(0, 1_000)
    assert book.active("a", 1_999) == "L-1"
    assert book.active("a", 2_000) is None


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["ask", "admit", "done", "release", "look"]),
                  st.integers(1, 80), st.integers(0, 900)),
        max_size=80,
    )
)  # fmt: skip
def test_whatever_happens_all_that_is_granted_fits_and_all_ends(
    course: list[tuple[str, str, int, int]],
) -> None:
    book, now_ms, works = book_of(100), 0, list[str]()
    for holder, what, amount, pause_ms in course:
        now_ms += pause_ms
        if what == "ask":
            ask(book, holder, amount, now_ms)
        elif what == "admit" and (lease := book.admit(holder, now_ms)):
            works.append(lease)
        elif what == "done" and works:
            book.done(works.pop(0), now_ms)
        elif what == "release":
            book.release(holder, now_ms)
        parts = book.shares.parts.values()
        assert book.shares.taken == sum(part.granted for part in parts) <= 100
    book.passed(now_ms + 2 * TWO_S)
    assert (book.shares.taken, book.shares.parts, book.due_ms()) == (0, {}, None)


def test_two_hundred_agents_of_which_half_leave_have_the_division_after_two_renewals_each() -> None:
    """Each renews at a random instant between 0.8 and 1.0 of its lease of 2 s; nobody does it in step."""
    chance = random.Random(7)
    capacity = 100_000
    book = book_of(capacity)
    amounts = {f"a{place:03}": 100 + 37 * place for place in range(200)}
    due: list[tuple[int, str]] = []
    renewed = dict.fromkeys(amounts, 0)
    for agent in amounts:
        heappush(due, (chance.randrange(TWO_S), agent))

    def until_each_was_granted(times: int) -> None:
        renewed.update(dict.fromkeys(renewed, 0))
        while min(renewed.values()) < times:
            now_ms, agent = heappop(due)
            if agent not in renewed:
                continue
            outcome = ask(book, agent, amounts[agent], now_ms)
            renewed[agent] += isinstance(outcome, Leased)
            again_ms = (
                outcome.remaining_ms * chance.randrange(800, 1_001) // 1_000
                if isinstance(outcome, Leased)
                else outcome.retry_after_ms
            )
            heappush(due, (now_ms + again_ms, agent))
            assert book.shares.taken <= capacity

    def division() -> dict[str, int]:
        demands = {(agent, ""): Demand(amounts[agent]) for agent in renewed}
        return {agent: share for (agent, _), share in water_filling(demands, capacity).items()}

    until_each_was_granted(1 + 2)
    parts = book.shares.parts.values()
    before = {part.holder: part.granted for part in parts}
    assert before == division()
    now_ms = due[0][0]
    for agent in [*amounts][::2]:
        book.release(agent, now_ms)
        del renewed[agent]
    until_each_was_granted(2)
    after = {part.holder: part.granted for part in book.shares.parts.values()}
    assert after == division()
    assert all(after[agent] >= before[agent] for agent in after)
    assert sum(before.values()) == sum(after.values()) == capacity

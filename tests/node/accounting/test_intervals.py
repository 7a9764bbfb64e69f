"""Which rows the account gets: one event and its exact rows, then any course of leases and its sums."""

from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from node.accounting.books import CAPACITY, Bench, book_key, host_key, negotiated, units

from holdall.machine.contract import Record
from holdall.model.names import printed_id
from holdall.node.accounting.intervals import Held, Row, Use
from holdall.node.accounting.totals import GROUPS, Totals


def test_a_lease_of_two_units_is_two_rows_when_it_ends() -> None:
    bench = Bench()
    assert bench.turn({book_key(1): units(1, 10, 11)}) == []
    assert bench.turn({book_key(1): None}, after_ms=5_000) == [
        Row(
            Held(printed_id("n1.1.1"), "gpu", "pool", "ann@lab-1", "of-n1", unit=unit, fence=fence),
            1_000_000,
            1_005_000,
            "ended",
        )
        for unit, fence in (("u0", 10), ("u1", 11))
    ]


def test_why_a_lease_of_units_ends_is_as_its_book_says_and_early_units_are_changes() -> None:
    bench = Bench()
    bench.turn({book_key(1): units(1, 10, 11), book_key(2): units(2, 22)})
    (early,) = bench.turn({book_key(1): units(1, 11)}, after_ms=1_000)
    both = bench.turn({book_key(1): None, book_key(2): None}, after_ms=1_000, why="kicked")
    assert [(row.held.unit, row.why) for row in (early, *both)] == [
        ("u0", "changed"),
        ("u1", "kicked"),
        ("u2", "kicked"),
    ]
    assert bench.ledger.open() == []


def test_units_that_are_only_set_aside_are_nobodys() -> None:
    bench = Bench()
    bench.turn({book_key(1): units(1, 10, active=False)})
    assert bench.turn({book_key(1): None}, after_ms=5_000) == []
    bench.turn({book_key(2): units(2, 20, active=False)})
    bench.turn({book_key(2): units(2, 20)}, after_ms=1_000)
    (row,) = bench.turn({book_key(2): None}, after_ms=1_000)
    assert row.ended_ms - row.began_ms == 1_000


def test_a_unit_that_is_given_back_early_ends_alone() -> None:
    bench = Bench()
    bench.turn({book_key(1): units(1, 10, 11)})
    (early,) = bench.turn({book_key(1): units(1, 11)}, after_ms=1_000)
    (late,) = bench.turn({book_key(1): None}, after_ms=1_000)
    assert [(row.held.unit, row.ended_ms - row.began_ms, row.why) for row in (early, late)] == [
        ("u0", 1_000, "changed"),
        ("u1", 2_000, "ended"),
    ]


def test_saving_the_same_again_is_no_event_and_a_later_hard_end_is_one() -> None:
    bench = Bench()
    bench.turn({book_key(1): units(1, 10)})
    assert bench.turn({book_key(1): units(1, 10)}, after_ms=500) == []
    (row,) = bench.turn({book_key(1): units(1, 10, for_ms=60_000)}, after_ms=500)
    assert (row.why, row.ended_ms - row.began_ms) == ("renewed", 1_000)
    (row,) = bench.turn({book_key(1): None}, after_ms=250)
    assert (row.why, row.ended_ms - row.began_ms) == ("ended", 250)


def test_a_lease_that_is_split_ends_its_row_as_changed_and_the_part_begins_its_own() -> None:
    bench = Bench()
    bench.turn({host_key(1): negotiated(1, 50_000)})
    rest = msgspec.structs.replace(negotiated(1, 30_000, revision=2), was_split=True)
    part = negotiated(2, 20_000, lease="L-2")
    rows = bench.turn({host_key(1): rest, host_key(2): part}, after_ms=1_000)
    assert [(row.held.term, row.held.amount, row.why) for row in rows] == [
        ("net.tx", 50_000, "changed"),
        ("service.db", 1, "changed"),
    ]
    bench.turn(
        {host_key(1): negotiated(1, 30_000, "released", revision=2, ending="released")}, after_ms=1_000
    )
    bench.turn({host_key(2): negotiated(2, 20_000, "expired", lease="L-2", ending="expired")}, after_ms=1_000)
    net = [row for row in bench.rows if row.held.term == "net.tx"][1:]
    assert [(row.held.lease, row.held.amount, row.why, row.ended_ms - row.began_ms) for row in net] == [
        ("L-1", 30_000, "released", 1_000),
        ("L-2", 20_000, "expired", 2_000),
    ]


def test_a_negotiated_lease_is_a_row_a_term_for_each_revision_and_its_units_are_left_to_their_book() -> None:
    bench = Bench()
    bench.turn({host_key(1): negotiated(1, 50_000, "offered")})
    bench.turn({host_key(1): negotiated(1, 50_000)}, after_ms=100)
    bench.use["L-1", "net.tx"] = Use(70_000, 3, 1)
    renewal = {host_key(1): None, host_key(2): negotiated(2, 30_000, revision=2)}
    first = bench.turn(renewal, after_ms=2_000)
    assert [(row.held.term, row.held.amount, row.why, row.use.used, row.use.denied) for row in first] == [
        ("net.tx", 50_000, "renewed", 70_000, 3),
        ("service.db", 1, "renewed", 0, 0),
    ]
    assert {row.held.affiliation for row in first} == {"vu"}
    bench.use["L-1", "net.tx"] = Use(100_000, 3, 2)
    bench.turn({host_key(2): negotiated(2, 30_000, "draining", revision=2, ending="expired")}, after_ms=1_000)
    over = bench.turn(
        {host_key(2): negotiated(2, 30_000, "expired", revision=2, ending="expired")}, after_ms=500
    )
    assert [(row.held.term, row.why, row.ended_ms - row.began_ms, row.use) for row in over] == [
        ("net.tx", "expired", 1_500, Use(30_000, 0, 1)),
        ("service.db", "expired", 1_500, Use()),
    ]
    assert bench.ledger.open() == []


def test_a_restart_counts_nothing_twice_and_what_the_journal_lost_is_over_by_then() -> None:
    bench = Bench()
    bench.turn({book_key(1): units(1, 10), book_key(2): units(2, 20)})
    assert bench.restart() == []
    bench.turn({book_key(3): units(3, 30)}, after_ms=1_000)
    bench.turn({book_key(3): None}, after_ms=500)
    bench.now_ms += 60_000
    (lost,) = bench.restart(without=[book_key(2)])
    assert (lost.held.unit, lost.why, lost.ended_ms - lost.began_ms) == ("u0", "lost", 1_500)
    (row,) = bench.turn({book_key(1): None}, after_ms=1)
    assert row.ended_ms - row.began_ms == 61_501


def test_a_lease_from_before_there_was_an_account_counts_from_the_start_on() -> None:
    bench = Bench()
    bench.records[book_key(1)] = units(1, 10)
    assert bench.restart() == []
    (row,) = bench.turn({book_key(1): None}, after_ms=700)
    assert row.ended_ms - row.began_ms == 700


# ---------------------------------------------------------------- any course


class Course:
    """Units change hands by fences, as a book gives them; bandwidth is granted up to the capacity."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.fence = 0
        self.number = 0
        self.leases: dict[int, tuple[int, ...]] = {}
        self.bandwidth: dict[int, tuple[int, int]] = {}
        self.unit_ms = 0
        self.byte_ms = 0

    def step(self, what: int, choice: int, after_ms: int) -> None:
        self.unit_ms += sum(len(units) for units in self.leases.values()) * after_ms
        self.byte_ms += sum(amount for amount, _ in self.bandwidth.values()) * after_ms
        saves: dict[str, Record | None] = {}
        if what == 0:
            self._grant(choice, saves)
        elif what == 1 and self.leases:
            self._give_back(choice, saves)
        elif what == 2:
            self._bandwidth(choice, saves)
        elif what == 3 and self.bandwidth:
            number = sorted(self.bandwidth)[choice % len(self.bandwidth)]
            amount, revision = self.bandwidth.pop(number)
            saves[host_key(number)] = negotiated(
                number, amount, "expired", lease=f"L-{number}", revision=revision, ending="expired"
            )
        elif what == 4:
            self.bench.now_ms += after_ms
            self.bench.restart()
            return
        self.bench.turn(saves, after_ms=after_ms)

    def _grant(self, choice: int, saves: dict[str, Record | None]) -> None:
        taken = {fence % 10 for fences in self.leases.values() for fence in fences}
        free = [unit for unit in range(4) if unit not in taken][: 1 + choice % 3]
        if free:
            self.number += 1
            self.fence += 10
            self.leases[self.number] = tuple(self.fence + unit for unit in free)
            saves[book_key(self.number)] = units(self.number, *self.leases[self.number])

    def _give_back(self, choice: int, saves: dict[str, Record | None]) -> None:
        number = sorted(self.leases)[choice % len(self.leases)]
        left = self.leases[number][choice % 2 + 1 :]
        if left:
            self.leases[number] = left
            saves[book_key(number)] = units(number, *left)
        else:
            del self.leases[number]
            saves[book_key(number)] = None

    def _bandwidth(self, choice: int, saves: dict[str, Record | None]) -> None:
        free = CAPACITY - sum(amount for amount, _ in self.bandwidth.values())
        if choice % 2 and self.bandwidth:
            number = sorted(self.bandwidth)[choice % len(self.bandwidth)]
            amount, revision = self.bandwidth[number]
            self.bandwidth[number] = (max(1, amount // 2), revision + 1)
        elif free:
            self.number += 1
            number = self.number
            self.bandwidth[number] = (max(1, free // 2), 1)
        else:
            return
        amount, revision = self.bandwidth[number]
        saves[host_key(number)] = negotiated(number, amount, lease=f"L-{number}", revision=revision)


STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 11), st.integers(0, 5_000)), max_size=60)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_no_unit_is_held_twice_at_a_time_and_the_rows_are_what_was_held(
    steps: list[tuple[int, int, int]],
) -> None:
    course = Course()
    for step in steps:
        course.step(*step)
    rows = course.bench.all()
    by_unit: dict[str, list[Row]] = {}
    for row in rows:
        if row.held.kind == "pool":
            by_unit.setdefault(row.held.unit, []).append(row)
    for stretches in by_unit.values():
        stretches.sort(key=lambda row: (row.began_ms, row.ended_ms))
        assert all(one.ended_ms <= other.began_ms for one, other in pairwise(stretches))
    assert sum(row.ended_ms - row.began_ms for row in rows if row.held.kind == "pool") == course.unit_ms
    granted = sum(
        row.held.amount * (row.ended_ms - row.began_ms) for row in rows if row.held.kind == "capacity"
    )
    assert granted == course.byte_ms
    passed = course.bench.now_ms - 1_000_000
    assert granted <= CAPACITY * passed


@settings(max_examples=150, deadline=None)
@given(STEPS, st.integers(0, 200_000))
def test_the_parts_of_every_grouping_and_of_every_split_of_time_are_the_whole(
    steps: list[tuple[int, int, int]], split_ms: int
) -> None:
    course = Course()
    for step in steps:
        course.step(*step)
    bench = course.bench

    def sums(by: str, since_ms: int) -> dict[str, tuple[int, int]]:
        totals = Totals(by, since_ms)
        for row in bench.rows:
            totals.add(row)
        for row in bench.ledger.so_far(bench.now_ms):
            totals.add(row, open_now=True)
        found: dict[str, tuple[int, int]] = {}
        for one in totals.rows():
            amount_ms, held_ms = found.get(one.term, (0, 0))
            found[one.term] = (amount_ms + int(one.amount_ms), held_ms + one.held_ms)
        return found

    whole = sums("pool", 0)
    assert all(sums(by, 0) == whole for by in GROUPS)
    since = sums("holder", 1_000_000 + split_ms)
    for term, (amount_ms, held_ms) in whole.items():
        before = [
            (row.held.amount * length, length)
            for row in bench.all()
            if row.held.term == term
            for length in [max(0, min(row.ended_ms, 1_000_000 + split_ms) - row.began_ms)]
        ]
        after = since.get(term, (0, 0))
        assert (amount_ms, held_ms) == (
            after[0] + sum(one for one, _ in before),
            after[1] + sum(length for _, length in before),
        )

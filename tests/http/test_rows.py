"""Rows page by page: nothing twice, nothing left out, whatever comes and goes; and marks of strangers."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.http.problems import Problem
from holdall.http.rows import has, page, pool_id, pools_of, totals_of, units_of
from holdall.http.words import PoolSummary
from holdall.model import frames

KEYS = st.lists(st.tuples(st.integers(0, 5), st.text(max_size=3)), max_size=30, unique=True)


@given(KEYS, st.integers(1, 7), st.booleans())
def test_the_pages_of_a_listing_are_the_listing(
    rows: list[tuple[int, str]], limit: int, newest: bool
) -> None:
    found: list[tuple[int, str]] = []
    after: str | None = ""
    while after is not None:
        shown, after = page(list(rows), lambda row: row, after=after, limit=limit, newest_first=newest)
        assert len(shown) <= limit
        found += shown
    assert found == sorted(rows, reverse=newest)


@given(KEYS.filter(lambda rows: len(rows) > 3))
def test_a_row_that_comes_or_goes_between_two_pages_moves_no_other(rows: list[tuple[int, str]]) -> None:
    first, after = page(list(rows), lambda row: row, after="", limit=2)
    assert after is not None
    without = [row for row in rows if row not in first]
    again, _ = page([*without, (-1, "new")], lambda row: row, after=after, limit=100)
    assert list(again) == sorted(without)


@given(st.text(max_size=60))
def test_a_mark_that_is_none_is_refused_or_finds_a_page_but_never_fails(after: str) -> None:
    rows = [(1, "a"), (2, "b")]
    shown: tuple[tuple[int, str], ...] = ()
    with contextlib.suppress(Problem):
        shown, _ = page(rows, lambda row: row, after=after, limit=5)
    assert set(shown) <= set(rows)


def test_the_mark_of_another_listing_is_refused() -> None:
    _, mark = page([("a",), ("b",)], lambda row: row, after="", limit=1)
    assert mark is not None
    with pytest.raises(Problem, match="another listing"):
        page([(1,), (2,)], lambda row: row, after=mark, limit=1)


POOL = frames.PoolRow(
    "gpu",
    "lab-1",
    {"model": "a100"},
    "host",
    3,
    1,
    2,
    0,
    4,
    (frames.UnitRow("0", "held", 7, "L1", "ci@lab-1"),),
)
LEASE = frames.LeaseView(
    "L1", "ci@lab-1", "ci", 5, "soak", "active", (frames.HeldUnit("gpu", "0", "lab-1", 7),), ("gpu:1",),
    1_000, 20, 30_000, 90_000, 31_000, True,
)  # fmt: skip


def test_a_pool_that_comes_in_several_rows_is_one_pool_with_all_its_units() -> None:
    more = frames.PoolRow(
        "gpu", "lab-1", {"model": "a100"}, "host", 3, 1, 2, 0, 4, (frames.UnitRow("1", "free", 0),)
    )
    parts = [frames.Listing(1, pools=(POOL,)), frames.Listing(1, pools=(more,))]
    (summary,) = pools_of(parts).values()
    assert (summary.id, summary.total, summary.waiting) == (pool_id(POOL), 3, 4) == (
        "gpu,model=a100@lab-1", 3, 4,
    )  # fmt: skip
    assert [unit.id for unit in units_of(parts, ())] == ["gpu/0@lab-1", "gpu/1@lab-1"]


def test_a_unit_says_what_its_lease_says() -> None:
    (unit,) = units_of([frames.Listing(1, pools=(POOL,))], [frames.Listing(1, leases=(LEASE,))])
    assert (unit.lease, unit.reason, unit.since_ms, unit.until_ms, unit.expires_ms, unit.renewing) == (
        "L1", "soak", 1_000, 90_000, 31_000, True,
    )  # fmt: skip


def test_totals_sum_over_pools_and_count_silent_nodes() -> None:
    pools = [PoolSummary(f"p@{n}", "p", n, {}, "system", "serving", 3, 1, 1, 1, 0) for n in ("a", "b")]
    totals = totals_of(pools, [LEASE], [], [], now_ms=5_000)
    assert (totals.pools, totals.units, totals.free, totals.held, totals.unusable) == (2, 6, 2, 2, 2)
    assert (totals.leases, totals.waiting, totals.longest_wait_ms, totals.silent) == (1, 0, 0, 0)


@pytest.mark.parametrize(("text", "found"), [("", True), ("CI@", True), ("soak", True), ("x", False)])
def test_what_is_looked_for_is_found_whatever_its_case(text: str, found: bool) -> None:
    assert has(text, "ci@lab-1", "Soak test") is found

"""Old rows become sums: whatever was held, what is told of it before is told of it after, crashes included."""

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from node.accounting.books import book_key, host_key, negotiated, units

from holdall.machine.contract import Record
from holdall.model.durations import DURATION_MS_MAX
from holdall.model.frames import Ask, Denied, Listing, UsageRow
from holdall.node.accounting import account as account_module
from holdall.node.accounting import tables
from holdall.node.accounting.account import DAY_MS, Account
from holdall.node.accounting.totals import GROUPS
from holdall.node.store import JournalBroken, JournalFull, Steps, Store

FIGURES = ("kind", "leases", "stretches", "held_ms", "amount_ms", "used", "denied", "violated_s", "now")


class Years:
    """An account over a journal of its own, with a clock that the test moves."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "state", durability="process")
        self.now_ms = 10_000 * DAY_MS
        self.account = self.opened()

    def opened(self) -> Account:
        made = Account(self.store, boot_id="b", affiliation_of=lambda node: f"of-{node}")
        made.now_ms = lambda: self.now_ms  # type: ignore[method-assign]
        return made

    def turn(self, saves: Mapping[str, Record | None], *, days: int = 0, why: str = "released") -> None:
        self.now_ms += days * DAY_MS
        ends = {key: why for key, record in saves.items() if record is None}
        entries = self.account.entries(saves, ends)
        self.store.commit(saves, beside=self.account.steps(entries))
        self.account.committed(entries)

    def told(self, by: str) -> dict[tuple[str, str], UsageRow]:
        frames = asyncio.run(self.account.answer(Ask(1, "usage", by)))
        rows = [row for one in frames if isinstance(one, Listing) for row in one.usage]
        return {(row.group, row.term): row for row in rows}

    def all(self) -> dict[str, dict[tuple[str, str], UsageRow]]:
        return {by: self.told(by) for by in GROUPS}

    def keep(self, days: int = 400) -> int:
        return asyncio.run(self.account.keep(days))

    def left(self) -> int:
        (row,) = self.store.select("SELECT count(*) FROM account")
        return int(row[0])


def rest_of(question: Coroutine[Any, Any, object]) -> object:
    """What comes of it."""
    while True:
        try:
            question.send(None)
        except StopIteration as end:
            return end.value


def by_lease_together(rows: Mapping[tuple[str, str], UsageRow]) -> dict[str, list[int]]:
    """Sums by term of what is told by lease: old leases stand together there."""
    sums: dict[str, list[int]] = {}
    for (_, term), row in rows.items():
        figures = (row.leases, row.stretches, row.held_ms, int(row.amount_ms), row.used, row.denied, row.now)
        sums[term] = [one + other for one, other in zip(sums.get(term, [0] * 7), figures, strict=True)]
    return sums


def test_rows_older_than_is_kept_become_sums_and_leave(tmp_path: Path) -> None:
    years = Years(tmp_path)
    years.turn({book_key(1): units(1, 10, 11)})
    years.turn({book_key(1): None}, days=2)
    years.turn({book_key(2): units(2, 22)})
    years.turn({book_key(2): None}, days=3, why="kicked")
    before = years.all()
    assert years.keep() == 0
    years.now_ms += 396 * DAY_MS
    years.turn({book_key(3): units(3, 30)})
    years.turn({book_key(3): None}, days=2)
    before = years.all()
    # The first two rows ended 403 days ago, the third 400.
    assert (years.keep(), years.left()) == (2, 2)
    after = years.all()
    assert {by: after[by] for by in GROUPS if by != "lease"} == {
        by: before[by] for by in GROUPS if by != "lease"
    }
    assert after["unit"]["gpu/u0", "gpu"].leases == 2
    assert {group for group, _ in after["lease"]} == {"earlier", *(group for group, _ in before["lease"])} - {
        next(group for (group, _), row in before["lease"].items() if row.stretches == 2)
    }
    assert by_lease_together(after["lease"]) == by_lease_together(before["lease"])
    # The youngest row stays, however old it is: numbers and clock go on from it.
    years.now_ms += 4000 * DAY_MS
    assert (years.keep(), years.left(), years.keep()) == (1, 1, 0)
    years.turn({book_key(4): units(4, 40)})
    years.turn({book_key(4): None}, days=1)
    assert tables.Tables(years.store).last()[0] == 5
    years.store.close()


def test_a_lease_with_rows_on_both_sides_is_counted_once(tmp_path: Path) -> None:
    years = Years(tmp_path)
    years.turn({book_key(1): units(1, 10)})
    years.turn({book_key(1): units(1, 10, for_ms=1)}, days=1)
    years.turn({book_key(1): units(1, 10, for_ms=2)}, days=500)
    before = years.all()
    assert years.keep() == 1
    assert {by: years.told(by) for by in ("holder", "pool", "unit", "affiliation", "end")} == {
        by: before[by] for by in ("holder", "pool", "unit", "affiliation", "end")
    }
    assert years.told("pool")["gpu", "gpu"].leases == 1
    years.store.close()


def test_folded_rows_can_be_removed_and_no_others(tmp_path: Path) -> None:
    years = Years(tmp_path)
    for number in range(1, 4):
        years.turn({book_key(number): units(number, 10 * number)})
        years.turn({book_key(number): None}, days=1)
    years.store.commit({}, beside=tables.Tables(years.store).fold_steps(1, {}))
    with pytest.raises(JournalBroken, match="only ever added to"):
        list(years.store.select("DELETE FROM account WHERE id >= 1"))
    assert years.left() == 3
    years.store.close()


def test_since_goes_back_as_far_as_rows_are_kept_at_least(tmp_path: Path) -> None:
    years = Years(tmp_path)
    (denied,) = asyncio.run(years.account.answer(Ask(1, "usage", "pool", since_ms=DURATION_MS_MAX + 1)))
    assert isinstance(denied, Denied)
    assert denied.code == "bad-spec"
    years.turn({book_key(1): units(1, 10)})
    years.turn({book_key(1): None}, days=1)
    years.turn({book_key(2): units(2, 20)}, days=366)
    years.turn({book_key(2): None}, days=1)
    ask = Ask(1, "usage", "pool", since_ms=DURATION_MS_MAX)
    before = asyncio.run(years.account.answer(ask))
    assert years.keep(366) == 1
    assert asyncio.run(years.account.answer(ask)) == before
    years.store.close()


def test_a_question_under_way_hears_of_each_row_once_while_rows_are_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SLICE", 2)
    monkeypatch.setattr(account_module, "SWEEP_PAUSE_S", 0)
    years = Years(tmp_path)
    for number in range(1, 12):
        years.turn({book_key(number): units(number, 10 * number)})
        years.turn({book_key(number): None}, days=1)
    years.now_ms += 1000 * DAY_MS
    before = years.told("pool")

    question = years.account.answer(Ask(1, "usage", "pool"))
    question.send(None)  # it has read the sums and the first rows

    async def folds_meanwhile() -> None:
        keeping = asyncio.create_task(years.account.keep(400))
        for _ in range(200):
            await asyncio.sleep(0)
        assert not keeping.done()
        keeping.cancel()

    asyncio.run(folds_meanwhile())
    assert (tables.Tables(years.store).folded(), years.left()) == (10, 11)
    assert rest_of(question) == (Listing(1, usage=tuple(before.values()), more=False),)
    # Nobody asks any more: what is folded leaves.
    assert (years.keep(), years.left(), years.told("pool")) == (0, 1, before)
    years.store.close()


# ---------------------------------------------------------------- any course

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["units", "rate", "end", "renew", "fold", "again", "die"]),
        st.integers(1, 4),
        st.integers(0, 250),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_whatever_was_held_totals_before_are_totals_after(steps: list[tuple[str, int, int]]) -> None:
    with TemporaryDirectory() as folder:
        _whatever(Years(Path(folder)), steps)


def _whatever(years: Years, steps: list[tuple[str, int, int]]) -> None:
    held: dict[int, int] = {}
    number = fence = 0
    for what, choice, days in steps:
        one = sorted(held)[choice % len(held)] if held else 0
        if what == "units":
            number, fence = number + 1, fence + choice
            held[number] = 0
            years.turn({book_key(number): units(number, *range(fence, fence + choice))}, days=days)
        elif what == "rate":
            number += 1
            years.turn({host_key(number): negotiated(number, 100 * choice, lease=f"L-{number}")}, days=days)
            over = negotiated(number, 100 * choice, "expired", lease=f"L-{number}", ending="expired")
            years.turn({host_key(number): over}, days=1)
        elif what == "end" and one:
            del held[one]
            years.turn({book_key(one): None}, days=days, why=("released", "kicked")[choice % 2])
        elif what == "renew" and one:
            held[one] += 1
            years.turn({book_key(one): units(one, 5 + one, for_ms=held[one])}, days=days)
        elif what == "again":
            years.account = years.opened()
        else:
            _fold(years, dies_at=choice if what == "die" else 0)
    _fold(years, dies_at=0)
    years.store.close()


def _fold(years: Years, *, dies_at: int) -> None:
    """Fold; `dies_at`: no transaction from this one on gets into the journal, and the process ends."""
    before, whole, count = years.all(), Store._transaction, 0

    def dies(store: Store, steps: Steps, *, synced: bool) -> None:
        nonlocal count
        count += 1
        if count >= dies_at:
            raise JournalFull("no space")
        whole(store, steps, synced=synced)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(account_module, "FOLDED_MOST", 3)
        patch.setattr(account_module, "SWEEP_PAUSE_S", 0)
        patch.setattr(tables, "SWEPT_MOST", 2)
        if dies_at:
            patch.setattr(Store, "_transaction", dies)
        try:
            years.keep()
        except JournalFull:
            patch.setattr(Store, "_transaction", whole)
            years.account = years.opened()
    after = years.all()
    for by in GROUPS:
        if by == "lease":
            assert by_lease_together(after[by]) == by_lease_together(before[by])
        else:
            assert after[by] == before[by]
    if not dies_at:
        kept = list(tables.Tables(years.store).rows(0, 1 << 40))
        assert all(row.ended_ms >= years.now_ms - 400 * DAY_MS for _, row in kept[:-1])

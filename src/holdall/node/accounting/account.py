"""A node's account: what its turns add, and what is asked of it."""

import asyncio
from collections.abc import Iterator, Mapping

import msgspec

from holdall.machine.contract import Record
from holdall.model.durations import DURATION_MS_MAX
from holdall.model.errors import BadSpec, NotGranted, Unreachable
from holdall.model.frames import Ask, Denied, Listing, UsageRow
from holdall.node.accounting.clock import difference
from holdall.node.accounting.folding import fold
from holdall.node.accounting.intervals import NOT_SAID, NOTHING, Entries, Ledger, Row, Use, UseOf
from holdall.node.accounting.readers import AffiliationOf, readers
from holdall.node.accounting.tables import Tables, steps_of
from holdall.node.accounting.totals import GROUPS, Totals
from holdall.node.clock import boottime_ms, wall_ms
from holdall.node.store import JournalBroken, Steps, Store

ASKED_MAX = 4
"""Questions that are being answered at a time."""
ROWS_PER_FRAME = 100
DAY_MS = 86_400_000
FOLDED_MOST = 50_000
"""Rows of one fold: their leases are remembered until it is done."""
SWEEP_PAUSE_S = 0.02


def nothing(lease: str, term: str) -> Use:
    """Where nobody measures."""
    del lease, term
    return NOTHING


class Account:
    """Of one node, over its open journal."""

    def __init__(
        self, store: Store, *, boot_id: str, affiliation_of: AffiliationOf, use_of: UseOf = nothing
    ) -> None:
        self._store, self._tables = store, Tables(store)
        self._last_ms = self._tables.last()[1]
        self._ledger = Ledger(readers(affiliation_of), use_of, self._tables.open())
        began = max((one.began_ms for one in self._ledger.open()), default=0)
        self._clock = difference(
            self._tables.clock(),
            boot_id=boot_id,
            wall_ms=wall_ms(),
            boot_ms=boottime_ms(),
            last_ms=max(self._last_ms, began),
        )
        self._tables.save_clock(self._clock)
        self._asked = 0

    def now_ms(self) -> int:
        """The account's instant; it is the wall's, unless somebody has set that since the boot."""
        return boottime_ms() + self._clock.ms

    def begin(self, records: Mapping[str, Record]) -> Entries:
        """Before the first turn of a start: with what the journal has."""
        return self._ledger.reconcile(records, self.now_ms(), self._last_ms)

    def entries(self, saves: Mapping[str, Record | None], ends: Mapping[str, str] = NOT_SAID) -> Entries:
        """What a turn adds, as of its `saves` and `ends`; it may be asked again when the disk was full."""
        return self._ledger.entries(saves, self.now_ms(), ends)

    def steps(self, entries: Entries) -> Steps:
        """For the turn's own transaction."""
        return steps_of(entries)

    def committed(self, entries: Entries) -> None:
        """That transaction is in the journal."""
        self._ledger.committed(entries)

    async def answer(self, ask: Ask) -> tuple[Listing | Denied, ...]:
        """The frames that answer `holdall usage`; other turns go on between two looks at the rows."""
        by = ask.arg or "holder"
        if by not in GROUPS:
            text = f"--by {by[:40]!r} is not one of {', '.join(GROUPS)}"
            return (Denied(ask.n, BadSpec.code, text),)
        if ask.since_ms is not None and ask.since_ms > DURATION_MS_MAX:
            text = "since: a year at most. Leave it out for all that is known"
            return (Denied(ask.n, BadSpec.code, text),)
        if self._asked >= ASKED_MAX:
            text = f"{ASKED_MAX} others are being told their use now; ask again in a moment"
            return (Denied(ask.n, NotGranted.code, text),)
        self._asked += 1
        try:
            rows = await self._totals(by, ask.since_ms)
        except JournalBroken as problem:
            return (Denied(ask.n, Unreachable.code, str(problem)),)
        finally:
            self._asked -= 1
        parts = [rows[at : at + ROWS_PER_FRAME] for at in range(0, len(rows), ROWS_PER_FRAME)] or [()]
        listings = [Listing(ask.n, usage=part, more=True) for part in parts]
        return (*listings[:-1], msgspec.structs.replace(listings[-1], more=False))

    async def keep(self, days: int) -> int:
        """Fold what ended more than so many days ago; how many rows that were. Raises JournalFull, JournalBroken.

        The youngest row always stays: the account's clock and the numbers of rows go on from it.
        """
        tables, began = self._tables, self._tables.folded()
        due = min(self._before(self.now_ms() - days * DAY_MS, tables.last()[0]), tables.last()[0] - 1)
        while tables.folded() < due:
            upto = min(due, tables.folded() + FOLDED_MOST)
            steps = await fold(tables, upto, self._held())
            self._store.commit({}, beside=steps)
        while not tables.has_swept():
            if not self._asked:  # who began before the fold reads rows, not their sums
                self._store.commit({}, beside=tables.sweep_steps())
            await asyncio.sleep(SWEEP_PAUSE_S)
        return tables.folded() - began

    def _held(self) -> Iterator[Row]:
        yield from self._ledger.so_far(self.now_ms())

    async def _totals(self, by: str, since_ms: int | None) -> tuple[UsageRow, ...]:
        now_ms = self.now_ms()
        start_ms = 0 if since_ms is None else max(0, now_ms - since_ms)
        totals = Totals(by, start_ms)
        # What is open is looked at in the same instant in which the last row is chosen: nothing is there twice.
        upto = self._tables.last()[0]
        if since_ms is None:
            for known in self._tables.sums(by):
                totals.add_sum(known)
        for row in self._ledger.so_far(now_ms):
            totals.add(row, open_now=True)
        after = self._before(start_ms, upto)
        while after < upto:
            for number, row in self._tables.rows(after, upto):
                totals.add(row)
                after = number
            await asyncio.sleep(0)
        return totals.rows()

    def _before(self, start_ms: int, upto: int) -> int:
        """The number of a row before which all had ended by then: rows stand in the order of their ends."""
        low, high = min(self._tables.folded(), upto), upto
        while low < high:
            middle = (low + high + 1) // 2
            if self._tables.ended_ms(middle) < start_ms:
                low = middle
            else:
                high = middle - 1
        return low

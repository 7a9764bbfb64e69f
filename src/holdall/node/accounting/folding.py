"""Old rows of the account become sums: for each grouping, group and term what its rows said together, and no more.

A fold is one small transaction: sums, and up to which row they go; from then on those rows count for nothing, and are removed
bit by bit. So a crash in between leaves them all counted once, as rows or in sums. Which lease something was of is not
kept: grouped by lease, old ones stand together. A lease is counted in the sums of a group when its last row there is
folded, so it is never counted twice.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from holdall.node.accounting.intervals import Row
from holdall.node.accounting.tables import Tables
from holdall.node.accounting.totals import GROUPS, Key, Totals
from holdall.node.store import Steps

EARLIER = "earlier"
"""The group of folded leases where sums are by lease."""

By: TypeAlias = Mapping[str, Totals]


def keys() -> Iterator[tuple[str, Key]]:
    """How folded rows are grouped."""
    for by, key in GROUPS.items():
        yield by, _earlier if by == "lease" else key


async def fold(tables: Tables, upto: int, still_held: Iterable[Row]) -> Steps:
    """What folds the rows up to this number, which is not the last one's; nothing may be awaited until it is committed.

    `still_held`: looked at when all rows have been, and of leases that go on.
    """
    sums = {by: Totals(by, key=key) for by, key in keys()}
    after = tables.folded()
    while after < upto:
        for number, row in tables.rows(after, upto):
            for one in sums.values():
                one.add(row)
            after = number
        await asyncio.sleep(0)
    # Rows may come while the younger ones are looked at; none does after the last look.
    while after < (last := tables.last()[0]):
        for number, row in tables.rows(after, last):
            _counted_elsewhere(sums, row)
            after = number
        if after < tables.last()[0]:
            await asyncio.sleep(0)
    for row in still_held:
        _counted_elsewhere(sums, row)
    for by, one in sums.items():
        for known in tables.sums(by):
            one.add_sum(known)
    return tables.fold_steps(upto, {by: one.rows() for by, one in sums.items()})


def _counted_elsewhere(sums: By, row: Row) -> None:
    for one in sums.values():
        one.discount(row)


def _earlier(row: Row) -> str:
    del row
    return EARLIER

"""Judges the product's own books of each pool: `not-conserved`, `leak`."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from holdall.checker.beliefs import Hold
from holdall.checker.reading import Line
from holdall.checker.records import Audit
from holdall.checker.stories import History
from holdall.checker.verdict import Violation


def judge_books(history: History, holds: Sequence[Hold]) -> Iterator[Violation]:
    """All violations of the two rules."""
    believed = _believed_in_pools(holds)
    for audit in history.audits:
        yield from _not_conserved(history, audit)
        yield from _leak(history, audit, believed.get(audit.record.pool))


def _not_conserved(history: History, audit: Line[Audit]) -> Iterator[Violation]:
    pool, total, free, held = audit.record.pool, audit.record.total, audit.record.free, audit.record.held
    size = history.pools[pool].size if pool in history.pools else None
    reasons: list[str] = []
    if total is not None and size is not None and total != size:
        reasons.append(f"they show {total} units, the pool has {size}")
    sum_of = size if total is None else total
    if free is not None and held is not None and sum_of is not None and free + held != sum_of:
        reasons.append(f"{free} free and {held} held are not {sum_of}")
    if (free is not None and free < 0) or (held is not None and held < 0):
        reasons.append("they show less than nothing")
    if reasons:
        yield Violation(
            rule="not-conserved",
            at=audit.record.at,
            text=f"{pool}: the books of {history.when(audit.record.at)} do not add up: " + "; ".join(reasons),
            lines=(str(audit.place),),
        )


class _Believed:
    """How many units of one pool were believed held, for any window of time."""

    def __init__(self, changes: Sequence[tuple[int, int, int]]) -> None:
        """`changes`: (start, end, weight) of each belief."""
        starts = sorted((start, weight) for start, _, weight in changes)
        ends = sorted((end, weight) for _, end, weight in changes)
        self._starts = [at for at, _ in starts]
        self._ends = [at for at, _ in ends]
        self._started = [0, *accumulate(weight for _, weight in starts)]
        self._ended = [0, *accumulate(weight for _, weight in ends)]

    def held_within(self, first: int, last: int) -> int:
        """The weight of all beliefs that had a moment in the window, at its borders too."""
        return self._started[bisect_right(self._starts, last)] - self._ended[bisect_left(self._ends, first)]


def _believed_in_pools(holds: Sequence[Hold]) -> dict[str, _Believed]:
    changes: dict[str, list[tuple[int, int, int]]] = {}
    for hold in holds:
        weights = hold.weights()
        for span in hold.spans:
            for pool, weight in weights.items():
                changes.setdefault(pool, []).append((span.start, span.end, weight))
    return {pool: _Believed(of_pool) for pool, of_pool in changes.items()}


def _leak(history: History, audit: Line[Audit], believed: _Believed | None) -> Iterator[Violation]:
    record = audit.record
    held = record.held
    if held is None and record.free is not None and record.total is not None:
        held = record.total - record.free
    if not record.quiesced or held is None:
        return
    window = (record.asked - history.tolerance, record.at + history.tolerance)
    holders = 0 if believed is None else believed.held_within(*window)
    if held > holders:
        yield Violation(
            rule="leak",
            at=record.at,
            text=(
                f"{record.pool}: at rest at {history.when(record.at)} the books show {held} held, but "
                f"{holders or 'none'} had a holder"
            ),
            lines=(str(audit.place),),
        )

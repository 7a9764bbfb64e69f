"""The earliest moment at which each lease can have been given, whenever its holder heard of it.

As long as somebody else believed to hold a unit of it, it was not given yet: a unit has one holder.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import groupby

from holdall.checker.beliefs import Hold
from holdall.checker.records import FOREVER
from holdall.checker.stories import History, UnitKey
from holdall.checker.trees import LevelTree


def given_after(history: History, holds: Sequence[Hold]) -> Mapping[str, int]:
    """For each lease of which this is known: a moment after which it was given."""
    on_unit: dict[UnitKey, list[Hold]] = {}
    in_pool: dict[str, list[tuple[Hold, int]]] = {}
    for hold in holds:
        for key in hold.units:
            on_unit.setdefault(key, []).append(hold)
        for pool, weight in hold.weights().items():
            size = history.pools.get(pool)
            if size is not None and size.units is None:
                in_pool.setdefault(pool, []).append((hold, weight))
    known: dict[str, int] = {}
    for on_one in on_unit.values():
        _after_last_holder(on_one, known)
    for pool, in_one in in_pool.items():
        _after_last_lack(history.pools[pool].size, in_one, known)
    return known


def _after_last_holder(holds: list[Hold], known: dict[str, int]) -> None:
    holds.sort(key=_span)
    last_end = -FOREVER
    for _, alike in groupby(holds, _span):
        # Of two that hold one unit over the very same time (a violation of its own) neither was given after the other.
        together = list(alike)
        for hold in together:
            _learn(known, hold, last_end)
        last_end = max([last_end, *(hold.end for hold in together if hold.spans)])


def _span(hold: Hold) -> tuple[int, int]:
    return (hold.start, hold.end)


def _after_last_lack(capacity: int, holds: Sequence[tuple[Hold, int]], known: dict[str, int]) -> None:
    """Before it was given, less was left of the pool than what it got."""
    changes = sorted(
        [(hold.start, weight) for hold, weight in holds if hold.spans]
        + [(hold.end, -weight) for hold, weight in holds if hold.spans]
    )
    times = [at for at, _ in changes]
    levels: list[int] = []
    for _, change in changes:
        levels.append((levels[-1] if levels else 0) + change)
    tree = LevelTree(levels)
    for hold, weight in holds:
        # The level of place i lasts from times[i] to times[i + 1], so that is when the lack ended.
        place = tree.last_above(capacity - weight, bisect_left(times, hold.start))
        if place is not None:
            _learn(known, hold, times[place + 1] if place + 1 < len(times) else FOREVER)


def _learn(known: dict[str, int], hold: Hold, after: int) -> None:
    after = min(after, hold.start)
    if after > known.get(hold.lease, -FOREVER):
        known[hold.lease] = after

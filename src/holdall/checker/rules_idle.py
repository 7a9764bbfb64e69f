"""Judges units that lay idle while somebody waited for one: `slow-reclaim`."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdall.checker.beliefs import Hold
from holdall.checker.excuses import Excuses
from holdall.checker.records import FOREVER
from holdall.checker.stories import History, UnitKey, Wait
from holdall.checker.trees import MaxTree
from holdall.checker.verdict import Violation


class Idle(NamedTuple):
    """From `start` to `end` nobody held the unit (of a counted pool: at least one unit). `after`: who held it last."""

    pool: str
    name: str
    start: int
    end: int
    after: Hold | None


class IdleWithDemand(NamedTuple):
    """The longest part of an idle time throughout which one claim waited; counted without excused time."""

    idle: Idle
    wait: Wait
    counted: int
    start: int
    end: int


def idle_with_demand(
    history: History, holds: Sequence[Hold], waits: Sequence[Wait], excuses: Excuses
) -> list[IdleWithDemand]:
    """For each idle time that saw a claim for one unit of its pool: the claim that waited longest through it."""
    waiting: dict[str, list[Wait]] = {}
    for wait in waits:
        claim = wait.asked.record
        if len(claim.need) == 1 and not claim.alternatives:
            ((pool, number),) = claim.need.items()
            if number == 1:
                waiting.setdefault(pool, []).append(wait)
    idle_in: dict[str, list[Idle]] = {}
    for idle in _idle_times(history, holds):
        idle_in.setdefault(idle.pool, []).append(idle)
    return [
        found
        for pool in sorted(waiting)
        for found in _longest_overlaps(idle_in.get(pool, []), waiting[pool], excuses)
    ]


def judge_reclaim(
    history: History, found: Sequence[IdleWithDemand], max_reclaim: int | None
) -> Iterator[Violation]:
    """Idle times with demand longer than `max_reclaim` ns."""
    for one in found:
        if max_reclaim is None or one.counted <= max_reclaim:
            continue
        last = "nobody had held it" if one.idle.after is None else f"after lease {one.idle.after.lease}"
        yield Violation(
            rule="slow-reclaim",
            at=one.end,
            text=(
                f"{one.idle.name} lay idle for {one.counted / 1e9:.6f} s from {history.when(one.start)} to "
                f"{history.when(one.end)} ({last}), while claim {one.wait.claim} of "
                f"{one.wait.asked.record.client} waited for one unit of {one.idle.pool}; at most "
                f"{max_reclaim / 1e9:.6f} s"
            ),
            lines=(
                str(one.wait.asked.place),
                *([str(one.idle.after.grant.place)] if one.idle.after is not None else []),
            ),
        )


def _idle_times(history: History, holds: Sequence[Hold]) -> Iterator[Idle]:
    """A lease holds its units from its grant to the end of its last belief, gaps included."""
    on_unit: dict[UnitKey, list[Hold]] = {}
    in_pool: dict[str, list[tuple[Hold, int]]] = {}
    for hold in holds:
        for key in hold.units:
            on_unit.setdefault(key, []).append(hold)
        for pool, weight in hold.weights().items():
            in_pool.setdefault(pool, []).append((hold, weight))
    for pool, size in history.pools.items():
        for unit in size.units or ():
            yield from _idle_unit(pool, unit, on_unit.get((pool, unit), []))
        if size.units is None:
            yield from _idle_amount(pool, size.size, in_pool.get(pool, []))


def _idle_unit(pool: str, unit: str, holds: list[Hold]) -> Iterator[Idle]:
    holds.sort(key=lambda hold: (hold.start, hold.end))
    free_since, last = -FOREVER, None
    for hold in holds:
        if hold.start > free_since:
            yield Idle(pool, f"{pool}/{unit}", free_since, hold.start, last)
        if last is None or hold.end >= free_since:
            free_since, last = hold.end, hold
    if free_since < FOREVER:
        yield Idle(pool, f"{pool}/{unit}", free_since, FOREVER, last)


def _idle_amount(pool: str, capacity: int, holds: Sequence[tuple[Hold, int]]) -> Iterator[Idle]:
    changes = [(hold.start, 1, weight, index) for index, (hold, weight) in enumerate(holds)]
    changes += [(hold.end, 0, -weight, index) for index, (hold, weight) in enumerate(holds)]
    level, free_since, last = 0, -FOREVER if capacity > 0 else FOREVER, None
    for at, _, weight, index in sorted(changes):
        was_full = level >= capacity
        level += weight
        if level >= capacity and not was_full:
            yield Idle(pool, f"a unit of {pool}", free_since, at, last)
        elif was_full and level < capacity:
            free_since, last = at, holds[index][0]
    if level < capacity:
        yield Idle(pool, f"a unit of {pool}", free_since, FOREVER, last)


def _longest_overlaps(
    idles: Sequence[Idle], waits: Sequence[Wait], excuses: Excuses
) -> Iterator[IdleWithDemand]:
    """Three cases for each idle time: a wait that began before it, one that outlasts it, one within it."""
    clock = excuses.clock.at
    by_start = sorted(waits, key=lambda wait: (wait.since, wait.last_pause()))
    starts = [clock(wait.since) for wait in by_start]
    ends = [clock(wait.last_pause()) for wait in by_start]
    spans = [(clock(idle.start), clock(idle.end)) for idle in idles]
    best: list[tuple[int, int]] = [(0, -1)] * len(idles)  # counted time, index of the wait

    latest_end: list[int] = []  # of the waits so far, by index
    for index, end in enumerate(ends):
        latest_end.append(index if not latest_end or end > ends[latest_end[-1]] else latest_end[-1])
    for number, (start, end) in enumerate(spans):
        before = bisect_right(starts, start)
        if before:
            latest = latest_end[before - 1]
            best[number] = max(best[number], (min(end, ends[latest]) - start, latest))

    by_end = sorted(range(len(waits)), key=lambda index: ends[index])
    idles_by_end = sorted(range(len(idles)), key=lambda number: spans[number][1])
    within, position = MaxTree(len(waits)), 0
    for number in idles_by_end:
        start, end = spans[number]
        while position < len(by_end) and ends[by_end[position]] < end:
            within.put(by_end[position], ends[by_end[position]] - starts[by_end[position]])
            position += 1
        longest = within.best_in(bisect_right(starts, start), len(starts))
        if longest is not None:
            best[number] = max(best[number], longest)

    outlasting, position = MaxTree(len(waits)), len(by_end) - 1
    for number in reversed(idles_by_end):
        start, end = spans[number]
        while position >= 0 and ends[by_end[position]] >= end:
            outlasting.put(by_end[position], -starts[by_end[position]])
            position -= 1
        earliest = outlasting.best_in(bisect_right(starts, start), bisect_left(starts, end))
        if earliest is not None:
            best[number] = max(best[number], (end + earliest[0], earliest[1]))

    for number, (counted, index) in enumerate(best):
        if index >= 0 and counted > 0:
            idle, wait = idles[number], by_start[index]
            yield IdleWithDemand(
                idle, wait, counted, max(idle.start, wait.since), min(idle.end, wait.last_pause())
            )

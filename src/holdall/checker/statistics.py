"""Counts what happened, so that a run that passed because nothing happened is seen as one."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from holdall.checker.beliefs import Hold
from holdall.checker.records import FOREVER
from holdall.checker.rules_idle import IdleWithDemand
from holdall.checker.rules_leases import deadlines_of
from holdall.checker.rules_waiting import Overtakes
from holdall.checker.stories import History, UnitKey, Wait
from holdall.checker.verdict import Statistics


def statistics_of(
    history: History,
    *,
    holds: Sequence[Hold],
    waits: Sequence[Wait],
    idle: Sequence[IdleWithDemand],
    overtakes: Sequence[Overtakes],
) -> Statistics:
    """All counts and times of the verdict."""
    granted = sorted(wait.until - wait.since for wait in waits if wait.outcome == "granted")
    stories = [story for story in history.claims.values() if story.asked]
    return Statistics(
        files=history.files,
        lines=history.lines,
        torn_lines=history.torn,
        claims=len(stories),
        grants=sum(len(story.grants) for story in history.claims.values()),
        contended=_contended(history, holds),
        refused=sum(1 for story in stories if any(fail.record.definite for fail in story.fails)),
        unknown=sum(
            1
            for story in stories
            if not story.grants and not any(fail.record.definite for fail in story.fails)
        ),
        crashes=len(history.crashes),
        faults=dict(sorted(Counter(line.record.kind for line in history.faults).items())),
        wait_p50=_nearest_rank(granted, 50),
        wait_p99=_nearest_rank(granted, 99),
        wait_max=granted[-1] if granted else None,
        idle_with_demand=max((one.counted for one in idle), default=None),
        overtakes=max((entry.number for entry in overtakes), default=0),
        peak_use=_peak_use(history, holds),
        uses=len(history.uses),
        refused_uses=sum(1 for line in history.uses if not line.record.accepted),
        deadlines_unproven=sum(
            1
            for lease in history.leases.values()
            for deadline in deadlines_of(lease)
            if deadline.safe_until is None and deadline.told < FOREVER
        ),
        unrecorded_leases=sum(1 for lease in history.leases.values() if not lease.grants),
    )


def _nearest_rank(ordered: Sequence[int], percent: int) -> int | None:
    if not ordered:
        return None
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def _contended(history: History, holds: Sequence[Hold]) -> int:
    """Leases that were asked for while the last holder of one of their units still held it.

    A counted pool was contended if what was free of it then was less than what the lease got.
    """
    contended: set[str] = set()
    on_unit: dict[UnitKey, list[Hold]] = {}
    in_pool: dict[str, list[tuple[Hold, int]]] = {}
    for hold in holds:
        for key in hold.units:
            on_unit.setdefault(key, []).append(hold)
        for pool, weight in hold.amounts.items():
            in_pool.setdefault(pool, []).append((hold, weight))
    for on_one in on_unit.values():
        on_one.sort(key=lambda hold: (hold.start, hold.end))
        last_end = -FOREVER
        for hold in on_one:
            if hold.asked_at is not None and hold.asked_at < last_end:
                contended.add(hold.lease)
            last_end = max(last_end, hold.end)
    for pool, in_one in in_pool.items():
        if pool in history.pools:
            contended.update(_contended_amounts(history.pools[pool].size, in_one))
    return len(contended)


def _contended_amounts(capacity: int, holds: Sequence[tuple[Hold, int]]) -> set[str]:
    changes = sorted(
        [(hold.start, weight) for hold, weight in holds] + [(hold.end, -weight) for hold, weight in holds]
    )
    times = [at for at, _ in changes]
    levels = [0]
    for _, weight in changes:
        levels.append(levels[-1] + weight)
    return {
        hold.lease
        for hold, weight in holds
        if hold.asked_at is not None and levels[bisect_left(times, hold.asked_at)] + weight > capacity
    }


def _peak_use(history: History, holds: Sequence[Hold]) -> dict[str, int]:
    changes: dict[str, list[tuple[int, int]]] = {pool: [] for pool in history.pools}
    for hold in holds:
        weights = hold.weights()
        for span in hold.spans:
            for pool, weight in weights.items():
                changes.setdefault(pool, []).extend(((span.start, weight), (span.end, -weight)))
    peaks: dict[str, int] = {}
    for pool in sorted(changes):
        level = peak = 0
        for _, weight in sorted(changes[pool]):  # what ends at a moment ends before what starts at it
            level += weight
            peak = max(peak, level)
        peaks[pool] = peak
    return peaks

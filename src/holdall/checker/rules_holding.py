"""Judges who believed to hold what at once: `double-hold`, `over-capacity`.

Two beliefs are only said to overlap when they do so for longer than twice the clock error.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from holdall.checker.beliefs import Hold, Span
from holdall.checker.stories import History, UnitKey
from holdall.checker.verdict import Violation

NAMED_AT_MOST = 8


class Belief(NamedTuple):
    """One span of one hold."""

    span: Span
    hold: Hold


def judge_holding(history: History, holds: Sequence[Hold]) -> Iterator[Violation]:
    """All violations of the two rules."""
    beliefs_on: dict[UnitKey, list[Belief]] = {}
    beliefs_in: dict[str, list[tuple[Belief, int]]] = {}
    for hold in holds:
        for span in hold.spans:
            for key in hold.units:
                beliefs_on.setdefault(key, []).append(Belief(span, hold))
            for pool, weight in hold.weights().items():
                size = history.pools.get(pool)
                if size is not None and size.capacity is not None:
                    beliefs_in.setdefault(pool, []).append((Belief(span, hold), weight))
    for key in sorted(beliefs_on):
        yield from _double_holds(history, key, beliefs_on[key])
    for pool in sorted(beliefs_in):
        yield from _over_capacity(history, pool, beliefs_in[pool])


def _double_holds(history: History, key: UnitKey, beliefs: list[Belief]) -> Iterator[Violation]:
    """Each belief is compared with the earlier one that lasts longest: if any overlaps, that one does."""
    beliefs.sort(key=lambda belief: (belief.span.start, belief.hold.grant.place))
    longest = beliefs[0]
    for belief in beliefs[1:]:
        overlap = min(longest.span.end, belief.span.end) - belief.span.start
        if overlap > history.tolerance and longest.hold is not belief.hold:
            yield Violation(
                rule="double-hold",
                at=belief.span.start,
                text=(
                    f"{key[0]}/{key[1]}: {_holder(belief.hold, key)} believed to hold it from "
                    f"{history.when(belief.span.start)}, while {_holder(longest.hold, key)} believed so from "
                    f"{history.when(longest.span.start)} to {history.when(longest.span.end)} "
                    f"(ended by {longest.span.ended_by})"
                ),
                lines=(str(longest.hold.grant.place), str(belief.hold.grant.place)),
            )
        if belief.span.end > longest.span.end:
            longest = belief


def _over_capacity(history: History, pool: str, beliefs: Sequence[tuple[Belief, int]]) -> Iterator[Violation]:
    """Spans shortened by the tolerance have a common moment only if the whole ones share more than it."""
    capacity = history.pools[pool].size
    early, late = history.tolerance // 2, history.tolerance - history.tolerance // 2
    changes: list[tuple[int, int, int]] = []  # at, 0 = end and 1 = start, index of the belief
    for index, (belief, _) in enumerate(beliefs):
        start, end = belief.span.start + early, belief.span.end - late
        if start < end:
            changes += [(start, 1, index), (end, 0, index)]
    held: dict[int, None] = {}
    level = 0
    for at, is_start, index in sorted(changes):
        belief, weight = beliefs[index]
        if not is_start:
            level -= weight
            del held[index]
            continue
        was_over = level > capacity
        level += weight
        held[index] = None
        if level > capacity and not was_over:
            named = list(islice(reversed(held), NAMED_AT_MOST))
            rest = f" and {len(held) - len(named)} more" if len(held) > len(named) else ""
            yield Violation(
                rule="over-capacity",
                at=at,
                text=(
                    f"{pool}: {level} of {capacity} believed held at {history.when(at)}, by "
                    + ", ".join(f"{_lease(beliefs[i][0].hold)} ({beliefs[i][1]})" for i in named)
                    + rest
                ),
                lines=tuple(str(beliefs[i][0].hold.grant.place) for i in named),
            )


def _holder(hold: Hold, key: UnitKey) -> str:
    fence = hold.units[key]
    return f"{_lease(hold)} with " + ("no fence" if fence is None else f"fence {fence}")


def _lease(hold: Hold) -> str:
    return f"lease {hold.lease} of {hold.client}"

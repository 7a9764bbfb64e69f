"""Judges what the guarded units themselves accepted: `stale-use`, `overlapping-use`."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from holdall.checker.reading import Line
from holdall.checker.records import Use
from holdall.checker.stories import History, UnitKey
from holdall.checker.verdict import Violation

_Ended: TypeAlias = tuple[int, Line[Use]]
"""(when a use ended, the use)"""


def judge_uses(history: History) -> Iterator[Violation]:
    """All violations of the two rules, unit by unit."""
    accepted: dict[UnitKey, list[Line[Use]]] = {}
    for line in history.uses:
        if line.record.accepted:
            accepted.setdefault((line.record.pool, line.record.unit), []).append(line)
    for key in sorted(accepted):
        uses = sorted(accepted[key], key=lambda line: (line.record.start, _end_of(line.record), line.place))
        yield from _stale(history, f"{key[0]}/{key[1]}", uses)
        yield from _overlapping(history, f"{key[0]}/{key[1]}", uses)


def _end_of(use: Use) -> int:
    """A use whose end nobody saw counts as a moment: no overlap is guessed."""
    return use.start if use.end is None else use.end


def _stale(history: History, name: str, uses: Sequence[Line[Use]]) -> Iterator[Violation]:
    highest: Line[Use] | None = None
    index = 0
    for line in uses:
        while uses[index].record.start + history.tolerance < line.record.start:
            if highest is None or uses[index].record.fence > highest.record.fence:
                highest = uses[index]
            index += 1
        if highest is not None and line.record.fence < highest.record.fence:
            yield Violation(
                rule="stale-use",
                at=line.record.start,
                text=(
                    f"{name} accepted fence {line.record.fence} at {history.when(line.record.start)} after fence "
                    f"{highest.record.fence} at {history.when(highest.record.start)}"
                ),
                lines=(str(highest.place), str(line.place)),
            )


def _overlapping(history: History, name: str, uses: Sequence[Line[Use]]) -> Iterator[Violation]:
    """One number may be used several times at once; of two numbers only one may be in use.

    Kept are the use that lasts longest so far and the one that lasts longest among all other numbers.
    """
    longest: _Ended | None = None
    second: _Ended | None = None
    for line in uses:
        fence, end = line.record.fence, _end_of(line.record)
        other = longest if longest is None or longest[1].record.fence != fence else second
        if other is not None and _in_use_at_once(other[1].record, line.record, history.tolerance):
            yield _overlap(history, name, other[1], line)
        if longest is None or end > longest[0]:
            if longest is not None and longest[1].record.fence != fence:
                second = longest
            longest = (end, line)
        elif longest[1].record.fence != fence and (second is None or end > second[0]):
            second = (end, line)


def _in_use_at_once(before: Use, later: Use, tolerance: int) -> bool:
    """`later` did not start first. A moment lies within a use if it is certainly after its start and before its end."""
    if _end_of(later) == later.start:
        return before.start + tolerance < later.start < _end_of(before) - tolerance
    return min(_end_of(before), _end_of(later)) - later.start > tolerance


def _overlap(history: History, name: str, before: Line[Use], line: Line[Use]) -> Violation:
    return Violation(
        rule="overlapping-use",
        at=line.record.start,
        text=(
            f"{name} accepted fence {line.record.fence} at {history.when(line.record.start)} while fence "
            f"{before.record.fence} was in use from {history.when(before.record.start)} to "
            f"{history.when(_end_of(before.record))}"
        ),
        lines=(str(before.place), str(line.place)),
    )

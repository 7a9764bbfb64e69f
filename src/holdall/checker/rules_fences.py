"""Judges the fencing numbers of each unit: `fence-reuse`, `fence-order`, `fence-regress`.

A grant certainly came later than another in two cases: it was asked for after the other was received, or both
were believed and the other's belief had ended. The books of the product (audits) say which number was given
last; what they forget is a regress.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from holdall.checker.beliefs import Hold
from holdall.checker.reading import Place
from holdall.checker.stories import History, UnitKey
from holdall.checker.verdict import Violation


class Given(NamedTuple):
    """A number given with a unit. `asked`: it was given after that, if known; `spans` as in the hold."""

    fence: int
    at: int
    asked: int | None
    believed: tuple[int, int] | None
    """From the first moment of belief to the last."""
    lease: str
    place: Place


class Booked(NamedTuple):
    """The highest number given, as the product's books say: asked for and answered."""

    fence: int
    asked: int
    at: int
    place: Place


class _Known(NamedTuple):
    """A number that was certainly given by the time `at`."""

    at: int
    fence: int
    what: str
    place: Place
    from_books: bool


@dataclass(slots=True)
class _Unit:
    given: list[Given] = field(default_factory=list[Given])
    booked: list[Booked] = field(default_factory=list[Booked])


def judge_fences(history: History, holds: Sequence[Hold]) -> Iterator[Violation]:
    """All violations of the three rules, unit by unit."""
    units: dict[UnitKey, _Unit] = {}
    for hold in holds:
        record = hold.grant.record
        believed = (hold.spans[0].start, hold.spans[-1].end) if hold.spans else None
        for key, fence in hold.units.items():
            if fence is not None:
                given = Given(fence, record.at, hold.asked_at, believed, hold.lease, hold.grant.place)
                units.setdefault(key, _Unit()).given.append(given)
    for audit in history.audits:
        for unit, fence in audit.record.fences.items():
            booked = Booked(fence, audit.record.asked, audit.record.at, audit.place)
            units.setdefault((audit.record.pool, unit), _Unit()).booked.append(booked)
    for key in sorted(units):
        name = f"{key[0]}/{key[1]}"
        yield from _reused(history, name, units[key].given)
        yield from _later_but_lower(history, name, units[key])
        yield from _believed_later_but_lower(history, name, units[key].given)


def _reused(history: History, name: str, given: Sequence[Given]) -> Iterator[Violation]:
    first: dict[int, Given] = {}
    for one in sorted(given, key=lambda one: (one.at, one.place)):
        before = first.setdefault(one.fence, one)
        if before is not one:
            yield Violation(
                rule="fence-reuse",
                at=one.at,
                text=(
                    f"{name}: fence {one.fence} was given to lease {before.lease} at {history.when(before.at)} "
                    f"and to lease {one.lease} at {history.when(one.at)}"
                ),
                lines=(str(before.place), str(one.place)),
            )


def _later_but_lower(history: History, name: str, unit: _Unit) -> Iterator[Violation]:
    """What was known before somebody asked is compared with what he was told."""
    known = [_Known(one.at, one.fence, f"lease {one.lease} had", one.place, False) for one in unit.given]
    known += [_Known(one.at, one.fence, "the books showed", one.place, True) for one in unit.booked]
    known.sort()
    asking: list[tuple[int, int, Given | Booked]] = []
    asking += [(one.asked, 1, one) for one in unit.given if one.asked is not None]
    asking += [(one.asked, 0, one) for one in unit.booked]
    asking.sort(key=lambda ask: (ask[0], ask[1], ask[2].place))
    highest_given: _Known | None = None
    highest_booked: _Known | None = None
    index = 0
    for asked, _, one in asking:
        while index < len(known) and known[index].at + history.tolerance < asked:
            now = known[index]
            if now.from_books:
                highest_booked = (
                    now if highest_booked is None or now.fence >= highest_booked.fence else highest_booked
                )
            else:
                highest_given = (
                    now if highest_given is None or now.fence >= highest_given.fence else highest_given
                )
            index += 1
        if isinstance(one, Booked):
            for before in (highest_given, highest_booked):
                if before is not None and one.fence < before.fence:
                    yield _regress(history, name, before, one)
                    break
            continue
        if highest_given is not None and one.fence < highest_given.fence:
            yield _out_of_order(history, name, highest_given, one)
        if highest_booked is not None and one.fence <= highest_booked.fence:
            yield _regress(history, name, highest_booked, one)


def _believed_later_but_lower(history: History, name: str, given: Sequence[Given]) -> Iterator[Violation]:
    """Two leases that were both in force one after the other; pairs of the case above are left to it."""
    by_start = [(one.believed[0], one) for one in given if one.believed is not None]
    by_end = [(one.believed[1], one) for one in given if one.believed is not None]
    by_start.sort(key=lambda pair: (pair[0], pair[1].place))
    by_end.sort(key=lambda pair: (pair[0], pair[1].place))
    highest: Given | None = None
    index = 0
    for start, one in by_start:
        while index < len(by_end) and by_end[index][0] + history.tolerance <= start:
            before = by_end[index][1]
            if highest is None or before.fence > highest.fence:
                highest = before
            index += 1
        if highest is None or one.fence >= highest.fence:
            continue
        if one.asked is None or highest.at + history.tolerance >= one.asked:
            yield _out_of_order(
                history,
                name,
                _Known(highest.at, highest.fence, f"lease {highest.lease} had", highest.place, False),
                one,
            )


def _out_of_order(history: History, name: str, before: _Known, one: Given) -> Violation:
    return Violation(
        rule="fence-order",
        at=one.at,
        text=(
            f"{name}: lease {one.lease} was given fence {one.fence} at {history.when(one.at)}, though "
            f"{before.what} {before.fence} from {history.when(before.at)}"
        ),
        lines=(str(before.place), str(one.place)),
    )


def _regress(history: History, name: str, before: _Known, one: Given | Booked) -> Violation:
    now = f"lease {one.lease} was given" if isinstance(one, Given) else "the books show"
    return Violation(
        rule="fence-regress",
        at=one.at,
        text=(
            f"{name}: {now} {one.fence} at {history.when(one.at)}, though {before.what} {before.fence} at "
            f"{history.when(before.at)}: a number was forgotten"
        ),
        lines=(str(before.place), str(one.place)),
    )

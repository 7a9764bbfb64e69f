"""Judges how long claims waited and who went first: `starvation`, `overtaken`."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from holdall.checker.excuses import Excuses
from holdall.checker.reading import Place
from holdall.checker.records import Claim
from holdall.checker.stories import History, Wait
from holdall.checker.trees import CountTree
from holdall.checker.verdict import Violation

NAMED_AT_MOST = 5
VIOLATIONS_WITH_NAMES = 10

_Equals: TypeAlias = tuple[object, ...]
"""What claims of equal right have in common: group and need."""


def judge_starvation(
    history: History, waits: Sequence[Wait], excuses: Excuses, max_wait: int | None
) -> Iterator[Violation]:
    """Waits longer than `max_wait` ns without the excused time; claims that still wait at the end."""
    for wait in waits:
        if wait.outcome == "crashed":
            continue
        counted = excuses.counted(wait.asked.record.client, wait.since, wait.until)
        who = f"claim {wait.claim} of {wait.asked.record.client}, asked at {history.when(wait.since)},"
        if wait.outcome == "open" and history.end_at is not None:
            text = f"{who} still waits at the end, {history.when(history.end_at)}"
        elif max_wait is not None and counted > max_wait:
            excused = wait.until - wait.since - counted
            aside = f", {excused / 1e9:.6f} s of excused faults aside" if excused else ""
            text = (
                f"{who} waited {counted / 1e9:.6f} s until {history.when(wait.until)} ({wait.outcome}), longer "
                f"than {max_wait / 1e9:.6f} s{aside}"
            )
        else:
            continue
        yield Violation(
            rule="starvation",
            at=wait.until,
            text=text,
            lines=(str(wait.asked.place), *(str(line.place) for line in wait.queued[:1])),
        )


class Overtakes(NamedTuple):
    """How many claims of equal right passed one claim in a time; `bound` as stated, None without one."""

    wait: Wait
    since: int
    """They were asked after this: the claim was in the queue by then."""
    until: int
    """They were granted before this."""
    bound: int | None
    stated: Place | None
    number: int


def overtakes_of(history: History, waits: Sequence[Wait], given_after: Mapping[str, int]) -> list[Overtakes]:
    """For each claim one entry for each statement of a bound, from it to the next one; without any, one in all.

    Counted is what was certainly asked later and certainly granted first. Receipts can change places on their
    way, so for the later one the moment counts at which a unit of it was still somebody else's (`given_after`,
    by lease); and a claim that learned that it was in the queue can only be passed by what was asked after that.
    A statement holds until the next one, which may be that there is no bound now, and until its client is paused:
    whoever is silent may lose his place.
    """
    classes: dict[_Equals, list[Wait]] = {}
    for wait in waits:
        classes.setdefault(_equals(wait.asked.record), []).append(wait)
    found: list[Overtakes] = []
    for members in classes.values():
        found += _overtakes_within(history, members, given_after)
    return found


def _equals(claim: Claim) -> _Equals:
    needs = [
        tuple(sorted((pool, str(number)) for pool, number in need.items()))
        for need in (claim.need, *claim.alternatives)
    ]
    return (claim.group, *needs)


def _overtakes_within(
    history: History, members: Sequence[Wait], given_after: Mapping[str, int]
) -> Iterator[Overtakes]:
    """Who is granted before the end of a window is marked at the place of its asking; then count the late askers."""
    windows = [window for wait in members for window in _windows(wait, given_after)]
    windows.sort(key=lambda window: (window.until, window.since))
    granted = sorted(
        (wait for wait in members if wait.outcome == "granted"), key=lambda wait: (wait.until, wait.since)
    )
    asked = sorted(wait.since for wait in granted)
    marks = CountTree(len(asked))
    index = 0
    for window in windows:
        while index < len(granted) and granted[index].until + history.tolerance < window.until:
            marks.mark(bisect_right(asked, granted[index].since) - 1)
            index += 1
        late = bisect_right(asked, window.since + history.tolerance)
        yield window._replace(number=marks.marked_from(late))


def _windows(wait: Wait, given_after: Mapping[str, int]) -> Iterator[Overtakes]:
    if not wait.is_certain:
        return
    end = wait.until if wait.lease is None else given_after.get(wait.lease, wait.since)
    queued = [line for line in wait.queued if wait.since <= line.record.at <= wait.until]
    stated = [line for line in queued if line.record.bound is not None]
    if not stated:
        since = queued[0].record.at if queued else wait.since
        yield Overtakes(wait, since, min(end, wait.undisturbed_from(since)), None, None, 0)
        return
    following = [*(line.record.at for line in queued[1:]), end]
    for line, until in zip(queued, following, strict=True):
        since = line.record.at
        if line.record.bound is None:
            continue
        until_then = min(until, end, wait.undisturbed_from(since))
        yield Overtakes(wait, since, until_then, line.record.bound, line.place, 0)


def judge_overtakes(history: History, found: Sequence[Overtakes]) -> Iterator[Violation]:
    """More than the stated bound, else more than the history's `max_overtakes`."""
    general = history.setups[0].record.max_overtakes if history.setups else None
    named = 0
    for entry in found:
        bound = general if entry.bound is None else entry.bound
        if bound is None or entry.number <= bound:
            continue
        named += 1
        others = _first_overtakers(history, entry) if named <= VIOLATIONS_WITH_NAMES else []
        by = f", {', '.join(other.claim for other in others)} among them" if others else ""
        why = "as stated" if entry.stated is not None else "as the history allows"
        yield Violation(
            rule="overtaken",
            at=entry.until,
            text=(
                f"claim {entry.wait.claim} of {entry.wait.asked.record.client}, in the queue at "
                f"{history.when(entry.since)}, was passed by {entry.number} later claims of the same need before "
                f"{history.when(entry.until)}; at most {bound} {why}{by}"
            ),
            lines=(
                str(entry.wait.asked.place),
                *([str(entry.stated)] if entry.stated is not None else []),
                *(str(other.asked.place) for other in others),
            ),
        )


def _first_overtakers(history: History, entry: Overtakes) -> list[Wait]:
    """Names for people; looks through all claims, so it is asked for a bounded number of violations only."""
    equals = _equals(entry.wait.asked.record)
    others = [
        other
        for other in history.waits()
        if other.outcome == "granted"
        and other.since > entry.since + history.tolerance
        and other.until + history.tolerance < entry.until
        and _equals(other.asked.record) == equals
    ]
    others.sort(key=lambda other: (other.until, other.since))
    return others[:NAMED_AT_MOST]

"""Reads histories, applies every rule, and says what was proved."""

from collections.abc import Sequence
from pathlib import Path

from holdall.checker.beliefs import holds_of
from holdall.checker.excuses import Excuses
from holdall.checker.order import given_after
from holdall.checker.reading import Reading, read_files
from holdall.checker.records import Duration, nanoseconds
from holdall.checker.rules_books import judge_books
from holdall.checker.rules_fences import judge_fences
from holdall.checker.rules_holding import judge_holding
from holdall.checker.rules_idle import idle_with_demand, judge_reclaim
from holdall.checker.rules_leases import judge_leases
from holdall.checker.rules_outcomes import judge_outcomes
from holdall.checker.rules_uses import judge_uses
from holdall.checker.rules_waiting import judge_overtakes, judge_starvation, overtakes_of
from holdall.checker.statistics import statistics_of
from holdall.checker.stories import History, Wait, put_together
from holdall.checker.verdict import Floors, Statistics, Verdict, Violation


def judge(paths: Sequence[Path], floors: Floors | None = None, *, max_wait_ns: int | None = None) -> Verdict:
    """The verdict on the histories in `paths` (files of JSON lines, in any order).

    `floors`: the least that must have happened. `max_wait_ns`: in place of the longest wait that the history
    allows. Bad files and lines raise nothing: they are damage in the verdict.
    """
    return judge_reading(read_files(paths), floors, max_wait_ns=max_wait_ns)


def judge_reading(
    reading: Reading, floors: Floors | None = None, *, max_wait_ns: int | None = None
) -> Verdict:
    """As `judge`, of lines that were read already."""
    history = put_together(reading)
    holds = holds_of(history)
    waits = list(history.waits())
    excuses = Excuses(history.faults, history.horizon)
    overtakes = overtakes_of(history, waits, given_after(history, holds))
    idle = idle_with_demand(history, holds, waits, excuses)
    setup = history.setups[0].record if history.setups else None
    violations: list[Violation] = [
        *judge_holding(history, holds),
        *judge_fences(history, holds),
        *judge_outcomes(history),
        *judge_uses(history),
        *judge_leases(history),
        *judge_books(history, holds),
        *judge_starvation(
            history,
            waits,
            excuses,
            _ns(setup.max_wait if setup else None) if max_wait_ns is None else max_wait_ns,
        ),
        *judge_overtakes(history, overtakes),
        *judge_reclaim(history, idle, _ns(setup.max_reclaim if setup else None)),
    ]
    violations.sort(key=lambda violation: (violation.at, violation.rule, violation.lines))
    statistics = statistics_of(history, holds=holds, waits=waits, idle=idle, overtakes=overtakes)
    return Verdict(
        violations=violations,
        damage=[*reading.problems, *_contradictory_lines(history, statistics)],
        shortfalls=[*_not_judged(history, waits), *_below(floors or Floors(), statistics)],
        statistics=statistics,
    )


def _ns(duration: Duration | None) -> int | None:
    return None if duration is None else nanoseconds(duration)


def _contradictory_lines(history: History, statistics: Statistics) -> list[str]:
    """Whole lines that cannot all be meant: the history does not say what happened."""
    damage: list[str] = []
    if any(line.record != history.setups[0].record for line in history.setups[1:]):
        places = ", ".join(str(line.place) for line in history.setups)
        damage.append(f"several meta lines that differ ({places}): keep the one that is meant")
    if any(line.record != history.ends[0].record for line in history.ends[1:]):
        places = ", ".join(str(line.place) for line in history.ends)
        damage.append(f"several end lines that differ ({places}): judge one run at a time")
    for story in history.claims.values():
        answers = [*story.queued, *story.fails]
        if answers and not story.asked:
            damage.append(
                f"{answers[0].place}: an answer to claim {story.claim}, of which no claim line is here"
            )
    if statistics.unrecorded_leases and not history.crashes and not history.torn:
        # Without a crash whoever renews a lease has lived to record its grant.
        lease = next(lease for lease in history.leases.values() if not lease.grants)
        lines = [*lease.renewals, *lease.releases, *lease.losses, *lease.resumes]
        more = (
            f" (and {statistics.unrecorded_leases - 1} more leases)"
            if statistics.unrecorded_leases > 1
            else ""
        )
        damage.append(f"{lines[0].place}: lease {lease.lease} has no grant line here{more}")
    if history.setups:
        damage += [
            f"{use.place}: there is no {use.record.pool}/{use.record.unit}"
            for use in history.uses
            if not history.exists(use.record.pool, use.record.unit)
        ]
        damage += [
            f"{audit.place}: there is no pool {audit.record.pool}"
            for audit in history.audits
            if audit.record.pool not in history.pools
        ]
    return damage


def _not_judged(history: History, waits: Sequence[Wait]) -> list[str]:
    """Rules that lacked what they need."""
    if history.lines == 0:
        return ["nothing was recorded"]
    shortfalls: list[str] = []
    if not history.setups:
        shortfalls.append(
            "no meta line says which pools exist: unknown units, needs that nothing can meet and over-commitment "
            'were not judged. Add a file with one: {"t":"meta","pools":{"psu":{"units":["psu-1","psu-2"]}}}'
        )
    unanswered = sum(1 for wait in waits if wait.outcome == "open")
    if history.end_at is None and unanswered:
        shortfalls.append(f"no end line: {unanswered} claims without an outcome may still be waiting")
    if history.end_at is not None:
        late = [wait for wait in waits if wait.since > (history.end_at or 0) + history.tolerance]
        if late:
            shortfalls.append(f"{late[0].asked.place}: claim {late[0].claim} was asked after the end")
    return shortfalls


def _below(floors: Floors, statistics: Statistics) -> list[str]:
    counted = (
        ("grants", statistics.grants, floors.grants),
        ("contended grants", statistics.contended, floors.contended),
        ("faults", statistics.crashes + sum(statistics.faults.values()), floors.faults),
    )
    return [f"{number} {what}, at least {floor} wanted" for what, number, floor in counted if number < floor]

"""Needs that can never be met, found before a job begins: each task's needs against all units that exist.

As for a claim (quarantined, draining and held units count), and with the same rule of reach: units of `host` pools are of
use on the node where the command will run: the one that `on` names, or the one that the job is started on.
"""

import itertools
from collections.abc import Mapping, Sequence

from holdall.jobs.file import ReadJob
from holdall.jobs.problems import PROBLEMS_MAX, BadJob, Problem, nearest
from holdall.jobs.spec import instances_of, needs_of
from holdall.model.frames import PoolRow, Selector
from holdall.model.spec import ALL_COUNT, parse_spec, show_spec

CHOICES_MAX = 64
"""Combinations of alternatives of one task that are tried; with more of them only each need alone is judged."""


def check_needs(read: ReadJob, pools: Sequence[PoolRow], *, here: str) -> None:
    """Raises BadJob with a problem for each need that can't be met, as units exist now."""
    problems: list[Problem] = []
    for task in read.spec.tasks:
        if len(problems) >= PROBLEMS_MAX:
            break
        place = task.on or here
        told: set[int] = set()
        for instance in instances_of(task):
            needs = [tuple(parse_spec(spec) for spec in need) for need in needs_of(task, instance)]
            for number, need in enumerate(needs):
                if number not in told and not any(_fits((option,), pools, place) for option in need):
                    told.add(number)
                    text = _why(instance.name, need, pools, place)
                    problems.append(read.problem(text, "task", task.name, "needs", number))
            if not told and not _together(needs, pools, place):
                told.add(-1)
                text = f'task "{instance.name}" can never have all its needs at once: they share units, and too few exist'
                problems.append(read.problem(text, "task", task.name, "needs"))
    if problems:
        raise BadJob(read.source, problems)


def _together(needs: Sequence[tuple[Selector, ...]], pools: Sequence[PoolRow], here: str) -> bool:
    choices = list(itertools.islice(itertools.product(*needs), CHOICES_MAX + 1))
    return len(choices) > CHOICES_MAX or any(_fits(choice, pools, here) for choice in choices)


def _fits(wanted: Sequence[Selector], pools: Sequence[PoolRow], here: str) -> bool:
    """Whether distinct units for all of them exist: demands flow to pools, one path after the other."""
    free = [row.total for row in pools]
    given: list[dict[int, int]] = [{} for _ in wanted]
    reach = [[place for place, row in enumerate(pools) if _serves(row, one, here)] for one in wanted]
    for number, one in enumerate(wanted):
        left = 1 if one.count == ALL_COUNT else one.count
        while left:
            got = _give(number, left, reach, free, given, set())
            if not got:
                return False
            left -= got
    return True


def _give(
    number: int,
    amount: int,
    reach: Sequence[Sequence[int]],
    free: list[int],
    given: list[dict[int, int]],
    seen: set[int],
) -> int:
    """Give some units to one need, moving others elsewhere if that helps; how many."""
    for pool in reach[number]:
        if free[pool]:
            got = min(amount, free[pool])
            free[pool] -= got
            given[number][pool] = given[number].get(pool, 0) + got
            return got
    for pool in reach[number]:
        if pool in seen:
            continue
        seen.add(pool)
        for other, has in enumerate(given):
            if other == number or not has.get(pool):
                continue
            moved = _give(other, min(amount, has[pool]), reach, free, given, seen)
            if moved:
                has[pool] -= moved
                given[number][pool] = given[number].get(pool, 0) + moved
                return moved
    return 0


def _serves(row: PoolRow, wanted: Selector, here: str) -> bool:
    labels: Mapping[str, str] = row.labels
    return (
        row.pool in wanted.pools
        and (not wanted.node or row.node == wanted.node)
        and (row.reach != "host" or row.node == here)
        and all(labels.get(key) == value for key, value in wanted.labels)
    )


def _why(name: str, need: Sequence[Selector], pools: Sequence[PoolRow], here: str) -> str:
    asked = " or ".join(show_spec(option) for option in need)
    first = need[0]
    known = sorted({row.pool for row in pools})
    missing = [pool for pool in first.pools if pool not in known]
    if missing:
        return f'task "{name}" can never have {asked}: there is no pool "{missing[0]}".{nearest(missing[0], known)}'
    fitting = [row for row in pools if _serves(row, first, here)]
    elsewhere = [
        row
        for row in pools
        if row.reach == "host" and row.node != here and row.pool in first.pools and not fitting
    ]
    if elsewhere:
        return (
            f'task "{name}" can never have {asked}: these units are of use on {elsewhere[0].node} only '
            f'(reach = host). Let it run there: on = "{elsewhere[0].node}"'
        )
    exist = sum(row.total for row in fitting)
    return (
        f'task "{name}" can never have {asked}: {exist} such units exist. Ask for fewer, or relax its labels'
    )

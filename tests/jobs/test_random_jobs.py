"""Random jobs on random ways through their worlds: larger than what can be walked as a whole, judged by the same rules."""

import random

import pytest
from jobs.judge import judge
from jobs.scripts import job
from jobs.small_world import World

from holdall.jobs.entries import Launched
from holdall.jobs.machine import JobMachine
from holdall.jobs.spec import JobSpec, Kind

KINDS: tuple[Kind, ...] = (
    "ok",
    "ok",
    "ok",
    "failed",
    "lost",
    "interrupted",
    "unstarted",
    "not-granted",
    "timeout",
)
MOVES_MAX = 5_000


def random_job(lot: random.Random) -> JobSpec:
    lines: list[str] = []
    groups: list[str] = []
    names: list[str] = []
    for number in range(lot.randint(3, 9)):
        before = lot.sample(names, lot.randint(0, min(3, len(names))))
        lines += [f"[task.t{number}]", "run = ['x']"]
        if before and lot.random() < 0.5:
            parts = [
                f"{'not ' if lot.random() < 0.3 else ''}{name}.{lot.choice(['ok', 'failed', 'skipped'])}"
                for name in before
            ]
            lines.append(f"when = '{lot.choice([' and ', ' or ']).join(parts)}'")
        elif before:
            lines.append(f"after = {before}")
        if lot.random() < 0.4:
            on = lot.sample(["failed", "timeout", "lost", "not-granted", "interrupted"], lot.randint(1, 5))
            wait = lot.choice(["0s", "1s"])
            lines.append(f"retry = {{ times = {lot.randint(1, 3)}, wait = '{wait}', on = {on} }}")
        if lot.random() < 0.2:
            groups += [
                f"[group.g{number}]",
                f"tasks = ['t{number}']",
                f"until = 't{number}.{lot.choice(['ok', 'failed'])}'",
                f"times = {lot.randint(1, 3)}",
            ]
        elif lot.random() < 0.3:
            until = lot.choice(["", ", until = 'ok'", ", until = 'failed'", ", until = 1"])
            lines.append(
                f"repeat = {{ times = {lot.randint(1, 3)}, wait = '{lot.choice(['0s', '1s'])}'{until} }}"
            )
        if lot.random() < 0.3:
            lines.append(f"foreach = {[str(one) for one in range(lot.randint(1, 3))]}")
        if lot.random() < 0.3:
            lines.append("may_fail = true")
        names.append(f"t{number}")
    return job("\n".join([*lines, *groups]))


@pytest.mark.parametrize("seed", range(40))
def test_a_random_job_keeps_all_rules_whatever_happens_to_it(seed: int) -> None:
    lot = random.Random(seed)
    for _ in range(5):
        spec = random_job(lot)
        world = World(spec, JobMachine, KINDS, crashes=lot.randint(0, 4), cancel=lot.random() < 0.3)
        for _ in range(MOVES_MAX):
            moves = list(world.moves())
            rare = {"crash", "cancel"}
            often = [move for move in moves if move.name not in rare]
            if not often:
                break
            move = lot.choice(often if lot.random() < 0.97 else moves)
            world = world.after(move)
            assert world.wrong == []
        assert judge(spec, world.log, whole=True) == []
        assert world.live == frozenset()
        launched = [(one.instance, one.attempt) for one in world.log if isinstance(one, Launched)]
        assert sorted(launched) == sorted(world.ended)

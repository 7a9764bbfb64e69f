"""One exploration, run and told: what was found, how much was looked at, at what cost, and what was not judged."""

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdall.explorer.fair import explore_fairly
from holdall.explorer.guided import replay
from holdall.explorer.link_moves import LinkSpace
from holdall.explorer.search import Result, Violation, explore
from holdall.explorer.space import Space
from holdall.explorer.trace import lines_of, told
from holdall.lab.explore_worlds import Asked, Task, task_of
from holdall.machine.codec import CODEC
from holdall.world.faults import text_of

JSON_VERSION = 1
SAFETY, DEADLOCK, SERVED, FAIR = "safety", "deadlock", "everybody can be served", "fair cycles"


class Found(msgspec.Struct):
    """A violation. `again`: so many of the last moves go on for ever."""

    property: str
    steps: int
    trace: str | None
    text: str
    again: int
    moves: list[str]


class Report(msgspec.Struct):
    """What is told of one exploration."""

    v: int
    protocol: str
    world: str
    faults: str
    mutant: str | None
    states: int
    transitions: int
    complete: bool
    violations: list[Found]
    seconds: float
    states_per_second: int
    bytes_per_state: float
    """Of states, ways and moves kept; the process in all: `peak_mb`."""
    peak_mb: int
    depth: int
    frontier: int
    reductions: list[str]
    links: str
    compact: bool
    miss_bound: float
    judged: list[str]
    """What a clean result says. A search that was cut judges safety and deadlock up to there."""


Progress = Callable[[int, int], None]


def explored(asked: Asked, progress: Progress | None = None) -> Report:
    """Explore one world. Raises BadWorld."""
    task = task_of(asked)
    begun = time.monotonic()
    result = _result(asked, task, progress)
    return _report(asked, task, result, time.monotonic() - begun)


def _result(asked: Asked, task: Task, progress: Progress | None) -> Result:
    space = task.space
    if task.script is not None and isinstance(space, Space):
        print(f"replaying a guided script of {len(task.script.lines)} steps", file=sys.stderr)
        return replay(space, task.script)
    if asked.fair and not asked.compact and isinstance(space, Space) and space.symmetry is None:
        return explore_fairly(space, states_max=asked.max_states, progress=progress)
    return explore(space, states_max=asked.max_states, compact=asked.compact, progress=progress)


def _report(asked: Asked, task: Task, result: Result, seconds: float) -> Report:
    world = task.space.system.world
    return Report(
        v=JSON_VERSION,
        protocol=asked.protocol,
        world=world.name,
        faults=text_of(task.left),
        mutant=world.mutant or None,
        states=result.states,
        transitions=result.transitions,
        complete=result.complete,
        violations=[_found(asked, task.space, violation) for violation in result.violations],
        seconds=round(seconds, 3),
        states_per_second=round(result.states / result.seconds) if result.seconds else 0,
        bytes_per_state=round(result.bytes_per_state, 1),
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        depth=result.depth,
        frontier=result.frontier,
        reductions=list(task.reductions),
        links=asked.links,
        compact=asked.compact,
        miss_bound=result.miss_bound,
        judged=_judged(result),
    )


def _judged(result: Result) -> list[str]:
    whole = result.complete and result.liveness
    return [SAFETY, DEADLOCK, *([SERVED] if whole else []), *([FAIR] if whole and result.fair else [])]


def _found(asked: Asked, space: Space | LinkSpace, violation: Violation) -> Found:
    if asked.trace is not None:
        lines = lines_of(space, violation, asked.protocol, codec=CODEC)
        Path(asked.trace).write_bytes(b"".join(lines))
    return Found(
        property=violation.name,
        steps=violation.steps,
        trace=asked.trace,
        text=violation.text,
        again=violation.again,
        moves=list(told(space, violation.moves)),
    )


def print_json(report: Report) -> None:
    """One object on stdout."""
    print(msgspec.json.encode(report).decode())


def print_text(report: Report, said: tuple[str, ...] = ()) -> None:
    """For people: the findings on stdout, cost and assumptions on stderr."""
    faults = report.faults or "no faults"
    mutant = f", without the rule {report.mutant!r}" if report.mutant else ""
    print(
        f"world {report.world}, {faults}{mutant}: {report.states:,} states, {report.transitions:,} moves, "
        f"the farthest after {report.depth}"
        if report.depth
        else f"world {report.world}, {faults}{mutant}: {report.states:,} states, {report.transitions:,} moves"
    )
    for violation in report.violations:
        print(f"violated: {violation.property} in {violation.steps} steps: {violation.text}")
        for number, line in enumerate(violation.moves):
            if violation.again and number == violation.steps - violation.again:
                print("  from here on again and again:")
            print(f"  {line}")
        if violation.trace is not None:
            print(
                f"trace: {violation.trace}; see it again with: holdall lab replay {violation.trace}",
                file=sys.stderr,
            )
    if not report.violations:
        print(_clean(report))
    for line in said:
        print(f"with {line}", file=sys.stderr)
    if report.compact:
        print(
            f"kept as hashes of 64 bits: the chance that a state was missed is at most {report.miss_bound:.1e}; "
            "fair cycles are not looked for",
            file=sys.stderr,
        )
    print(cost(report), file=sys.stderr)


def _clean(report: Report) -> str:
    if not report.complete:
        return (
            f"cut at {report.states:,} states, {report.frontier:,} of them not looked at: nothing found so far; "
            "a larger --max-states goes on"
        )
    fair = ", no fair cycle in which somebody waits for ever" if FAIR in report.judged else ""
    served = ", from every state everybody can be served" if SERVED in report.judged else ""
    return f"complete: no violation{served}{fair}"


def cost(report: Report) -> str:
    """Time, rate and memory in one line."""
    return (
        f"{report.seconds:.1f} s, {report.states_per_second:,} states/s, {report.bytes_per_state:.0f} bytes a state, "
        f"{report.peak_mb} MB in all"
    )

"""`holdall lab simulate --swarm`: many seeds, each with a setup of its own, in several processes; counted, with floors.

Exit status: 0 clean, 1 a property is violated, 3 below a floor, 64 a setting that can't be read.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from holdall.lab.parallel import Progress, each
from holdall.lab.simulate import tell_shrunk, write_trace
from holdall.simulator.judged import judged
from holdall.simulator.setup import DELAY_MS
from holdall.simulator.shrinking import shrink
from holdall.simulator.swarm import SIMULATED, simulated, swarm_setup

CLEAN, VIOLATED, BELOW, USAGE = 0, 1, 3, 64
JSON_VERSION = 1
SEEDS_MAX = 10_000_000
TOGETHER = 20
"""Seeds that a process gets at once."""
TOLD_MAX = 10
"""Violations that are told one by one."""
HISTORY = "run.history"
"""Named in the line that has a run again: with a history it is judged by the checker as well, as it was here."""


class Floors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The least that all seeds together must have been, so that a clean swarm proves something."""

    runs: int = 0
    claims: int = 0
    faults: int = 0
    hours: float = 0
    """Simulated: one mean message delay is a second."""


class SwarmAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    protocols: tuple[str, ...] = ()
    """None named: all."""
    seed: int = 1
    seeds: int = 100
    duration: float | None = None
    """Mean message delays in which clients of each run begin claims."""
    processes: int | None = None
    """None: one for each processor."""
    floors: str = ""
    """`claims=1000000,faults=500000,hours=1000`."""
    trace: str | None = None
    """File for the trace of the smallest run that violates what the first bad seed did."""
    json: bool = False


class Bad(msgspec.Struct, frozen=True):
    """A seed whose run violates a property."""

    seed: int
    protocol: str
    violations: list[str]


class Sums(msgspec.Struct, kw_only=True):
    """What all runs together were. Counted by the runs themselves."""

    runs: Counter[str]
    """By protocol, like the next three."""
    claims: Counter[str]
    grants: Counter[str]
    messages: Counter[str]
    """Delivered from host to host."""
    faults: Counter[str]
    """That struck, by kind."""
    lost: int = 0
    """Leases that ended before their holder gave them back."""
    hours: float = 0.0
    longest_drain: float = 0.0
    """Mean message delays from the end of claims until nothing was left anywhere."""
    bad: list[Bad] = []


def nothing() -> Sums:
    """No run yet."""
    return Sums(
        runs=Counter(), claims=Counter(), grants=Counter(), messages=Counter(), faults=Counter(), bad=[]
    )


class Batch(msgspec.Struct, frozen=True):
    """Seeds for one process."""

    first: int
    count: int
    protocols: tuple[str, ...]
    duration: float


def run_batch(batch: Batch) -> Sums:
    """Each seed's run, judged twice."""
    sums = nothing()
    for seed in range(batch.first, batch.first + batch.count):
        setup = swarm_setup(seed, batch.protocols, duration=batch.duration)
        report = judged(setup)
        figures = report.figures
        name = setup.protocol
        sums.runs[name] += 1
        sums.claims[name] += figures.claims
        sums.grants[name] += figures.grants
        sums.messages[name] += report.delivered
        sums.faults.update(figures.faults)
        sums.lost += figures.lost
        sums.hours += report.ended_at * DELAY_MS / 3_600_000
        sums.longest_drain = max(sums.longest_drain, report.ended_at - setup.duration)
        if report.violations:
            sums.bad.append(Bad(seed, name, report.violations))
    return sums


def run_swarm(asked: SwarmAsked) -> int:
    """Run, print, shrink what is bad; the exit status."""
    try:
        batches, floors = list(_batches(asked)), _floors(asked.floors)
    except ValueError as error:
        print(f"holdall: {error}", file=sys.stderr)
        return USAGE
    begun = time.monotonic()
    sums = nothing()
    progress = Progress(len(batches), what=f"batches of {TOGETHER} seeds")
    processes = min(asked.processes or os.cpu_count() or 1, len(batches))
    for place, found in each(batches, run_batch, processes=processes):
        _add(sums, found)
        progress.done(f"seeds from {batches[place].first}")
    progress.close()
    sums.bad.sort(key=lambda bad: bad.seed)
    seconds = time.monotonic() - begun
    short = list(_below(floors, sums))
    if asked.json:
        print(msgspec.json.encode(_plain(sums, short, seconds)).decode())
    else:
        print("\n".join(_lines(sums, short, seconds)))
    if sums.bad:
        return _shrink_first(asked, sums.bad[0], batches[0].duration)
    return BELOW if short else CLEAN


def _batches(asked: SwarmAsked) -> Iterator[Batch]:
    known = simulated()
    for name in asked.protocols:
        if name not in known:
            raise ValueError(f"no protocol {name!r} for a swarm; there are: {', '.join(known)}")
    if not 1 <= asked.seeds <= SEEDS_MAX:
        raise ValueError(f"--seeds is 1 to {SEEDS_MAX}")
    duration = SIMULATED if asked.duration is None else asked.duration
    swarm_setup(asked.seed, asked.protocols, duration=duration)
    for first in range(asked.seed, asked.seed + asked.seeds, TOGETHER):
        count = min(TOGETHER, asked.seed + asked.seeds - first)
        yield Batch(first, count, asked.protocols, duration)


def _floors(text: str) -> Floors:
    values: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, sign, number = part.partition("=")
        if name not in Floors.__struct_fields__ or not sign:
            raise ValueError(
                f"no floor {part!r}; write NAME=NUMBER with NAME one of: {', '.join(Floors.__struct_fields__)}"
            )
        try:
            values[name] = float(number) if name == "hours" else int(number)
        except ValueError:
            raise ValueError(f"floor {name}: {number!r} is no number") from None
    return msgspec.convert(values, Floors)


def _add(sums: Sums, more: Sums) -> None:
    for name in ("runs", "claims", "grants", "messages", "faults"):
        getattr(sums, name).update(getattr(more, name))
    sums.lost += more.lost
    sums.hours += more.hours
    sums.longest_drain = max(sums.longest_drain, more.longest_drain)
    sums.bad.extend(more.bad)


def _below(floors: Floors, sums: Sums) -> Iterator[str]:
    for what, number, floor in (
        ("runs", sums.runs.total(), floors.runs),
        ("claims", sums.claims.total(), floors.claims),
        ("faults", sums.faults.total(), floors.faults),
        ("hours", sums.hours, floors.hours),
    ):
        if number < floor:
            yield f"{number:,.0f} {what}, at least {floor:,.0f} wanted"


def _plain(sums: Sums, short: list[str], seconds: float) -> dict[str, object]:
    return {
        "v": JSON_VERSION,
        "runs": sums.runs.total(),
        "claims": sums.claims.total(),
        "grants": sums.grants.total(),
        "messages": sums.messages.total(),
        "faults": sums.faults.total(),
        "hours": round(sums.hours, 3),
        "lost": sums.lost,
        "longest_drain": round(sums.longest_drain, 3),
        "by_protocol": {
            name: {
                "runs": count,
                "claims": sums.claims[name],
                "grants": sums.grants[name],
                "messages": sums.messages[name],
            }
            for name, count in sorted(sums.runs.items())
        },
        "by_fault": dict(sorted(sums.faults.items())),
        "violations": [msgspec.to_builtins(bad) for bad in sums.bad],
        "below": short,
        "seconds": round(seconds, 3),
    }


def _lines(sums: Sums, short: Iterable[str], seconds: float) -> Iterator[str]:
    yield f"{'protocol':20} {'runs':>7} {'claims':>11} {'grants':>11} {'messages':>13}"
    for name, count in sorted(sums.runs.items()):
        yield f"{name:20} {count:>7,} {sums.claims[name]:>11,} {sums.grants[name]:>11,} {sums.messages[name]:>13,}"
    yield "faults: " + ", ".join(f"{kind} {count:,}" for kind, count in sorted(sums.faults.items()))
    yield (
        f"{sums.runs.total():,} seeds, {sums.claims.total():,} claims, {sums.faults.total():,} faults, "
        f"{sums.hours:,.1f} simulated hours in {seconds:.0f} s; {sums.lost:,} leases lost; all drained within "
        f"{sums.longest_drain:.0f} mean delays; {len(sums.bad)} violations"
    )
    for bad in sums.bad[:TOLD_MAX]:
        yield f"seed {bad.seed} ({bad.protocol}) violated: {bad.violations[0]}"
    for text in short:
        yield f"too little: {text}"


def _shrink_first(asked: SwarmAsked, bad: Bad, duration: float) -> int:
    setup = swarm_setup(bad.seed, asked.protocols, duration=duration)
    small = shrink(setup, judged(setup), judged)
    tell_shrunk(small.setup, small.report, small.runs, history=HISTORY)
    if asked.trace is not None:
        try:
            write_trace(small.setup, Path(asked.trace), note=small.report.violations[0])
        except OSError as error:
            print(f"holdall: can't write the trace {asked.trace}: {error.strerror}", file=sys.stderr)
            return USAGE
        print(f"trace: {asked.trace}; see it again with: holdall lab replay {asked.trace}", file=sys.stderr)
    return VIOLATED

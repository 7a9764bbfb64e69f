"""`holdall lab compare`: every protocol on every load, side by side, as tables, JSON and a report with figures.

Exit status: 0 all clean, 1 a run violated a property, or a cost or a published throughput did not come out again where that was
asked for, 64 a setting that can't be read, 69 the report needs matplotlib, 70 a run broke down.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from holdall.lab.compare.alone import Alone, AloneCase, alone
from holdall.lab.compare.canvas import Drawn, MissingPlots, ready
from holdall.lab.compare.contestants import BASELINE, Contestant, contestants, in_order
from holdall.lab.compare.extent import Extent, ExtentCase, extent
from holdall.lab.compare.kept import Keeper
from holdall.lab.compare.measure import Case, Measured, measure
from holdall.lab.compare.plots import draw
from holdall.lab.compare.published import Compared, cases, compared
from holdall.lab.compare.rows import Comparison, rows
from holdall.lab.compare.sheet import markdown
from holdall.lab.compare.suites import (
    CUSTOM_DURATION,
    FULL,
    FULL_LOADS,
    QUICK,
    SUITES,
    Effort,
    alone_cases,
    extent_cases,
    load_cases,
)
from holdall.lab.compare.tables import sheets, show
from holdall.lab.parallel import Progress, WorkFailed, each

CLEAN, DIFFERS, USAGE, MISSING, BROKEN = 0, 1, 64, 69, 70
SEEDS_MAX = 1000
TITLED = Case | ExtentCase | AloneCase
AnyCase = TypeVar("AnyCase", Case, ExtentCase, AloneCase)
Found = TypeVar("Found")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    full: bool = False
    suites: str | None = None
    """With commas: loads, extent, alone, published; None: as the effort has it."""
    protocols: str | None = None
    workloads: str | None = None
    """With commas: names or TOML files; None: as the effort has it."""
    seeds: int | None = None
    processes: int | None = None
    """None: one for each processor."""
    duration: float | None = None
    """Of each load, in mean message delays; None: as the effort has it."""
    report: str | None = None
    """Folder for figures and the page."""
    keep: str | None = None
    """File with the results of single runs, for a comparison that may be broken off."""
    json: bool = False


class _Plan(NamedTuple):
    effort: Effort
    who: list[Contestant]
    suites: tuple[str, ...]
    loads: dict[str, float]
    seeds: int
    processes: int
    keep: Path | None


def run_compare(asked: Asked) -> int:
    """Run all, print, write the report; the exit status."""
    try:
        plan = _plan(asked)
        jobs = (
            load_cases(plan.who, plan.loads, seeds=plan.seeds, thorough=asked.full)
            if "loads" in plan.suites
            else []
        )
    except ValueError as error:
        print(f"holdall: {error}", file=sys.stderr)
        return USAGE
    folder = None if asked.report is None else Path(asked.report)
    status = CLEAN if folder is None else prepared(folder)
    if status != CLEAN:
        return status
    begun_s = time.monotonic()
    try:
        found = _all(plan, jobs)
    except WorkFailed as error:
        print(f"holdall: {error}", file=sys.stderr)
        return BROKEN
    except OSError as error:
        print(f"holdall: --keep {error.filename}: {error.strerror}", file=sys.stderr)
        return USAGE
    found.seconds = round(time.monotonic() - begun_s, 3)
    if asked.json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        show(found)
    if folder is not None:
        status = _report(found, folder)
        if status != CLEAN:
            return status
    return _verdict(found)


def prepared(folder: Path) -> int:
    """Whether a report can be written there, before anything runs; the exit status."""
    try:
        ready(folder)
    except MissingPlots as error:
        print(f"holdall: {error}", file=sys.stderr)
        return MISSING
    except OSError as error:
        print(f"holdall: can't write the report {error.filename}: {error.strerror}", file=sys.stderr)
        return USAGE
    return CLEAN


def _plan(asked: Asked) -> _Plan:
    effort = FULL if asked.full else QUICK
    suites = _words(asked.suites) if asked.suites is not None else effort.suites
    unknown = [name for name in suites if name not in SUITES]
    if unknown or not suites:
        raise ValueError(f"no suite {', '.join(unknown) or 'at all'}; there are: {', '.join(SUITES)}")
    loads = effort.loads
    if asked.workloads is not None:
        known = FULL_LOADS | effort.loads
        loads = {name: known.get(name, CUSTOM_DURATION) for name in _words(asked.workloads)}
    if asked.duration is not None:
        if not 20 <= asked.duration <= 1e6:
            raise ValueError("--duration is 20 to 1000000 mean message delays")
        loads = dict.fromkeys(loads, asked.duration)
    seeds = asked.seeds if asked.seeds is not None else effort.seeds
    if not 1 <= seeds <= SEEDS_MAX:
        raise ValueError(f"--seeds is 1 to {SEEDS_MAX}")
    processes = asked.processes if asked.processes is not None else os.cpu_count() or 1
    if not 1 <= processes <= 1000:
        raise ValueError("--processes is 1 to 1000")
    keep = None if asked.keep is None else Path(asked.keep)
    return _Plan(effort, contestants(asked.protocols), suites, loads, seeds, processes, keep)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in (part.strip() for part in text.split(",")) if word)


def _all(plan: _Plan, loads: list[Case]) -> Comparison:
    names = [one.name for one in plan.who]
    protocols = in_order({one.protocol for one in plan.who})
    deaths = extent_cases(plan.who, plan.effort.victims) if "extent" in plan.suites else []
    lonely = alone_cases(plan.who) if "alone" in plan.suites else []
    again = cases(protocols, seeds=plan.seeds, share=plan.effort.share) if "published" in plan.suites else []
    progress = Progress(len(loads) + len(deaths) + len(lonely) + len(again))
    try:
        runs = Keeper(plan.keep, Case, Measured)
        measured = _each(loads, measure, runs, plan, progress)
        extents = _each(deaths, extent, Keeper(plan.keep, ExtentCase, Extent), plan, progress)
        alones = _each(lonely, alone, Keeper(plan.keep, AloneCase, Alone), plan, progress)
        repeated = _each([case for _, case in again], measure, runs, plan, progress)
    finally:
        progress.close()
    placed = [(place, one) for (place, _), one in zip(again, repeated, strict=True)]
    published: list[Compared] = compared(placed, protocols) if placed else []
    broken = [
        f"{case.contestant.name}, {case.title}, seed {case.seed}: {text}"
        for (_, case), one in zip(again, repeated, strict=True)
        for text in one.violations
    ]
    shown = in_order({*names, *(one.protocol for one in published), *([BASELINE] if published else [])})
    everything = [*measured, *repeated]
    return Comparison(
        effort=plan.effort.name,
        protocols=shown,
        workloads=list(plan.loads) if loads else [],
        rows=rows(measured, plan.who, list(plan.loads)),
        extent=extents,
        alone=alones,
        published=published,
        broken=broken,
        runs=len(everything) + len(extents) + len(alones),
        delivered=sum(one.delivered for one in everything),
        seconds=0.0,
        version=version("holdall"),
    )


def _each(
    jobs: Sequence[AnyCase],
    work: Callable[[AnyCase], Found],
    keeper: Keeper[AnyCase, Found],
    plan: _Plan,
    progress: Progress,
) -> list[Found]:
    found: dict[int, Found] = {}
    for place, job in enumerate(jobs):
        if (known := keeper.known(job)) is not None:
            found[place] = known
            progress.known()
    todo = [place for place in range(len(jobs)) if place not in found]
    for number, result in each([jobs[place] for place in todo], work, processes=plan.processes):
        place = todo[number]
        found[place] = result
        keeper.keep(jobs[place], result)
        progress.done(_said(jobs[place]))
    return [found[place] for place in range(len(jobs))]


def _said(case: TITLED) -> str:
    return f"{case.contestant.name} on {case.title}" if isinstance(case, Case) else case.title


def _report(found: Comparison, folder: Path) -> int:
    """`index.html`, `compare.json`, `tables.md`, and each figure as PNG and SVG."""
    from holdall.lab.compare.page import page

    drawn: list[Drawn] = draw(found)
    try:
        for one in drawn:
            (folder / f"{one.name}.png").write_bytes(one.png)
            (folder / f"{one.name}.svg").write_bytes(one.svg)
        (folder / "index.html").write_text(page(found, drawn), encoding="utf-8")
        (folder / "tables.md").write_text("\n".join(map(markdown, sheets(found))), encoding="utf-8")
        (folder / "compare.json").write_bytes(msgspec.json.encode(found))
    except OSError as error:
        print(f"holdall: can't write the report {error.filename}: {error.strerror}", file=sys.stderr)
        return USAGE
    print(f"report: {folder / 'index.html'}", file=sys.stderr)
    return CLEAN


def _verdict(found: Comparison) -> int:
    """What did not come out as it should, on stderr."""
    problems = found.violations()
    dear = [one for one in found.alone if one.same is False]
    off = [one for one in found.published if one.gated and one.off]
    for text in problems:
        print(f"violated: {text}", file=sys.stderr)
    for one in dear:
        print(
            f"{one.name} alone, k={one.k}: {one.messages:g} messages and {one.delays:g} delays; specified are "
            f"{one.specified_messages} and {one.specified_delays or 'any'}",
            file=sys.stderr,
        )
    if off:
        gated = sum(one.gated for one in found.published)
        print(f"{len(off)} of {gated} published throughputs differ by more than 15 %", file=sys.stderr)
    return DIFFERS if problems or dear or off else CLEAN

"""`holdall lab explore --world all`: the usual runs of a protocol, or of all, in processes of their own.

Exit status: 0 all clean and as many states as stated, 1 a violation or another number of states, 3 some were cut or
there are fewer states in all than asked for.
"""

import sys
import time
from collections.abc import Iterator

import msgspec

from holdall.explorer.runs.run import Run
from holdall.explorer.systems import LINK, PROTOCOLS, explored
from holdall.lab.explore_report import Report, cost
from holdall.lab.explore_report import explored as explore_one
from holdall.lab.explore_worlds import Asked
from holdall.lab.parallel import each
from holdall.protocols.registry import PROTOCOLS as SHIPPED
from holdall.world.plan import BadWorld

CLEAN, VIOLATED, CUT = 0, 1, 3
JSON_VERSION = 1
TELL_EVERY_S = 5.0


class Job(msgspec.Struct, frozen=True):
    """One run of the list."""

    asked: Asked
    states: int | None
    """How many there must be."""
    cut: bool = False
    """The list says that it is cut."""


class Row(msgspec.Struct):
    """One run, done."""

    report: Report
    expected: int | None
    cut: bool

    @property
    def verdict(self) -> str:
        """clean, cut (as the list says), or what is wrong."""
        if self.report.violations:
            return f"violated: {self.report.violations[0].property}"
        if self.expected is not None and self.expected != self.report.states:
            return f"{self.expected:,} states were expected"
        if not self.report.complete:
            return "clean up to there" if self.cut else "cut"
        return "clean"

    @property
    def is_wrong(self) -> bool:
        """Whether the whole fails."""
        return self.verdict not in {"clean", "clean up to there", "cut"}


def run_all(asked: Asked) -> int:
    """All runs; the exit status. Raises BadWorld."""
    jobs = list(_jobs(asked))
    if not jobs:
        raise BadWorld(f"no runs are listed for {asked.protocol}; name a world, see --world list")
    begun = time.monotonic()
    rows: list[Row] = []
    for place, report in each([job.asked for job in jobs], _work, processes=asked.jobs, fresh=asked.jobs > 1):
        job = jobs[place]
        row = Row(report, job.states, job.cut)
        rows.append(row)
        print(f"{len(rows)} of {len(jobs)}: {_title(report)}: {row.verdict}; {cost(report)}", file=sys.stderr)
    seconds = time.monotonic() - begun
    short = _short(asked, rows)
    _print(asked, rows, short, seconds)
    if any(row.is_wrong for row in rows):
        return VIOLATED
    return CUT if short or any(row.verdict == "cut" for row in rows) else CLEAN


def _jobs(asked: Asked) -> Iterator[Job]:
    if asked.pools or asked.claims or asked.mutant or asked.trace:
        raise BadWorld(
            "--world all takes the runs of the list; leave --pool, --claim, --mutant and --trace out"
        )
    if asked.protocol == LINK:
        raise BadWorld("the link has no list of runs; name a world, see --protocol link --world list")
    protocols = tuple(PROTOCOLS) if asked.protocol == "all" else (asked.protocol,)
    for protocol in protocols:
        entry = explored(protocol)
        for run in entry.long_runs if asked.world == "long" else entry.runs:
            yield _job(asked, protocol, run)


def _job(asked: Asked, protocol: str, run: Run) -> Job:
    """The run as it is listed; what the command line says goes before it."""
    states_max = asked.max_states if run.states_max is None else run.states_max
    if asked.max_states is not None and states_max is not None:
        states_max = min(states_max, asked.max_states)
    one = msgspec.structs.replace(
        asked,
        protocol=protocol,
        world=run.world,
        faults=run.faults if asked.faults is None else asked.faults,
        timers=asked.timers or run.timers,
        repeat=asked.repeat or run.repeat,
        max_states=states_max,
        links=run.links if asked.links == "any" else asked.links,
        reduce=asked.reduce or run.reduce,
        falls_at=asked.falls_at or run.falls_at,
        compact=asked.compact or run.compact,
        passes=run.passes if asked.passes is None else asked.passes,
    )
    as_listed = all(
        (
            asked.faults is None,
            asked.timers is None,
            asked.repeat is None,
            asked.links == "any",
            not asked.reduce,
            not asked.falls_at,
            asked.passes is None,
            asked.passes_per_ahead is None,
            asked.max_states is None,
        )
    )
    return Job(one, run.states if as_listed else None, cut=run.states_max is not None)


def _work(asked: Asked) -> Report:
    return explore_one(asked, _Telling(f"{asked.protocol} {asked.world}"))


class _Telling:
    """A line on stderr now and then: which world, how far."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._begun = self._told = time.monotonic()

    def __call__(self, states: int, waiting: int) -> None:
        now = time.monotonic()
        if now - self._told >= TELL_EVERY_S:
            self._told = now
            rate = states / (now - self._begun)
            text = f"{self._title}: {states:,} states, {waiting:,} to look at, {rate:,.0f} states/s"
            print(text, file=sys.stderr, flush=True)


def _title(report: Report) -> str:
    how = [
        report.faults or "no faults",
        *([f"links {report.links}"] if report.links != "any" else []),
        *report.reductions,
        *(["hashes"] if report.compact else []),
    ]
    return f"{report.protocol} {report.world} ({', '.join(how)})"


def _short(asked: Asked, rows: list[Row]) -> dict[str, int]:
    """Protocols of real systems that have fewer states than asked for; printed algorithms owe none."""
    wanted = [name for name in PROTOCOLS if name in SHIPPED and asked.protocol in {"all", name}]
    counts = _per_protocol(rows)
    return {name: counts.get(name, 0) for name in wanted if counts.get(name, 0) < asked.min_states}


def _per_protocol(rows: list[Row]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        found[row.report.protocol] = found.get(row.report.protocol, 0) + row.report.states
    return found


def _print(asked: Asked, rows: list[Row], short: dict[str, int], seconds: float) -> None:
    rows.sort(key=lambda row: (row.report.protocol, row.report.world, row.report.faults))
    per = _per_protocol(rows)
    if asked.json:
        plain = [
            {**msgspec.to_builtins(row.report), "expected": row.expected, "verdict": row.verdict}
            for row in rows
        ]
        whole = {"v": JSON_VERSION, "runs": plain, "states": per, "seconds": round(seconds, 3)}
        print(msgspec.json.encode(whole).decode())
    else:
        _print_table(rows)
        for protocol, count in per.items():
            print(f"{protocol}: {count:,} states")
        print(f"in all {sum(per.values()):,} states of {len(rows)} worlds in {seconds:.0f} s")
    for protocol, count in short.items():
        print(f"holdall: {protocol}: {count:,} states, {asked.min_states:,} are asked for", file=sys.stderr)


def _print_table(rows: list[Row]) -> None:
    titles = [_title(row.report) for row in rows]
    width = max(map(len, titles))
    print(f"{'world':{width}} {'states':>11} {'depth':>5} {'states/s':>9} {'B/state':>7} {'MB':>5}  verdict")
    for title, row in zip(titles, rows, strict=True):
        one = row.report
        print(
            f"{title:{width}} {one.states:11,} {one.depth or '':>5} {one.states_per_second:9,} "
            f"{one.bytes_per_state:7.0f} {one.peak_mb:5}  {row.verdict}"
        )
        for violation in one.violations:
            print(f"    {violation.property} in {violation.steps} steps: {violation.text}")
            for line in violation.moves:
                print(f"    {line}")

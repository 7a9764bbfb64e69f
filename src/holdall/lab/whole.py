"""`holdall lab simulate --whole`: seeded runs of whole nodes with their clients, judged online and by their history.

Exit status: 0 clean, 1 a property is violated, 64 a setting that can't be read.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from holdall.checker.records import AnyRecord
from holdall.machine.trace import Header, Step, write_header, write_step
from holdall.protocols.registry import protocol
from holdall.simulator.faults import parse_as
from holdall.simulator.whole.figures import WholeFigures
from holdall.simulator.whole.run import WholeReport, WholeRun
from holdall.simulator.whole.setup import Wants, WholeFaults, WholeSetup, to_plain

CLEAN, VIOLATED, USAGE = 0, 1, 64
JSON_VERSION = 1
DRIVER = "whole"
SEEDS_MAX = 1_000_000
ALL = "all"
ALL_FAULTS = (
    "crash=2,restart=2,reboot=1,unsynced=1,wipe=1,pause=2,split=1,oneway=1,bridge=1,bus=1,slow=1,kill=4,nap=4,"
    "loss=0.02,duplicate=0.02,reorder=0.02"
)
"""What `--faults all` is."""
PROGRESS_S = 2.0


class WholeAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    protocol: str = "chain"
    nodes: int = 3
    pools: int = 2
    """Of each node."""
    units: int = 2
    k: int = 3
    """Most pools of a claim."""
    clients: int = 2
    """Of each node."""
    reach: int = 3
    """A client's claims go to the pools of so many nodes."""
    hold: float = 1.5
    """Mean hold in seconds."""
    faults: str = ""
    """`crash=2,loss=0.01`, or `all`; kinds as in `WholeFaults`."""
    passes: int = 8
    passes_per_ahead: int = 1
    try_from: int = 1000
    duration: float = 120.0
    """Seconds in which clients begin claims."""
    seed: int = 1
    seeds: int = 1
    trace: str | None = None
    history: str | None = None
    json: bool = False


class _Row(msgspec.Struct):
    """One run in JSON."""

    seed: int
    figures: WholeFigures
    violations: list[str]
    ended_ms: float


class _Report(msgspec.Struct):
    v: int
    setup: dict[str, Any]
    runs: list[_Row]
    totals: dict[str, int]
    seconds: float


def run_whole(asked: WholeAsked) -> int:
    """Run, print, write trace and history; the exit status."""
    try:
        setups = list(_setups(asked))
    except ValueError as error:
        print(f"holdall: {error}", file=sys.stderr)
        return USAGE
    begun = time.monotonic()
    reports: list[tuple[WholeSetup, WholeReport]] = []
    progress = _Progress(len(setups))
    for setup in setups:
        reports.append((setup, WholeRun(setup).run()))
        if not asked.json:
            print(_line(*reports[-1]))
        progress.done(reports)
    seconds = time.monotonic() - begun
    bad = [(setup, report) for setup, report in reports if report.violations]
    if asked.json:
        rows = [
            _Row(setup.seed, report.figures, report.violations, report.ended_ms) for setup, report in reports
        ]
        whole = _Report(JSON_VERSION, to_plain(setups[0]), rows, _totals(reports), round(seconds, 3))
        print(msgspec.json.encode(whole).decode())
    else:
        _tell(reports, seconds)
    setup, report = bad[0] if bad else reports[0]
    note = report.violations[0] if report.violations else "a run without violation"
    try:
        _write(asked, setup, note)
    except OSError as error:
        print(f"holdall: can't write {error.filename}: {error.strerror}", file=sys.stderr)
        return USAGE
    return VIOLATED if bad else CLEAN


def write_run(
    setup: WholeSetup, *, trace: Path | None = None, history: Path | None = None, note: str = ""
) -> WholeReport:
    """Run once, and write every turn, and what clients and driver saw. Raises OSError."""
    with ExitStack() as files:
        # a trace holds what crosses a node's ports
        import_module("holdall.node.families")
        on_step: Callable[[Step], None] | None = None
        on_record: Callable[[AnyRecord], None] | None = None
        if trace is not None:
            file = files.enter_context(trace.open("wb"))
            file.write(write_header(Header(driver=DRIVER, seed=setup.seed, world=to_plain(setup), note=note)))
            on_step = _stepper(file)
        if history is not None:
            on_record = _recorder(files.enter_context(history.open("wb")))
        return WholeRun(setup, on_step=on_step, on_record=on_record).run()


def _stepper(file: BinaryIO) -> Callable[[Step], None]:
    return lambda step: _drop(file.write(write_step(step)))


def _recorder(file: BinaryIO) -> Callable[[AnyRecord], None]:
    encoder = msgspec.json.Encoder()
    return lambda record: _drop(file.write(encoder.encode(record) + b"\n"))


def _drop(_: int) -> None:
    """A callback returns nothing."""


def _write(asked: WholeAsked, setup: WholeSetup, note: str) -> None:
    if asked.trace is None and asked.history is None:
        return
    trace = None if asked.trace is None else Path(asked.trace)
    history = None if asked.history is None else Path(asked.history)
    write_run(setup, trace=trace, history=history, note=note)
    if trace is not None:
        print(f"trace: {trace}; see it again with: holdall lab replay {trace}", file=sys.stderr)
    if history is not None:
        print(f"history: {history}; judge it with: holdall check {history}", file=sys.stderr)


def _setups(asked: WholeAsked) -> Iterator[WholeSetup]:
    if not 1 <= asked.seeds <= SEEDS_MAX:
        raise ValueError(f"--seeds is 1 to {SEEDS_MAX}")
    faults = parse_as(WholeFaults, ALL_FAULTS if asked.faults == ALL else asked.faults)
    pools_max = protocol(asked.protocol).pools_max
    wants = Wants(
        pools=asked.pools,
        units=asked.units,
        k=asked.k if pools_max is None else min(asked.k, pools_max),
        # a need of the pool that several nodes have would be one pool more
        common_share=Wants().common_share if pools_max is None else 0.0,
        clients=asked.clients,
        reach=asked.reach,
        hold_ms=int(asked.hold * 1000),
    )
    for number in range(asked.seeds):
        yield WholeSetup(
            protocol=asked.protocol,
            nodes=asked.nodes,
            wants=wants,
            faults=faults,
            seed=asked.seed + number,
            duration_ms=int(asked.duration * 1000),
            passes=asked.passes,
            passes_per_ahead=asked.passes_per_ahead,
            try_from=asked.try_from,
        )


class _Progress:
    """On a terminal, how far it is: a line on stderr now and then."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._told_s = time.monotonic()

    def done(self, reports: list[tuple[WholeSetup, WholeReport]]) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s < PROGRESS_S or len(reports) == self._runs:
            return
        self._told_s = now_s
        totals = _totals(reports)
        print(
            f"{len(reports)} of {self._runs} runs: {totals['grants']:,} grants, {totals['faults']:,} faults, "
            f"{totals['violations']} violations",
            file=sys.stderr,
        )


def _totals(reports: list[tuple[WholeSetup, WholeReport]]) -> dict[str, int]:
    figures = [report.figures for _, report in reports]
    return {
        "claims": sum(one.claims for one in figures),
        "grants": sum(one.grants for one in figures),
        "contended": sum(one.contended for one in figures),
        "wide": sum(one.wide for one in figures),
        "lost": sum(sum(one.lost.values()) for one in figures),
        "faults": sum(sum(one.faults.values()) for one in figures),
        "frames": sum(one.frames for one in figures),
        "turns": sum(one.turns for one in figures),
        "violations": sum(len(report.violations) for _, report in reports),
        "virtual_s": int(sum(report.ended_ms for _, report in reports) / 1000),
    }


def _line(setup: WholeSetup, report: WholeReport) -> str:
    figures = report.figures
    parts = [
        f"seed {setup.seed}: {figures.claims} claims, {figures.grants} grants",
        f"{figures.contended} after waiting, {figures.wide} over several nodes",
        f"wait mean {figures.wait_mean_ms / 1000:.2f} s, longest {figures.wait_longest_ms / 1000:.1f} s",
        f"{figures.frames} frames",
        f"all over {figures.drained_ms / 1000:.1f} s after the last claims",
    ]
    if figures.lost:
        parts.append("ended early " + ", ".join(f"{how} {count}" for how, count in figures.lost.items()))
    if figures.faults:
        parts.append("faults " + ", ".join(f"{kind} {count}" for kind, count in figures.faults.items()))
    return "\n".join(["; ".join(parts), *(f"  violated: {violation}" for violation in report.violations)])


def _tell(reports: list[tuple[WholeSetup, WholeReport]], seconds: float) -> None:
    totals = _totals(reports)
    print(
        f"{len(reports)} runs, {totals['virtual_s'] / 3600:.2f} hours of virtual time in {seconds:.1f} s: "
        f"{totals['claims']:,} claims, {totals['grants']:,} grants ({totals['contended']:,} after waiting), "
        f"{totals['faults']:,} faults, {totals['frames']:,} frames, {totals['violations']} violations",
        file=sys.stderr,
    )

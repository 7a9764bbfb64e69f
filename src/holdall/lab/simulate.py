"""`holdall lab simulate`: seeded runs in virtual time, judged by invariants, with the figures of the specifications.

Exit status: 0 clean, 1 a property is violated, 64 a setting that can't be read.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from holdall.checker.records import AnyRecord
from holdall.machine.trace import Header, Step, write_header, write_step
from holdall.simulator.faults import Faults, parse
from holdall.simulator.figures import Figures
from holdall.simulator.judged import judged
from holdall.simulator.network import Delays
from holdall.simulator.run import Report, Run
from holdall.simulator.setup import Setup, to_plain
from holdall.simulator.shrinking import command_line, shrink, size_of
from holdall.simulator.systems import FAULTLESS, SYSTEMS, check_step, pools_max
from holdall.simulator.workload import THINK, Workload, load_workload

CLEAN, VIOLATED, USAGE = 0, 1, 64
JSON_VERSION = 1
DRIVER = "simulator"
SEEDS_MAX = 10_000

Wanted = TypeVar("Wanted", bound=msgspec.Struct)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for; times in mean message delays."""

    protocol: str = "chain"
    """A protocol's name, or the yardstick `central`."""
    workload: str | None = None
    """A name (`ring-50-saturated`), a TOML file, or a JSON object of the same values; then pools, units, nodes, k,
    load, local, wide, hold, cancel and now are not looked at."""
    agents: int | None = None
    """Clients; None: as many as the workload says."""
    claims: int | None = None
    """Clients stop after so many claims in all; None: after `duration`."""
    delays: str = ""
    """A kind of `Delays`, or a JSON object of its values."""
    rho: float = 0.0
    ttl: float = 60.0
    patience: float = 6.0
    leases: bool = False
    pools: int = 8
    units: int = 1
    nodes: int = 1
    k: int = 2
    """Pools of a claim."""
    load: str = "medium"
    """low, medium or saturated."""
    local: float | None = None
    """Share of claims on one node."""
    wide: bool = False
    """One client wants all pools, the others one each."""
    hold: float = 5.0
    cancel: float = 0.0
    """Share of claims given up while waiting."""
    now: float = 0.0
    """Share of claims that do not wait."""
    faults: str = ""
    """`crash=2,loss=0.01`; kinds as in `Faults`."""
    passes: int = 8
    passes_per_ahead: int = 1
    try_from: int = 1000
    """Claims over so many nodes or more try all at once first."""
    duration: float | None = None
    """4000, but for as long as it takes where `claims` are said."""
    seed: int = 1
    seeds: int = 1
    """So many runs, with the seeds `seed`, `seed` + 1, …"""
    strict: bool = False
    """Check every property after every turn."""
    trace: str | None = None
    """File for the trace of the run (of the first that violates a property, where one does)."""
    history: str | None = None
    """File for the history of that run; with it every run is judged by the checker as well."""
    shrink: bool = False
    """Make the first run that violates a property smaller, and say how to have it again."""
    json: bool = False


class _Row(msgspec.Struct):
    """One run in JSON."""

    seed: int
    claims: int
    grants: int
    not_now: int
    cancelled: int
    lost: int
    faults: dict[str, int]
    messages: dict[str, int]
    messages_per_claim: float
    throughput: float
    waits: dict[str, float]
    overtaken: int
    jain: float
    wide: dict[str, float] | None
    violations: list[str]
    ended_at: float
    delivered: int


class _Report(msgspec.Struct):
    v: int
    protocol: str
    setup: dict[str, Any]
    runs: list[_Row]
    seconds: float


def run_simulate(asked: Asked) -> int:
    """Run, print, write the trace; the exit status."""
    try:
        setups = _setups(asked)
    except ValueError as error:
        print(f"holdall: {error}", file=sys.stderr)
        return USAGE
    run = _run if asked.history is None else judged
    begun = time.monotonic()
    reports: list[tuple[Setup, Report]] = []
    for setup in setups:
        reports.append((setup, run(setup)))
        if not asked.json:
            print(_line(setup, reports[-1][1]))
    seconds = time.monotonic() - begun
    bad = [(setup, report) for setup, report in reports if report.violations]
    if asked.json:
        rows = [_row(setup, report) for setup, report in reports]
        plain = to_plain(setups[0])
        print(
            msgspec.json.encode(
                _Report(JSON_VERSION, asked.protocol, plain, rows, round(seconds, 3))
            ).decode()
        )
    else:
        _tell(reports, seconds)
    setup, report = bad[0] if bad else reports[0]
    if bad and asked.shrink:
        small = shrink(setup, report, run)
        setup, report = small.setup, small.report
        tell_shrunk(setup, report, small.runs, history=asked.history)
    try:
        _write(asked, setup, report)
    except OSError as error:
        print(f"holdall: can't write the trace {error.filename}: {error.strerror}", file=sys.stderr)
        return USAGE
    return VIOLATED if bad else CLEAN


def tell_shrunk(setup: Setup, report: Report, runs: int, *, history: str | None) -> None:
    """The smallest run that violates the same property, and how to have it again, on stderr."""
    line = command_line(setup) + (f" --history {history}" if history else "")
    print(
        f"smallest after {runs} runs: {size_of(setup)}\n  violated: {report.violations[0]}\n  again: {line}",
        file=sys.stderr,
    )


def _run(setup: Setup) -> Report:
    return Run(setup).run()


def _write(asked: Asked, setup: Setup, report: Report) -> None:
    """Trace and history of a run, where they are asked for. Raises OSError."""
    if asked.trace is not None:
        note = report.violations[0] if report.violations else "a run without violation"
        write_trace(setup, Path(asked.trace), note=note)
        print(f"trace: {asked.trace}; see it again with: holdall lab replay {asked.trace}", file=sys.stderr)
    if asked.history is not None:
        with Path(asked.history).open("wb") as file:
            judged(setup, on_record=_recorder(file))
        print(f"history: {asked.history}; judge it with: holdall check {asked.history}", file=sys.stderr)


def write_trace(setup: Setup, path: Path, *, note: str = "") -> Report:
    """Run once more, and write every turn. Raises OSError."""
    with path.open("wb") as file:
        file.write(write_header(Header(driver=DRIVER, seed=setup.seed, world=to_plain(setup), note=note)))
        return judged(setup, on_step=_writer(file))


def _writer(file: BinaryIO) -> Callable[[Step], None]:
    def write(step: Step) -> None:
        file.write(write_step(step))

    return write


def _recorder(file: BinaryIO) -> Callable[[AnyRecord], None]:
    encoder = msgspec.json.Encoder()

    def write(record: AnyRecord) -> None:
        file.write(encoder.encode(record) + b"\n")

    return write


def _setups(asked: Asked) -> list[Setup]:
    if asked.protocol not in SYSTEMS:
        raise ValueError(
            f"no protocol {asked.protocol!r} to simulate; there are: {', '.join(sorted(SYSTEMS))}"
        )
    if not 1 <= asked.seeds <= SEEDS_MAX:
        raise ValueError(f"--seeds is 1 to {SEEDS_MAX}")
    for name, share in (("--local", asked.local or 0.0), ("--cancel", asked.cancel), ("--now", asked.now)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name} is a share of 0 to 1")
    workload = _workload(asked)
    check_step(asked.protocol, workload)
    most = pools_max(asked.protocol)
    if most is not None and (workload.k > most or workload.wide):
        raise ValueError(f"under {asked.protocol} a claim wants at most {most} pools; say --k {most}")
    faults: Faults = parse(asked.faults)
    if asked.protocol in FAULTLESS and faults.any():
        raise ValueError(f"`{asked.protocol}` is for comparison and survives no faults; leave out --faults")
    long = 4000.0 if asked.claims is None else 1e7
    return [
        Setup(
            protocol=asked.protocol,
            workload=workload,
            faults=faults,
            seed=asked.seed + number,
            duration=long if asked.duration is None else asked.duration,
            claims=asked.claims,
            passes=asked.passes,
            passes_per_ahead=asked.passes_per_ahead,
            try_from=asked.try_from,
            ttl=asked.ttl,
            patience=asked.patience,
            leases=asked.leases,
            delays=_delays(asked.delays),
            rho=asked.rho,
            strict=asked.strict,
        )
        for number in range(asked.seeds)
    ]


def _workload(asked: Asked) -> Workload:
    if asked.load not in THINK:
        raise ValueError(f"no load {asked.load!r}; there are: {', '.join(THINK)}")
    if asked.workload is None:
        workload = Workload(
            pools=asked.pools,
            k=asked.k,
            units=asked.units,
            load=asked.load,
            nodes=asked.nodes,
            local=asked.local,
            wide=asked.wide,
            hold=asked.hold,
            cancel_share=asked.cancel,
            try_share=asked.now,
        )
    elif asked.workload.startswith("{"):
        workload = _from_json(asked.workload, Workload, "workload")
    else:
        workload = load_workload(asked.workload)
    return workload if asked.agents is None else msgspec.structs.replace(workload, clients=asked.agents)


def _delays(text: str) -> Delays:
    if not text:
        return Delays()
    return _from_json(text if text.startswith("{") else f'{{"kind": "{text}"}}', Delays, "delays")


def _from_json(text: str, wanted: type[Wanted], what: str) -> Wanted:
    try:
        return msgspec.json.decode(text, type=wanted)
    except (msgspec.MsgspecError, ValueError) as error:
        known = ", ".join(wanted.__struct_fields__)
        raise ValueError(f"{what} {text}: {error}; its values are: {known}") from None


def _row(setup: Setup, report: Report) -> _Row:
    figures = report.figures
    return _Row(
        seed=setup.seed,
        claims=figures.claims,
        grants=figures.grants,
        not_now=figures.not_now,
        cancelled=figures.cancelled,
        lost=figures.lost,
        faults=figures.faults,
        messages=figures.messages,
        messages_per_claim=round(figures.messages_per_claim, 3),
        throughput=round(figures.throughput, 5),
        waits={
            "mean": round(figures.mean, 3),
            "p99": round(figures.p99, 3),
            "longest": round(figures.longest, 3),
        },
        overtaken=figures.overtaken,
        jain=round(figures.jain, 4),
        wide=_wide(figures),
        violations=report.violations,
        ended_at=round(report.ended_at, 3),
        delivered=report.delivered,
    )


def _wide(figures: Figures) -> dict[str, float] | None:
    if figures.wide_mean is None or figures.wide_longest is None:
        return None
    return {
        "mean": round(figures.wide_mean, 3),
        "longest": round(figures.wide_longest, 3),
        "overtaken": figures.wide_overtaken or 0,
        "served": figures.wide_served or 0,
    }


def _line(setup: Setup, report: Report) -> str:
    figures = report.figures
    wide = _wide(figures)
    parts = [
        f"seed {setup.seed}: {figures.throughput:.3f} grants per delay",
        f"wait mean {figures.mean:.0f}, p99 {figures.p99:.0f}, longest {figures.longest:.0f}",
        f"overtaken at most {figures.overtaken}",
        f"{figures.messages_per_claim:.2f} messages a claim",
    ]
    if wide is not None:
        parts.append(
            f"wide claim: mean {wide['mean']:.0f}, longest {wide['longest']:.0f}, served {wide['served']:.0f}"
        )
    if figures.faults:
        parts.append("faults " + ", ".join(f"{kind} {count}" for kind, count in figures.faults.items()))
    text = "; ".join(parts)
    return "\n".join([text, *(f"  violated: {violation}" for violation in report.violations)])


def _tell(reports: list[tuple[Setup, Report]], seconds: float) -> None:
    delivered = sum(report.delivered for _, report in reports)
    claims = sum(report.figures.claims for _, report in reports)
    grants = sum(report.figures.grants for _, report in reports)
    print(
        f"{claims:,} claims, {grants:,} grants, {delivered:,} messages in {seconds:.1f} s: "
        f"{delivered / max(seconds, 1e-9):,.0f} messages/s",
        file=sys.stderr,
    )

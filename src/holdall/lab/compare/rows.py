"""What the comparison found: one row for each protocol and workload, its seeds taken together, beside ordered."""

from collections.abc import Iterable, Sequence
from statistics import geometric_mean, mean

import msgspec

from holdall.lab.compare.alone import Alone
from holdall.lab.compare.contestants import BASELINE, Contestant
from holdall.lab.compare.extent import Extent
from holdall.lab.compare.measure import Measured
from holdall.lab.compare.published import Compared

VERSION = 1
"""Of the JSON document."""


class Relative(msgspec.Struct, frozen=True):
    """Ratios to ordered on the same claims."""

    throughput: float
    mean: float
    p99: float
    messages: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A protocol on a workload. Waits in mean message delays; rates in grants per mean message delay."""

    name: str
    workload: str
    seeds: int
    grants: int
    throughput: float
    throughput_span: tuple[float, float]
    """Least and most of the seeds."""
    mean: float
    p99: float
    p99_span: tuple[float, float]
    longest: float
    messages: float
    jain: float
    """Over single waits."""
    overtaken: int
    """Most claims that asked later, share a pool, and were granted earlier."""
    bound: str
    """What it promises about being passed."""
    passed: int | None
    """Most passes at one node, where the promise is about those and they were counted."""
    bound_exceeded: int
    relative: Relative | None
    """None: ordered was not among the compared."""
    percentiles: list[float]
    """The wait that 0, 1, … 100 % of the grants did not exceed: means over the seeds."""
    violations: list[str]


class Comparison(msgspec.Struct, kw_only=True):
    """All that was found; what a suite was not asked for is empty."""

    v: int = VERSION
    effort: str
    protocols: list[str]
    workloads: list[str]
    rows: list[Row]
    extent: list[Extent]
    alone: list[Alone]
    published: list[Compared]
    broken: list[str]
    """Runs for the published figures that violated a property."""
    runs: int
    delivered: int
    """Messages of all runs of workloads."""
    seconds: float
    version: str
    """Of holdall."""

    def violations(self) -> list[str]:
        """What must never be, with who did it."""
        return [
            *(f"{row.name} on {row.workload}: {text}" for row in self.rows for text in row.violations),
            *(
                f"{one.name}, holder {one.victim} dies: {text}"
                for one in self.extent
                for text in one.violations
            ),
            *(f"{one.name} alone, k={one.k}: {text}" for one in self.alone for text in one.violations),
            *self.broken,
        ]


def rows(found: Iterable[Measured], contestants: Sequence[Contestant], workloads: Sequence[str]) -> list[Row]:
    """By workload, then in the order of the contestants."""
    runs: dict[tuple[str, str], list[Measured]] = {}
    for one in found:
        runs.setdefault((one.title, one.name), []).append(one)
    return [
        _row(contestant, runs[title, contestant.name], runs.get((title, BASELINE)))
        for title in workloads
        for contestant in contestants
        if (title, contestant.name) in runs
    ]


def _row(contestant: Contestant, runs: list[Measured], base: list[Measured] | None) -> Row:
    throughputs = [run.throughput for run in runs]
    p99s = [run.p99 for run in runs]
    passed = [run.passed for run in runs if run.passed is not None]
    violations = [text for run in runs for text in run.violations]
    return Row(
        name=contestant.name,
        workload=runs[0].title,
        seeds=len(runs),
        grants=sum(run.grants for run in runs),
        throughput=mean(throughputs),
        throughput_span=(min(throughputs), max(throughputs)),
        mean=mean(run.mean for run in runs),
        p99=mean(p99s),
        p99_span=(min(p99s), max(p99s)),
        longest=max(run.longest for run in runs),
        messages=mean(run.messages for run in runs),
        jain=mean(run.jain for run in runs),
        overtaken=max(run.overtaken for run in runs),
        bound=contestant.bound,
        passed=max(passed, default=None),
        bound_exceeded=sum(text.startswith("bound:") for text in violations),
        relative=None if base is None else _relative(runs, base),
        percentiles=[
            mean(step) for step in zip(*(run.percentiles for run in runs if run.percentiles), strict=True)
        ],
        violations=violations,
    )


def _relative(runs: list[Measured], base: list[Measured]) -> Relative | None:
    """Seed by seed, since a seed gives everybody the same claims."""
    by_seed = {run.seed: run for run in base}
    pairs = [(run, by_seed[run.seed]) for run in runs if run.seed in by_seed]
    if not pairs or not all(run.grants and other.grants for run, other in pairs):
        return None
    return Relative(
        *(
            geometric_mean(getattr(run, what) / getattr(other, what) for run, other in pairs)
            for what in ("throughput", "mean", "p99", "messages")
        )
    )

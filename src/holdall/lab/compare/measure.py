"""One run of the comparison, and what it showed. Runs are made in processes of their own, so both are plain values."""

import time

import msgspec

from holdall.lab.compare.contestants import Contestant
from holdall.simulator.run import Run
from holdall.simulator.workload import Workload


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One run: who, on what, with which seed. Times in mean message delays."""

    contestant: Contestant
    title: str
    """Of the workload."""
    workload: Workload
    seed: int
    duration: float
    strict: bool = False
    """Check every property after each turn, and count how often rows are passed."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What a case showed; waits in mean message delays, rates in grants per mean message delay."""

    name: str
    title: str
    seed: int
    claims: int
    grants: int
    throughput: float
    mean: float
    p99: float
    longest: float
    messages: float
    """Per grant, without acknowledgements of an end."""
    jain: float
    overtaken: int
    passed: int | None
    """Most passes of a claim that waits at one node, where the protocol's bound is about those and was measured."""
    percentiles: list[float]
    violations: list[str]
    delivered: int
    seconds: float
    """Processor time of the run."""


def measure(case: Case) -> Measured:
    """Make the run."""
    setup = case.contestant.setup(case.workload, seed=case.seed, duration=case.duration, strict=case.strict)
    begun_s = time.process_time()
    run = Run(setup)
    report = run.run()
    figures = report.figures
    most_passed = getattr(run.system, "most_passed", None) if case.strict else None
    return Measured(
        name=case.contestant.name,
        title=case.title,
        seed=case.seed,
        claims=figures.claims,
        grants=figures.grants,
        throughput=figures.throughput,
        mean=figures.mean,
        p99=figures.p99,
        longest=figures.longest,
        messages=figures.messages_per_claim,
        jain=figures.jain,
        overtaken=figures.overtaken,
        passed=None if most_passed is None else int(most_passed()),
        percentiles=figures.percentiles,
        violations=report.violations,
        delivered=report.delivered,
        seconds=time.process_time() - begun_s,
    )

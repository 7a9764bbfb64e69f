"""Runs of the specification's scenarios, each made once per test session, and their figures as a table."""

from functools import cache
from math import prod

from holdall.simulator.figures import Figures
from holdall.simulator.run import Run
from holdall.simulator.setup import Setup
from holdall.simulator.workload import Load, Workload

SEEDS = (1, 2)


@cache
def figures(
    protocol: str,
    *,
    nodes: int,
    pools: int = 8,
    k: int = 2,
    units: int = 1,
    load: Load = "medium",
    seed: int = 1,
    duration: float = 4000.0,
    wide: bool = False,
) -> Figures:
    """One run without faults; what the judge finds fails the test."""
    workload = Workload(pools=pools, k=k, units=units, load=load, nodes=nodes, wide=wide)
    report = Run(Setup(protocol=protocol, workload=workload, seed=seed, duration=duration)).run()
    assert report.violations == []
    return report.figures


def mean(values: list[float]) -> float:
    """Geometric mean."""
    return prod(values) ** (1 / len(values))


def row(name: str, found: Figures) -> str:
    """Throughput, waits, overtaking, messages, for the table of a test's output."""
    return (
        f"{name:44} thr {found.throughput:.3f}  mean {found.mean:5.1f}  p99 {found.p99:5.0f}  "
        f"longest {found.longest:5.0f}  Jain {found.jain:.2f}  over {found.overtaken:3}  "
        f"msg {found.messages_per_claim:5.2f}"
    )

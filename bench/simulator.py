"""How many messages the simulator delivers per second of processor time, invariants included, by protocol.

    python bench/simulator.py [--strict] [PROTOCOL…]
    PYTHONPATH=bench/pypy:src pypy3 bench/simulator.py [--strict] [PROTOCOL…]

Times depend on the machine; the last column sets them against a loop of plain additions on the same processor, so
that runs on different or busy machines can be compared (under PyPy it says nothing: the loop is compiled away).
PyPy needs nothing to be installed: what it can't load of msgspec is in `pypy/`, and runs are the same message by message.
It compiles what comes often, so runs are longer there, and only the second half of them counts. Figures: `simulator.md`.
"""

import statistics
import sys
import time

from holdall.simulator.run import Run
from holdall.simulator.setup import Setup
from holdall.simulator.swarm import simulated
from holdall.simulator.workload import Workload

IS_PYPY = sys.implementation.name == "pypy"
ROUNDS = 24 if IS_PYPY else 5
WARM = ROUNDS // 2 if IS_PYPY else 0
"""Rounds that are not looked at."""
DURATION = 20_000 if IS_PYPY else 1000
"""Mean message delays of each run."""
LOOP = 2_000_000


def loop_seconds() -> float:
    begun = time.process_time()
    total = 0
    for number in range(LOOP):
        total += number
    return time.process_time() - begun


def measured(protocol: str, nodes: int, seed: int, *, strict: bool) -> tuple[float, float]:
    """Messages per second, and messages per million additions."""
    workload = Workload(load="saturated", nodes=nodes)
    run = Run(Setup(protocol=protocol, workload=workload, duration=DURATION, seed=seed, strict=strict))
    before = loop_seconds()
    begun = time.process_time()
    report = run.run()
    seconds = time.process_time() - begun
    after = loop_seconds()
    assert report.violations == []
    additions = LOOP * seconds / max((before + after) / 2, 1e-3)
    return report.delivered / seconds, report.delivered / additions * 1_000_000


def main() -> None:
    strict = "--strict" in sys.argv[1:]
    named = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    print(f"{'protocol':24} {'nodes':>5} {'messages/s':>12} {'median':>12} {'per million additions':>22}")
    for protocol in named or ["central", *simulated()]:
        for nodes in (1, 8):
            runs = [measured(protocol, nodes, seed, strict=strict) for seed in range(ROUNDS)][WARM:]
            best, middle = max(run[0] for run in runs), statistics.median(run[0] for run in runs)
            relative = statistics.median(run[1] for run in runs)
            print(f"{protocol:24} {nodes:>5} {best:>12,.0f} {middle:>12,.0f} {relative:>22,.0f}", flush=True)


if __name__ == "__main__":
    main()

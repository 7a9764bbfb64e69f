"""Prints what some runs were, step by step, as one number each. Run by itself, over msgspec or over what takes its place under PyPy."""

import hashlib
import sys

import msgspec

from holdall.machine.trace import Step
from holdall.simulator.faults import Faults
from holdall.simulator.run import Run
from holdall.simulator.setup import Setup
from holdall.simulator.workload import Workload

FAULTS = Faults(
    crash=1, restart=1, reboot=1, wipe=1, unsynced=1, pause=1, loss=0.03, duplicate=0.03, reorder=0.03
)


def setups(protocol: str) -> list[Setup]:
    """Without faults, and with some of each; pools with several units, claims that are cancelled or don't wait."""
    calm = Workload(load="saturated", nodes=8)
    rough = Workload(load="saturated", nodes=3, pools=4, units=2, cancel_share=0.1, try_share=0.1)
    return [
        Setup(protocol=protocol, workload=calm, duration=60),
        Setup(
            protocol=protocol, workload=rough, duration=200, faults=FAULTS, leases=True, seed=7, strict=True
        ),
    ]


def main() -> None:
    """The interpreter, whose structs they are, and a line for each run."""
    print(sys.implementation.name, "msgspec" if hasattr(msgspec, "__version__") else "plain")
    for protocol in sys.argv[1:]:
        for setup in setups(protocol):
            steps: list[Step] = []
            report = Run(setup, on_step=steps.append).run()
            digest = hashlib.sha256(repr(steps).encode())
            print(protocol, report.delivered, report.violations, digest.hexdigest(), report.figures)


if __name__ == "__main__":
    main()

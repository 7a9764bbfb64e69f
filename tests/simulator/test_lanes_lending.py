"""Lanes that lend, over seeds that once let two in or gave units out of order."""

import pytest

from holdall.lab.compare.contestants import plain
from holdall.lab.compare.extent import ExtentCase, extent
from holdall.simulator.faults import Faults
from holdall.simulator.run import Run
from holdall.simulator.setup import Setup
from holdall.simulator.workload import Workload


@pytest.mark.parametrize("seed", [2, 39, 204])
def test_a_grant_of_before_the_lending_never_counts_again(seed: int) -> None:
    """A late view of a grant met a claim that had lent its units since, and wanted them again.

    Everybody lends almost at once, while nodes restart and messages overtake each other. Seed 2: exclusion; the others:
    fencing numbers that went back.
    """
    setup = Setup(
        protocol="lanes-lending",
        workload=Workload(pools=2, k_least=1, units=3, need_most=1, nodes=2, think=4.0, clients=6),
        faults=Faults(restart=3, unsynced=2, reorder=0.05),
        ttl=120,
        patience=2,
        rho=0.02,
        leases=True,
        duration=300,
        seed=seed,
    )
    report = Run(setup).run()
    assert report.violations == []
    assert report.figures.grants >= 20


@pytest.mark.parametrize("victim", [10, 40])
def test_a_dead_holder_in_a_ring_of_fifty_blocks_its_neighbours_and_nobody_else(victim: int) -> None:
    """Without leases, for good. Once four: the dead had both its pools on loan, and both lenders kept what they had."""
    case = ExtentCase(contestant=plain("lanes-lending"), pools=50, victim=victim, leases=False)
    found = extent(case)
    assert found.violations == []
    assert found.blocked == [victim - 1, victim + 1]

"""The steps of the history of lanes in the comparison: what they cost alone, how far a death reaches, and the ballot's collapse."""

import pytest

from holdall.lab.compare.alone import AloneCase, alone
from holdall.lab.compare.contestants import plain
from holdall.lab.compare.extent import ExtentCase, extent
from holdall.lab.compare.measure import Case, Measured, measure
from holdall.lab.compare.suites import extent_cases
from holdall.simulator.faults import Faults
from holdall.simulator.setup import Setup
from holdall.simulator.swarm import simulated
from holdall.simulator.systems import FAULTLESS, system
from holdall.simulator.workload import Workload, named_workload

STEPS = ("ballot", "skeen")


def measured(name: str, title: str, duration: float) -> Measured:
    found = measure(
        Case(contestant=plain(name), title=title, workload=named_workload(title), seed=1, duration=duration)
    )
    assert found.violations == []
    return found


@pytest.mark.parametrize(("name", "messages", "delays"), [("ballot", 7, 6), ("skeen", 5, 4)])
@pytest.mark.parametrize("k", [1, 3, 16])
def test_a_claim_alone_costs_what_the_history_says(name: str, messages: int, delays: int, k: int) -> None:
    found = alone(AloneCase(plain(name), k))
    assert found.messages == messages * k
    assert found.delays == pytest.approx(delays)
    assert found.same is True


@pytest.mark.parametrize("name", STEPS)
def test_a_dead_holder_stops_the_whole_ring(name: str) -> None:
    found = extent(ExtentCase(contestant=plain(name), pools=50, victim=10, leases=False))
    assert found.violations == []
    assert len(found.blocked) == 49


def test_the_ballot_is_fast_on_a_ring_and_collapses_where_a_pool_hears_several_claims_at_once() -> None:
    ring = {name: measured(name, "ring-20-saturated", 300).throughput for name in ("ordered", "ballot")}
    crowd = {name: measured(name, "random-8-saturated", 300) for name in ("ordered", "ballot")}
    assert ring["ballot"] > 1.3 * ring["ordered"]
    assert crowd["ballot"].throughput < 0.5 * crowd["ordered"].throughput
    assert crowd["ballot"].messages > 100


@pytest.mark.parametrize("name", STEPS)
def test_what_the_steps_do_not_know_is_refused(name: str) -> None:
    for workload in (Workload(pools=4, nodes=2), Workload(pools=4, nodes=4, units=2)):
        assert not plain(name).can(workload)
        with pytest.raises(ValueError, match="step of the history"):
            system(Setup(protocol=name, workload=workload))
    with pytest.raises(ValueError, match="no faults"):
        system(Setup(protocol=name, workload=Workload(pools=4, nodes=4), faults=Faults(loss=0.1)))


def test_who_survives_no_fault_is_not_drawn_for_the_swarm_and_has_no_leases() -> None:
    assert not FAULTLESS & set(simulated())
    cases = extent_cases([plain(name) for name in (*STEPS, "ordered")], (1,))
    assert {case.contestant.name for case in cases if case.leases} == {"ordered"}

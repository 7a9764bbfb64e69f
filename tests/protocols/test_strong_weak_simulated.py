"""Strong/weak in seeded runs: what it costs alone (SW6, SW7), and that everybody is served whatever happens (SW3)."""

import pytest

from holdall.simulator.run import Report, Run
from holdall.simulator.setup import Setup
from holdall.simulator.workload import Workload

VARIANTS = [
    "strong-weak",
    "strong-weak-named",
    "strong-weak-probe",
    "strong-weak-probe-aged",
    "strong-weak-probe-token",
]


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(("pools", "nodes", "delays", "messages"), [(1, 1, 2, 3), (2, 2, 4, 6)])
def test_sw6_sw7_delays_and_messages_of_a_claim_alone(
    name: str, pools: int, nodes: int, delays: int, messages: int
) -> None:
    workload = Workload(pools=pools, k=pools, nodes=nodes, clients=1, load="low")
    report = Run(Setup(protocol=name, workload=workload, duration=1000, jitter=False, strict=True)).run()
    assert report.violations == []
    assert report.figures.mean == pytest.approx(delays)
    assert report.figures.longest == pytest.approx(delays)
    assert report.figures.messages_per_claim == pytest.approx(messages, abs=0.2)
    assert report.figures.messages["EndAck"] == pools * report.figures.grants


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("units", [1, 3])
def test_sw3_everybody_is_served_and_no_pool_gives_more_than_it_has(name: str, units: int) -> None:
    workload = Workload(
        pools=6,
        units=units,
        nodes=3,
        k=2,
        k_least=1,
        clients=12,
        load="saturated",
        try_share=0.1,
        cancel_share=0.1,
    )
    report: Report = Run(Setup(protocol=name, workload=workload, duration=150, seed=units, strict=True)).run()
    assert report.violations == []
    assert report.figures.grants > 20

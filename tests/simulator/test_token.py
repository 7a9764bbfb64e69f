"""The ring token in seeded runs: what a claim costs alone, and rings that lose nodes, messages and tokens."""

import pytest

from holdall.simulator.faults import parse
from holdall.simulator.run import Report, Run
from holdall.simulator.setup import Setup
from holdall.simulator.workload import Workload

KS = [*range(1, 9), 12, 16]
BOTH = pytest.mark.parametrize("protocol", ["token", "token-tickets"])
MIXED = "crash=2,restart=2,reboot=1,unsynced=1,wipe=1,pause=1,loss=0.01,duplicate=0.01,departure=0.01"


def alone(protocol: str, *, pools: int, k: int, parks: bool = True, duration: float = 400) -> Report:
    """One client with a pool on each node; every message takes exactly one delay."""
    workload = Workload(pools=pools, k=k, nodes=pools, clients=1, load="low")
    setup = Setup(
        protocol=protocol, workload=workload, duration=duration, jitter=False, strict=True, parks=parks
    )
    report = Run(setup).run()
    assert report.violations == []
    assert report.figures.grants >= 4
    return report


def work(report: Report) -> int:
    """Messages without acknowledgements and hops of the token."""
    acknowledged = {"EndAck", "MoveAck", "Token", "TokenAck"}
    return sum(count for kind, count in report.figures.messages.items() if kind not in acknowledged)


@pytest.mark.parametrize("k", KS)
def test_sw6_the_list_alone_is_2k_plus_1_messages_and_one_round(k: int) -> None:
    report = alone("token", pools=k, k=k)
    grants = report.figures.grants
    assert work(report) == (2 * k + 1) * grants
    assert report.figures.messages.get("Token", 0) == (k * grants if k > 1 else 0)
    assert report.figures.mean == pytest.approx(k + 1)


@pytest.mark.parametrize("k", KS)
def test_sw6_tickets_alone_are_3k_messages_and_3_delays(k: int) -> None:
    """One less than the specification's table: the home sends itself no Move."""
    report = alone("token-tickets", pools=k, k=k)
    grants = report.figures.grants
    assert work(report) == 3 * k * grants
    assert report.figures.mean == pytest.approx(3 if k > 1 else 2)


@BOTH
def test_in_a_long_ring_a_claim_waits_for_the_token(protocol: str) -> None:
    """On average half a round, for the list up to a whole one; the token that rests costs one round a claim."""
    resting = alone(protocol, pools=20, k=2, duration=1000)
    assert 5 < resting.figures.mean < 25
    hops = resting.figures.messages["Token"] / resting.figures.grants
    assert 15 < hops <= 20
    going = alone(protocol, pools=20, k=2, parks=False, duration=1000)
    assert going.figures.messages["Token"] / going.figures.grants > hops
    assert going.figures.messages["Call"] == 1


@BOTH
@pytest.mark.parametrize("seed", range(1, 6))
def test_mixed_faults_break_nothing_and_everything_drains(protocol: str, seed: int) -> None:
    workload = Workload(nodes=1 + seed % 5, units=1 + seed % 3, k=2 + seed % 3, pools=8, load="medium")
    setup = Setup(
        protocol=protocol, workload=workload, faults=parse(MIXED), seed=seed, duration=250, strict=True
    )
    report = Run(setup).run()
    assert report.violations == []
    assert report.figures.grants > 10


@BOTH
def test_nobody_is_passed_once_the_token_has_come(protocol: str) -> None:
    workload = Workload(nodes=4, units=1, k=2, pools=8, load="saturated")
    report = Run(Setup(protocol=protocol, workload=workload, seed=1, duration=800)).run()
    assert report.violations == []
    assert report.figures.p99 < 2.5 * report.figures.mean  # ordered locking: more than four times

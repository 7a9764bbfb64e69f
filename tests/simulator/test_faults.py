"""Faults of every kind: nothing is given twice, every bound holds, and everybody is served once they stop."""

import pytest

from holdall.simulator.faults import Faults, parse, strikes
from holdall.simulator.run import Report, Run
from holdall.simulator.setup import Setup
from holdall.simulator.workload import Workload

EVERYTHING = "crash=3,restart=3,reboot=1,unsynced=1,wipe=1,pause=3,loss=0.02,duplicate=0.02,departure=0.02"
ONE_KIND = (
    "crash=6",
    "restart=6",
    "reboot=4",
    "unsynced=3",
    "wipe=3",
    "pause=8",
    "loss=0.05,duplicate=0.05",
    "departure=0.1",
)


def judged(
    faults: str,
    seed: int,
    *,
    protocol: str = "chain",
    nodes: int = 4,
    units: int = 1,
    hold: float = 5.0,
    duration: float = 400.0,
    try_from: int = 1000,
) -> Report:
    """One strict run, with cancels and claims without waiting among the others."""
    workload = Workload(
        nodes=nodes, units=units, load="medium", hold=hold, think=10, cancel_share=0.1, try_share=0.15
    )
    setup = Setup(
        protocol=protocol,
        workload=workload,
        faults=parse(faults),
        seed=seed,
        duration=duration,
        strict=True,
        try_from=try_from,
    )
    report = Run(setup).run()
    assert report.violations == [], f"{setup}"
    return report


@pytest.mark.parametrize("protocol", ["chain", "ordered"])
@pytest.mark.parametrize("faults", ONE_KIND)
def test_one_kind_of_fault(faults: str, protocol: str) -> None:
    report = judged(faults, 1, protocol=protocol)
    assert set(report.figures.faults) == {name.partition("=")[0] for name in faults.split(",")}
    assert report.figures.grants > 30
    assert report.ended_at < 400 + 50 * 65


@pytest.mark.parametrize("seed", range(1, 7))
def test_all_kinds_of_fault_at_once(seed: int) -> None:
    report = judged(
        EVERYTHING, seed, nodes=1 + seed % 4, units=1 + seed % 3, try_from=1000 if seed % 2 else 1
    )
    assert len(report.figures.faults) >= 6


@pytest.mark.parametrize("faults", ["wipe=4", "pause=40"])
def test_long_leases_are_lost_when_their_node_or_their_time_is(faults: str) -> None:
    report = judged(faults, 3, hold=60.0, duration=800)
    print(report.figures.lost, report.figures.faults)
    assert report.figures.lost > 0


def test_a_row_kept_from_an_earlier_activation_is_no_fault_of_the_chain() -> None:
    """A journal lacks its last turns: the node keeps the row as it was one activation before its Promote left."""
    judged(EVERYTHING, 122, nodes=3, units=3, hold=60.0, duration=600)


def test_a_claim_that_waits_by_a_forgotten_activation_is_served() -> None:
    """Its node repeats a Promote that the next node has left behind, so the grant that was lost is never told again."""
    judged(EVERYTHING, 242, nodes=3, units=3, hold=60.0, duration=600)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_seeds(seed: int) -> None:
    for protocol in ("chain", "ordered"):
        judged(
            EVERYTHING,
            seed,
            protocol=protocol,
            nodes=1 + seed % 4,
            units=1 + seed % 3,
            hold=(5.0, 20.0, 60.0)[seed % 3],
            try_from=(1, 2, 1000)[seed % 3],
            duration=600,
        )


def test_a_seed_reproduces_its_run() -> None:
    first, again = judged(EVERYTHING, 5), judged(EVERYTHING, 5)
    assert first == again
    assert judged(EVERYTHING, 6).figures != first.figures


def test_faults_are_read_as_they_are_typed() -> None:
    assert parse("") == Faults()
    assert parse("crash=2,loss=0.01") == Faults(crash=2, loss=0.01)
    drawn = strikes(Faults(crash=2, wipe=1), seed=4, duration=100)
    assert sorted(strike.kind for strike in drawn) == ["crash", "crash", "wipe"]
    assert [strike.at for strike in drawn] == sorted(strike.at for strike in drawn)
    assert all(5 <= strike.at <= 90 for strike in drawn)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("crsh=1", "unknown fault 'crsh=1'; write NAME=NUMBER with NAME one of: crash, restart"),
        ("crash", "unknown fault 'crash'"),
        ("crash=x", "'x' is no number"),
        ("crash=1.5", "whole number"),
        ("crash=-1", "number of blows"),
        ("loss=0.9", "share of 0 to 0.5"),
        ("crash=1e99", "number of blows"),
    ],
)
def test_a_fault_that_is_none_is_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse(text)

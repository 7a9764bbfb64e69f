"""Delays of every kind, walls between groups of hosts, clocks that go wrong, and a run that ends with a number of claims."""

import statistics
from typing import get_args

import msgspec
import pytest

from holdall.leases.holder import Deadlines
from holdall.machine.trace import Step, write_step
from holdall.simulator.faults import Faults, parse
from holdall.simulator.network import DelayKind, Delays, Network
from holdall.simulator.run import Run
from holdall.simulator.setup import Setup
from holdall.simulator.workload import Workload

MANY = 20_000


def network(delays: Delays, seed: int = 1) -> Network:
    return Network(delays, seed=seed, mean_ms=1.0)


@pytest.mark.parametrize(
    ("kind", "least", "most"), [("constant", 1.0, 1.0), ("uniform", 0.5, 1.5), ("exponential", 0.5, 9.0)]
)
def test_the_mean_delay_is_one_and_bounds_are_kept(kind: DelayKind, least: float, most: float) -> None:
    net = network(Delays(kind=kind))
    drawn = [net.between("n000", "c0000") for _ in range(MANY)]
    assert statistics.fmean(drawn) == pytest.approx(1.0, rel=0.02)
    assert least <= min(drawn)
    assert max(drawn) <= most


def test_lognormal_delays_have_a_heavy_tail() -> None:
    net = network(Delays(kind="lognormal"))
    drawn = sorted(net.between("n000", "c0000") for _ in range(MANY))
    assert statistics.fmean(drawn) == pytest.approx(1.0, rel=0.05)
    assert drawn[MANY * 99 // 100] > 5
    assert drawn[MANY // 2] < 0.7


def test_regions_lie_as_far_apart_as_they_were_drawn() -> None:
    net = network(Delays(kind="regions", regions=3))
    hosts = [f"c{number:04d}" for number in range(12)]
    seen = {(one, other): net.between(one, other) for one in hosts for other in hosts}
    assert min(seen.values()) == pytest.approx(0.02, rel=0.11)
    assert all(0.018 <= delay <= 3.3 for delay in seen.values())
    assert all(delay == pytest.approx(seen[other, one], rel=0.25) for (one, other), delay in seen.items()), (
        "distances are the same both ways"
    )
    assert len({round(delay, 1) for delay in seen.values()}) > 2
    assert network(Delays(kind="regions", regions=3)).between("a", "b") == network(
        Delays(kind="regions", regions=3)
    ).between("a", "b")


def test_a_wall_stops_what_crosses_it_and_falls_in_time() -> None:
    net = network(Delays())
    hosts = [f"c{number:04d}" for number in range(8)]
    assert all(net.hears(one, other, 0.0) for one in hosts for other in hosts)
    net.wall(0.25, 10.0, both=True)
    cut = {(one, other) for one in hosts for other in hosts if not net.hears(one, other, 5.0)}
    assert cut
    assert cut == {(other, one) for one, other in cut}
    assert len(cut) < len(hosts) ** 2 - len(hosts)
    assert all(net.hears(one, other, 10.0) for one in hosts for other in hosts)
    net.wall(0.25, 20.0, both=False)
    one_way = {(one, other) for one in hosts for other in hosts if not net.hears(one, other, 15.0)}
    assert one_way < cut
    assert {(other, one) for one, other in one_way}.isdisjoint(one_way)
    assert one_way | {(other, one) for one, other in one_way} == cut


@pytest.mark.parametrize("delays", [{"sigma": 0}, {"regions": 0}, {"near": 2.0, "far": 1.0}])
def test_delays_that_make_no_sense_are_refused(delays: dict[str, float]) -> None:
    with pytest.raises(msgspec.ValidationError, match="delays need"):
        msgspec.convert(delays, Delays)


@pytest.mark.parametrize("kind", get_args(DelayKind))
@pytest.mark.parametrize("protocol", ["chain", "ordered"])
def test_runs_are_clean_whatever_the_delays(kind: DelayKind, protocol: str) -> None:
    setup = Setup(
        protocol=protocol,
        workload=Workload(nodes=4, k=3, clients=6),
        duration=200,
        delays=Delays(kind=kind),
        faults=parse("loss=0.02,reorder=0.05,split=1"),
        rho=0.02,
        strict=True,
    )
    report = Run(setup).run()
    assert report.violations == []
    assert report.figures.grants > 10


@pytest.mark.parametrize("kind", ["stall", "split", "oneway"])
@pytest.mark.parametrize("protocol", ["chain", "ordered"])
def test_nodes_that_stand_still_and_hosts_that_are_not_heard(kind: str, protocol: str) -> None:
    for seed in range(1, 4):
        setup = Setup(
            protocol=protocol,
            workload=Workload(nodes=4, k=2, clients=6, hold=20.0),
            duration=500,
            seed=seed,
            ttl=20,
            faults=parse(f"{kind}=8"),
            rho=0.02,
            strict=True,
        )
        report = Run(setup).run()
        assert report.violations == []
        assert report.figures.faults[kind] > 0
        assert (report.figures.walled > 0) == (kind != "stall")


def test_leases_that_are_cut_off_longer_than_they_live_are_lost() -> None:
    setup = Setup(
        workload=Workload(nodes=4, k=2, clients=6, hold=60.0),
        duration=800,
        ttl=20,
        faults=Faults(split=12),
        rho=0.02,
    )
    report = Run(setup).run()
    assert report.violations == []
    assert report.figures.lost > 0


def test_a_holder_that_counts_its_lease_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clock rates matter: a deadline as late as the managers' own leaves nothing for two clocks that differ."""

    def life_ms(deadlines: Deadlines, ttl_ms: int) -> int:
        del deadlines
        return ttl_ms * 103 // 100

    monkeypatch.setattr(Deadlines, "_life_ms", life_ms, raising=True)
    found: list[str] = []
    for seed in range(1, 9):
        setup = Setup(
            workload=Workload(pools=4, nodes=4, k=2, clients=6, hold=60.0, think=1.0),
            duration=800,
            seed=seed,
            ttl=20,
            faults=Faults(split=6, oneway=6, loss=0.05),
            rho=0.02,
        )
        found += Run(setup).run().violations[:1]
    assert any(text.startswith(("exclusion", "n0")) or "set aside" in text for text in found), found


def test_clients_stop_after_so_many_claims_and_faults_are_spread_over_them() -> None:
    setup = Setup(
        workload=Workload(clients=5), claims=300, duration=1e7, faults=parse("restart=6,crash=6"), seed=3
    )
    report = Run(setup).run()
    assert report.violations == []
    assert report.figures.claims == 300
    assert report.figures.grants + report.figures.given_up == 300
    assert sum(report.figures.faults.values()) >= 8
    assert report.ended_at < 5000
    assert 0 < report.figures.throughput < 1


def trace_of(setup: Setup) -> bytes:
    said: list[bytes] = []

    def note(step: Step) -> None:
        said.append(write_step(step))

    Run(setup, on_step=note).run()
    return b"".join(said)


def test_one_seed_is_one_run_byte_by_byte() -> None:
    setup = Setup(
        workload=Workload(nodes=3, k=3, clients=6),
        duration=150,
        faults=parse(
            "crash=3,unsynced=1,pause=2,split=1,loss=0.05,duplicate=0.05,reorder=0.05,departure=0.1"
        ),
        delays=Delays(kind="regions"),
        rho=0.02,
    )
    first = trace_of(setup)
    assert first == trace_of(setup)
    assert first != trace_of(msgspec.structs.replace(setup, seed=2))

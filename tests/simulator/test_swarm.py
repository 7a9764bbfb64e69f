"""Setups drawn from seeds, counted runs with floors, failing runs made smaller, and histories judged by the checker."""

import json
import shlex
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from typer.testing import CliRunner

from holdall.checker import judge
from holdall.checker.records import AnyRecord
from holdall.cli.lab import app
from holdall.lab.replay import run_replay
from holdall.lab.swarm import SwarmAsked, run_swarm
from holdall.leases.fences import Fences
from holdall.machine.trace import write_step
from holdall.protocols.chain.counting import Counts
from holdall.protocols.vocabulary import ClaimId, UnitGrant
from holdall.simulator import swarm as swarm_module
from holdall.simulator.faults import KINDS, Faults
from holdall.simulator.history import History, judge_records
from holdall.simulator.judge import Judge
from holdall.simulator.judged import judged
from holdall.simulator.network import DelayKind, Delays
from holdall.simulator.run import Report, Run
from holdall.simulator.setup import RHO_MAX, Setup
from holdall.simulator.shrinking import command_line, property_of, shrink, smaller_setups
from holdall.simulator.swarm import simulated, swarm_setup
from holdall.simulator.workload import Workload

FREE = Counts.free


def one_too_many(self: Counts, pool: str) -> int:
    return FREE(self, pool) + 1


# Setups from seeds


def test_a_lease_that_is_lost_can_be_written_to_a_trace() -> None:
    lines: list[bytes] = []
    Run(swarm_setup(15, duration=200), on_step=lambda step: lines.append(write_step(step))).run()
    assert any(b'"lost_at"' in line for line in lines)


def test_a_seed_is_a_setup_and_many_seeds_cover_every_kind() -> None:
    assert swarm_setup(7) == swarm_setup(7)
    setups = [swarm_setup(seed) for seed in range(1, 301)]
    assert {setup.protocol for setup in setups} == set(simulated())
    assert {setup.delays.kind for setup in setups} == set(get_args(DelayKind))
    for kind in (*KINDS, *Faults.shares):
        having = sum(1 for setup in setups if getattr(setup.faults, kind))
        assert 30 < having < 270, f"{kind} is in some of the setups, not in all"
    assert {setup.rho for setup in setups} == {0.0, RHO_MAX / 2, RHO_MAX}
    assert {setup.workload.k for setup in setups} == {1, 2, 3}
    assert {setup.workload.units for setup in setups} == {1, 2, 3}
    assert {setup.workload.nodes for setup in setups} == {1, 2, 3, 4}


def test_a_protocol_for_few_pools_gets_claims_for_few_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    def one(protocol: str) -> int:
        del protocol
        return 1

    monkeypatch.setattr(swarm_module, "pools_max", one)
    assert {swarm_setup(seed).workload.k for seed in range(1, 100)} == {1}


@pytest.mark.parametrize("protocol", ["chain", "ordered"])
def test_seeds_of_the_swarm_are_clean(protocol: str) -> None:
    for seed in range(1, 13):
        setup = swarm_setup(seed, (protocol,), duration=250)
        report = judged(msgspec.structs.replace(setup, strict=True))
        assert report.violations == [], command_line(setup)


# Counted, with floors


def test_a_swarm_counts_what_its_runs_were(capsys: pytest.CaptureFixture[str]) -> None:
    asked = SwarmAsked(protocols=("chain", "ordered"), seeds=6, duration=120, processes=1, json=True)
    assert run_swarm(asked) == 0
    found = json.loads(capsys.readouterr().out)
    reports = [judged(swarm_setup(seed, ("chain", "ordered"), duration=120)) for seed in range(1, 7)]
    assert found["v"] == 1
    assert found["runs"] == 6
    assert found["claims"] == sum(report.figures.claims for report in reports)
    assert found["faults"] == sum(sum(report.figures.faults.values()) for report in reports)
    assert found["messages"] == sum(report.delivered for report in reports)
    assert found["hours"] == pytest.approx(sum(report.ended_at for report in reports) / 3600, abs=1e-3)
    assert found["by_protocol"].keys() == {"chain", "ordered"}
    assert found["violations"] == []


def test_a_swarm_below_its_floors_fails(capsys: pytest.CaptureFixture[str]) -> None:
    asked = SwarmAsked(protocols=("ordered",), seeds=2, duration=50, processes=1)
    assert run_swarm(msgspec.structs.replace(asked, floors="runs=2,claims=1")) == 0
    assert run_swarm(msgspec.structs.replace(asked, floors="runs=2,claims=1000000,hours=99")) == 3
    out = capsys.readouterr().out
    assert "claims, at least 1,000,000 wanted" in out
    assert "hours, at least 99 wanted" in out


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (SwarmAsked(protocols=("chaos",)), "no protocol 'chaos' for a swarm; there are: chain,"),
        (SwarmAsked(floors="wishes=3"), "no floor 'wishes=3'; write NAME=NUMBER"),
        (SwarmAsked(floors="claims=many"), "'many' is no number"),
        (SwarmAsked(seeds=0), "--seeds is 1 to"),
        (SwarmAsked(duration=0), "duration is a number"),
    ],
)
def test_what_is_no_swarm_is_a_usage_error(
    asked: SwarmAsked, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_swarm(asked) == 64
    assert text in capsys.readouterr().err


# Smaller


def test_a_failing_seed_becomes_small_and_its_command_line_has_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "small.jsonl"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Counts, "free", one_too_many)
    asked = SwarmAsked(protocols=("chain",), seeds=1, seed=4, duration=300, processes=1, trace=str(trace))
    assert run_swarm(asked) == 1
    out, err = capsys.readouterr()
    assert "1 violations" in out
    assert "smallest after" in err
    assert "2 clients, 1 pools of 1 on 1 nodes" in err
    (again,) = [line.partition("again: ")[2] for line in err.splitlines() if "again: holdall" in line]
    assert "--faults" not in again
    assert run_replay(trace) == 0
    result = CliRunner().invoke(app, shlex.split(again)[2:], standalone_mode=False)
    assert result.return_value == 1
    assert "violated: n000: refused" in result.output


def test_the_faults_that_a_violation_needs_stay() -> None:
    """A violation that is there only with two restarts and a lost message keeps just these."""
    setup = swarm_setup(3, ("chain",))
    faults = Faults(crash=3, restart=5, loss=0.05, duplicate=0.05, split=2)
    setup = msgspec.structs.replace(setup, faults=faults)
    clean = Run(msgspec.structs.replace(setup, duration=5.0, faults=Faults())).run()

    def run(tried: Setup) -> Report:
        bad = tried.faults.restart >= 2 and tried.faults.loss > 0 and tried.workload.client_count >= 2
        return msgspec.structs.replace(clean, violations=["exclusion: two at once"] if bad else [])

    small = shrink(setup, run(setup), run)
    assert small.setup.faults == Faults(restart=2, loss=0.05)
    assert (small.setup.workload.client_count, small.setup.workload.pools) == (2, 1)
    assert small.setup.delays == Delays(kind="constant")
    assert small.setup.duration == 1.0
    assert small.runs < 1000


def test_another_violation_is_not_what_was_looked_for() -> None:
    setup = swarm_setup(3, ("chain",))
    clean = Run(msgspec.structs.replace(setup, duration=5.0, faults=Faults())).run()

    def run(tried: Setup) -> Report:
        text = "exclusion: a" if tried == setup else "n001: fence: b"
        return msgspec.structs.replace(clean, violations=[text])

    assert shrink(setup, run(setup), run, runs_max=50).setup == setup


def test_every_smaller_setup_differs() -> None:
    setup = swarm_setup(11)
    report = Run(msgspec.structs.replace(setup, duration=5.0, faults=Faults())).run()
    less = list(smaller_setups(setup, report))
    assert len(less) > 10
    assert all(one != setup for one in less)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("exclusion: gpu/u0@n1 has clients 1 and 2", "exclusion"),
        ("n000: refused: 1 units of p000 are not free", "refused"),
        ("n000: bound: c1 was passed 9 times", "bound"),
        ("double-hold: p000/u0: held by two", "double-hold"),
        ("all or nothing: client 1 asked for {}", "all or nothing"),
    ],
)
def test_the_property_of_a_violation(text: str, name: str) -> None:
    assert property_of(text) == name


# Histories


def test_the_history_of_a_run_with_faults_is_clean_and_counts_what_happened(tmp_path: Path) -> None:
    setup = swarm_setup(5, ("chain",), duration=400)
    said: list[AnyRecord] = []
    report = judged(setup, on_record=said.append)
    assert report.violations == []
    verdict = judge_records(said)
    assert verdict.statistics.grants == report.figures.grants
    assert verdict.statistics.claims == report.figures.claims
    assert verdict.statistics.contended > 10
    file = tmp_path / "run.history"
    file.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in said))
    assert judge([file]).exit_status == 0


def test_the_checker_finds_what_the_first_judge_is_blind_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fences that are given twice, and a judge that looks at nothing."""

    def blind(*seen: object) -> None:
        del seen

    def the_same(*asked: object) -> int:
        del asked
        return 7

    for name in ("granted", "used", "used_again", "set_aside", "stopped", "property"):
        monkeypatch.setattr(Judge, name, blind)
    monkeypatch.setattr(Fences, "following", the_same)
    report = judged(Setup(workload=Workload(clients=4), duration=100))
    assert {property_of(text) for text in report.violations} == {"fence-reuse"}


def test_two_believers_are_found_in_a_history() -> None:
    said: list[AnyRecord] = []
    history = History(said.append)
    setup = Setup(workload=Workload(pools=2, clients=2))
    history.begin(setup)
    for client in ("c0000", "c0001"):
        claim = ClaimId(client, 1, 1)
        history.claim(claim, {("n000", "p000"): 1}, 1.0)
        fence = 5 + int(client[-1])
        history.grant(claim, [UnitGrant("n000", "p000", "u0", fence)], 2.0 + fence)
    history.stopped("c0000", 8.5)
    history.resumed(ClaimId("c0000", 1, 1), 9.0)
    history.release(ClaimId("c0000", 1, 1), 10.0)
    history.lost(ClaimId("c0001", 1, 1), 11.0)
    history.end({"n000": {}}, setup, 12.0)
    rules = [violation.rule for violation in judge_records(said).violations]
    assert "double-hold" in rules


def test_what_a_machine_raises_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise KeyError("p000")

    monkeypatch.setattr(Counts, "free", broken)
    report = judged(Setup(workload=Workload(clients=2), duration=50))
    assert property_of(report.violations[0]) == "raised"


# The command


def lab(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["simulate", *words], standalone_mode=False)
    return int(result.return_value), result.output


def test_a_named_workload_with_so_many_agents_and_claims() -> None:
    code, out = lab("--workload", "ring-6-saturated", "--agents", "12", "--claims", "60", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["runs"][0]["claims"] == 60
    assert document["setup"]["workload"]["clients"] == 12
    assert document["setup"]["workload"]["shape"] == "ring"


def test_a_workload_from_a_file_or_from_json(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('shape = "star"\npools = 4\nnodes = 2\n')
    plain = json.loads(lab("--workload", str(file), "--duration", "30", "--json")[1])["setup"]["workload"]
    assert (plain["shape"], plain["pools"], plain["nodes"]) == ("star", 4, 2)
    text = '{"shape": "star", "pools": 4, "nodes": 2}'
    assert json.loads(lab("--workload", text, "--duration", "30", "--json")[1])["setup"]["workload"] == plain


def test_a_run_with_its_history_is_judged_by_the_checker(tmp_path: Path) -> None:
    file = tmp_path / "run.history"
    code, out = lab(
        "--agents", "4", "--duration", "60", "--faults", "crash=2,loss=0.05", "--history", str(file)
    )
    assert code == 0
    assert "holdall check" in out
    assert judge([file]).exit_status == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--workload", "cube-3"), "no workload 'cube-3'"),
        (("--workload", '{"pools": 0}'), "workload"),
        (("--workload", "{"), "its values are: shape"),
        (("--delays", "slow"), "its values are: kind"),
        (("--rho", "0.5"), "rho, the error of clock rates, is 0 to 0.02"),
        (("--ttl", "3"), "a ttl below 10"),
    ],
)
def test_settings_that_can_not_be_read(words: tuple[str, ...], text: str) -> None:
    code, out = lab(*words)
    assert code == 64
    assert text in out

"""Whole nodes under faults: nothing is given twice, and once faults stop everybody who was not killed is served.

Every run is judged while it goes on, and some by the history that its clients have written.
"""

from pathlib import Path

import msgspec
import pytest

from holdall.checker.judging import judge
from holdall.checker.verdict import Floors
from holdall.lab.replay import run_replay
from holdall.lab.whole import ALL_FAULTS, WholeAsked, run_whole, write_run
from holdall.leases.book import LeaseBook
from holdall.simulator.faults import parse_as
from holdall.simulator.whole.run import WholeReport, WholeRun
from holdall.simulator.whole.setup import Wants, WholeFaults, WholeSetup, from_plain, to_plain

ONE_KIND = (
    "crash=4,restart=4",
    "reboot=3",
    "unsynced=3",
    "wipe=2",
    "pause=5",
    "split=3",
    "oneway=2,bridge=2",
    "bus=2",
    "slow=2",
    "kill=6,nap=6",
    "loss=0.05,duplicate=0.05,reorder=0.05",
)


def setup_of(faults: str, seed: int, *, nodes: int = 3, hooks: bool = False) -> WholeSetup:
    return WholeSetup(
        nodes=nodes,
        wants=Wants(hooks=hooks),
        faults=parse_as(WholeFaults, faults),
        seed=seed,
        duration_ms=60_000,
    )


def judged(setup: WholeSetup) -> WholeReport:
    """One run: no violation, and over within the bound that the setup states."""
    report = WholeRun(setup).run()
    assert report.violations == [], setup
    assert report.figures.drained_ms < setup.drain_ms
    return report


@pytest.mark.parametrize("faults", ONE_KIND)
def test_one_kind_of_fault(faults: str) -> None:
    report = judged(setup_of(faults, 1))
    struck = {part.partition("=")[0] for part in faults.split(",")}
    assert struck <= {*report.figures.faults, "restart", "wipe"}, "a node that is away is not struck again"
    assert report.figures.faults
    assert report.figures.grants > 20
    assert report.figures.wide > 5


@pytest.mark.parametrize("seed", [1, 2])
def test_all_kinds_of_fault_at_once(seed: int) -> None:
    report = judged(setup_of(ALL_FAULTS, seed, nodes=3 + seed % 2, hooks=seed % 2 == 0))
    assert len(report.figures.faults) >= 10


def test_a_client_that_stands_still_while_a_node_forgets_its_lease_is_waited_for() -> None:
    """A node loses its last turns; the lease's units at other nodes are not free before its holder knows of the loss."""
    judged(setup_of(ALL_FAULTS, 6065))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_many_seeds(seed: int) -> None:
    judged(setup_of(ALL_FAULTS, seed, nodes=2 + seed % 4, hooks=seed % 2 == 0))


def test_without_faults_every_claim_is_served_or_refused_as_it_wants() -> None:
    report = judged(setup_of("", 1))
    figures = report.figures
    assert figures.grants + sum(figures.denied.values()) == figures.claims
    assert set(figures.lost) <= {"end"}
    assert figures.refused == 0


def test_a_seed_reproduces_its_run() -> None:
    first, again = (WholeRun(setup_of(ALL_FAULTS, 5)).run() for _ in range(2))
    assert first == again
    assert WholeRun(setup_of(ALL_FAULTS, 6)).run() != first


def test_a_setup_is_read_back_from_plain_values() -> None:
    setup = setup_of(ALL_FAULTS, 7, nodes=5)
    assert from_plain(msgspec.json.decode(msgspec.json.encode(to_plain(setup)))) == setup


@pytest.mark.parametrize("seed", [12, 13])
def test_the_checker_judges_what_the_clients_saw(seed: int, tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    report = write_run(setup_of(ALL_FAULTS, seed), history=history)
    assert report.violations == []
    verdict = judge([history], Floors(grants=30, contended=5, faults=5))
    assert list(verdict.violations) == []
    assert verdict.exit_status == 0, verdict.shortfalls


# ---------------------------------------------------------------- the judge finds what is broken


def keep_everything(*_: object, **__: object) -> None:
    """Units that are given back stay set aside."""


def test_a_broken_count_is_found_and_its_trace_replays_on_the_machines_that_made_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "bad.jsonl"
    whole = LeaseBook.give_back
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(LeaseBook, "give_back", keep_everything)
        assert run_whole(WholeAsked(duration=30, trace=str(trace))) == 1
        assert "violated: " in capsys.readouterr().out
        assert run_replay(trace) == 0
        assert "turns, all as in the trace. It shows: " in capsys.readouterr().out
    assert LeaseBook.give_back is whole
    assert run_replay(trace) == 1
    assert " differs (- trace, + now):" in capsys.readouterr().out


@pytest.mark.parametrize("faults", ["crash=2,wipe=1,unsynced=2,kill=2,loss=0.02", "split=1,pause=2"])
def test_a_run_with_faults_replays(faults: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "run.jsonl"
    write_run(setup_of(faults, 3), trace=trace)
    assert run_replay(trace) == 0
    assert "turns, all as in the trace" in capsys.readouterr().out


# ---------------------------------------------------------------- the command


def test_the_command_prints_a_line_a_run_and_the_sum(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_whole(WholeAsked(duration=30, seeds=2, faults="kill=1")) == 0
    out, err = capsys.readouterr()
    first, second = out.splitlines()
    assert first.startswith("seed 1: ")
    assert second.startswith("seed 2: ")
    assert "over several nodes" in first
    assert "2 runs" in err
    assert "0 violations" in err


def test_the_command_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = tmp_path / "history.jsonl"
    asked = WholeAsked(duration=30, faults="loss=0.05", json=True, history=str(history))
    assert run_whole(asked) == 0
    report = msgspec.json.decode(capsys.readouterr().out)
    assert report["v"] == 1
    (run,) = report["runs"]
    assert run["violations"] == []
    assert run["figures"]["grants"] == report["totals"]["grants"] > 0
    assert run["figures"]["faults"].keys() == {"loss"}
    assert run["figures"]["link"]["resent"] > 0
    assert list(judge([history]).violations) == []


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (WholeAsked(faults="fire=1"), "unknown fault 'fire=1'"),
        (WholeAsked(seeds=0), "--seeds is 1 to"),
        (WholeAsked(nodes=1001), "1 to 1000 nodes"),
        (WholeAsked(duration=1), "duration is 10 s"),
    ],
)
def test_a_setting_that_is_none_is_refused(
    asked: WholeAsked, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_whole(asked) == 64
    assert error in capsys.readouterr().err

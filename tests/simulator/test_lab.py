"""`holdall lab simulate`, `replay` and `show`, without the command line around them."""

import json
from pathlib import Path

import msgspec
import pytest

from holdall.lab.replay import run_replay
from holdall.lab.show import run_show
from holdall.lab.simulate import Asked, run_simulate
from holdall.protocols.chain.counting import Counts

FREE = Counts.free


def one_too_many(self: Counts, pool: str) -> int:
    return FREE(self, pool) + 1


SMALL = Asked(pools=3, nodes=3, duration=60, faults="crash=2,loss=0.05", strict=True, seed=7)


def traced(tmp_path: Path, asked: Asked = SMALL) -> Path:
    trace = tmp_path / "run.jsonl"
    run_simulate(msgspec.structs.replace(asked, trace=str(trace)))
    return trace


def test_simulate_prints_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_simulate(Asked(duration=200, seeds=2, wide=True)) == 0
    out, err = capsys.readouterr()
    first, second = out.splitlines()
    assert first.startswith("seed 1: 0.")
    assert second.startswith("seed 2: 0.")
    assert "wide claim: mean" in first
    assert "messages/s" in err


def test_simulate_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_simulate(Asked(protocol="ordered", nodes=2, duration=200, faults="loss=0.05", json=True)) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["v"] == 1
    assert report["protocol"] == "ordered"
    (run,) = report["runs"]
    assert run["seed"] == 1
    assert run["grants"] == run["claims"] > 0
    assert run["faults"].keys() == {"loss"}
    assert run["messages"]["Lock"] >= run["messages"]["Held"] > 0
    assert run["waits"].keys() == {"mean", "p99", "longest"}
    assert run["violations"] == []


def test_a_violation_is_told_and_its_trace_replays_only_on_the_machines_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "bad.jsonl"
    with monkeypatch.context() as broken:
        broken.setattr(Counts, "free", one_too_many)
        assert run_simulate(Asked(duration=100, trace=str(trace))) == 1
        assert "violated: " in capsys.readouterr().out
        assert run_replay(trace) == 0
        assert "It shows: " in capsys.readouterr().out
    assert run_replay(trace) == 1
    text = capsys.readouterr().out
    assert text.startswith("turn ")
    assert " on n000 differs (- trace, + now):" in text
    assert run_replay(trace, as_json=True) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["same"], report["host"]) == (False, "n000")
    assert report["expected"] != report["got"]


@pytest.mark.parametrize("protocol", ["chain", "ordered"])
def test_a_run_with_crashes_replays(
    protocol: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Asked(
        protocol=protocol,
        pools=4,
        nodes=2,
        duration=150,
        faults="crash=2,wipe=1,reboot=1,unsynced=2,departure=0.1",
    )
    assert run_replay(traced(tmp_path, asked)) == 0
    assert "turns, all as in the trace" in capsys.readouterr().out


def test_show_draws_hosts_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = traced(
        tmp_path, Asked(pools=2, nodes=2, duration=60, load="low", faults="crash=1,loss=0.2", seed=3)
    )
    capsys.readouterr()
    assert run_show(trace) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["n000", "n001", "c0000", "c0001"]
    arrow = next(line for line in lines if "Request c0000.1.1" in line)
    assert "◀──" in arrow
    assert any("✗" in line for line in lines)
    assert len({line.index("│") for line in lines[1:3]}) <= 2


def test_show_in_json_has_every_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = traced(tmp_path)
    capsys.readouterr()
    assert run_show(trace, as_json=True) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["v"] == 1
    assert report["header"]["driver"] == "simulator"
    assert {line["kind"] for line in report["lines"]} >= {"message", "lost", "crash", "recover"}


def test_many_hosts_are_shown_as_plain_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = traced(tmp_path, Asked(duration=30, load="saturated"))
    capsys.readouterr()
    assert run_show(trace) == 0
    assert "c0000 → n000: Request c0000.1.1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Asked(protocol="chaos"), "no protocol 'chaos' to simulate; there are: ballot, central, chain, game"),
        (Asked(load="heavy"), "no load 'heavy'; there are: low, medium, saturated"),
        (Asked(nodes=20), "1 ≤ nodes ≤ pools"),
        (Asked(faults="crash"), "unknown fault 'crash'"),
        (Asked(protocol="central", faults="loss=0.1"), "survives no faults"),
        (Asked(duration=0), "duration is a number"),
        (Asked(passes=-1), "are not negative"),
        (Asked(seeds=0), "--seeds is 1 to"),
        (Asked(local=1.5), "--local is a share"),
        (Asked(duration=20, trace="/nowhere/at/all.jsonl"), "can't write the trace /nowhere/at/all.jsonl"),
    ],
)
def test_what_can_not_be_simulated_is_a_usage_error(
    asked: Asked, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_simulate(asked) == 64
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "can't be read: No such file or directory"),
        (b"", "empty"),
        (b"what is this\n", "line 1"),
        (b'{"type":"header","v":9,"driver":"simulator"}\n', "trace version 9"),
    ],
)
def test_a_file_that_is_no_trace(
    content: bytes | None, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace"
    if content is not None:
        trace.write_bytes(content)
    assert run_replay(trace) == 64
    assert run_show(trace) == 64
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count(text) == 2


@pytest.mark.parametrize("driver", ["simulator", "explorer", "node", "bus"])
def test_a_header_that_names_no_world(
    driver: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace"
    trace.write_bytes(b'{"type":"header","v":1,"driver":"%s","world":{"pools":7}}\n' % driver.encode())
    assert run_replay(trace) == 64
    assert "holdall: " in capsys.readouterr().err

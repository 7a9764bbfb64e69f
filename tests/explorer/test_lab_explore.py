"""`holdall lab explore`: exit status, JSON, traces that replay, texts of refusals."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdall.explorer.systems import system_of
from holdall.explorer.trace import world_from
from holdall.lab.explore import Asked, run_explore
from holdall.lab.replay import run_replay
from holdall.lab.show import run_show
from holdall.machine import trace as traces


def json_of(capsys: pytest.CaptureFixture[str], status: int, **asked: Any) -> dict[str, Any]:
    assert run_explore(Asked(json=True, **asked)) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_clean_world_is_complete_and_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, 0, world="x2low")
    assert all(found.pop(cost) >= 0 for cost in ("seconds", "states_per_second", "peak_mb"))
    assert 40 < found.pop("bytes_per_state") < 100
    assert found == {
        "v": 1,
        "protocol": "chain",
        "world": "x2low",
        "faults": "",
        "mutant": None,
        "states": 152,
        "transitions": 332,
        "complete": True,
        "violations": [],
        "depth": 18,
        "frontier": 0,
        "reductions": [],
        "links": "any",
        "compact": False,
        "miss_bound": 0.0,
        "judged": ["safety", "deadlock", "everybody can be served", "fair cycles"],
    }


def test_an_own_world_of_pools_and_claims(capsys: pytest.CaptureFixture[str]) -> None:
    pools, claims = ("gpu@n1=1", "bench@n2=1"), ("gpu@n1:1,bench@n2:1", "bench@n2:1,gpu@n1:1")
    found = json_of(capsys, 0, pools=pools, claims=claims)
    assert found["complete"]
    once = found["states"]
    assert json_of(capsys, 0, pools=pools, claims=claims, faults="cancel=1")["states"] > once


def test_a_world_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('pools = ["a@n1=1"]\nclaims = ["a@n1", "a@n1"]\npasses = 0\n', encoding="utf-8")
    found = json_of(capsys, 0, world=str(file))
    assert (found["world"], found["complete"]) == ("mine", True)
    assert json_of(capsys, 0, world=str(file), repeat=2)["states"] > found["states"]


def test_a_search_that_is_cut_exits_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, 3, world="x3", max_states=100)
    assert not found["complete"]
    assert found["states"] >= 100
    assert found["violations"] == []


def test_a_violation_exits_with_1_and_leaves_a_trace_that_replays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wound.jsonl"
    found = json_of(capsys, 1, mutant="wound", trace=str(file))
    (violation,) = found["violations"]
    assert (violation["property"], violation["steps"], violation["trace"]) == ("deadlock", 6, str(file))
    trace = traces.read(file.read_bytes().splitlines())
    assert trace.header.driver == "explorer"
    assert trace.header.note.startswith("deadlock: ")
    assert len(trace.steps) == 6
    mutated = system_of("chain", world_from(trace.header.world))
    assert traces.replay(trace.steps, mutated.build) is None
    shipped = system_of("chain", world_from({**trace.header.world, "mutant": ""}))
    difference = traces.replay(trace.steps, shipped.build)
    assert difference is not None
    assert any("kill" in line for line in difference.got)


def test_people_read_the_path_step_by_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_explore(Asked(mutant="save-allowed")) == 1
    out = capsys.readouterr().out
    assert "violated: exclusion in 7 steps: 2 units of a@n0 in use, it has 1" in out
    assert "n0: crash" in out
    assert "c2 gets Allowed(c2.1.2, attempt=1) from n0" in out


def test_worlds_and_mutants_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    worlds = {row["name"]: row for row in json_of(capsys, 0, world="list")["worlds"]}
    assert worlds["x2"]["pools"] == ["a@n0=1", "b@n0=1", "a@n1=1", "b@n1=1"]
    assert worlds["x2"]["claims"] == ["c1 n0:a+b -> n1:a+b", "c2 n1:a+b -> n0:a+b"]
    mutants = {row["name"] for row in json_of(capsys, 0, mutant="list")["mutants"]}
    assert {"wound", "quarantine", "save-allowed"} <= mutants
    assert run_explore(Asked(world="list")) == 0
    assert run_explore(Asked(mutant="list")) == 0


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Asked(), "--world NAME"),
        (Asked(world="x9"), "--world list"),
        (Asked(world="x2", faults="los=1"), "the faults are"),
        (Asked(world="x2", pools=("a@n1=1",)), "exclude each other"),
        (Asked(world="x2", protocol="swing"), "to explore; there is"),
        (Asked(world="x2", timers="now"), "off, quiet or any"),
        (Asked(world="x2", max_states=0), "at least 1"),
        (Asked(world="x2", passes=-1), "at least 0"),
        (Asked(mutant="nothing"), "--mutant list"),
        (Asked(pools=("a@n1=1",), claims=("a@n1:0",)), "1 to 1 can be had"),
    ],
)
def test_bad_input_exits_with_64_and_names_the_next_step(
    asked: Asked, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_explore(asked) == 64
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("holdall: ")
    assert text in captured.err


def test_a_bad_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.toml"
    for text, says in (
        ("pools = 3", "Expected `array`"),
        ("x = 1", "unknown key 'x'"),
        ("=", "can't read world"),
    ):
        file.write_text(text, encoding="utf-8")
        assert run_explore(Asked(world=str(file))) == 64
        assert says in capsys.readouterr().err


def test_the_link_is_explored_with_its_own_worlds(capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, 0, protocol="link", world="talk", faults="loss=1")
    assert (found["protocol"], found["world"], found["states"], found["complete"]) == (
        "link",
        "talk",
        1736,
        True,
    )
    assert json_of(capsys, 0, protocol="link", world="one", timers="any")["states"] == 75
    assert json_of(capsys, 3, protocol="link", world="much", max_states=50)["complete"] is False


def test_a_violation_of_the_link_leaves_a_trace_that_replays_and_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "doubles.jsonl"
    assert run_explore(Asked(protocol="link", mutant="doubles", trace=str(file))) == 1
    out = capsys.readouterr().out
    assert "violated: double in 5 steps: word 1 after word 1" in out
    assert "b gets, and it is still under way, frame 1 (ack 0) 1→1: Word(, number=1) from a" in out
    assert run_replay(file) == 0
    assert "5 turns, all as in the trace" in capsys.readouterr().out
    assert run_show(file) == 0
    assert "[1] again" in capsys.readouterr().out


def test_worlds_and_mutants_of_the_link_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    worlds = {row["name"]: row["says"] for row in json_of(capsys, 0, protocol="link", world="list")["worlds"]}
    assert worlds["talk"] == "a says 1 then 1 · b says 1"
    assert worlds["window"] == "a says 1 then 1 then 1 (window of 1)"
    mutants = {row["name"] for row in json_of(capsys, 0, protocol="link", mutant="list")["mutants"]}
    assert {"doubles", "any-order", "opens-with-data"} <= mutants


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Asked(protocol="link"), "one of one, two"),
        (Asked(protocol="link", world="x2"), "there are one, two"),
        (Asked(protocol="link", world="one", faults="crash=1"), "the faults are restart, loss, duplicate"),
        (Asked(protocol="link", world="one", timers="off"), "quiet or any"),
        (Asked(protocol="link", world="one", repeat=2), "no pools and claims"),
        (Asked(protocol="link", mutant="none"), "there are doubles"),
    ],
)
def test_bad_input_for_the_link_names_the_next_step(
    asked: Asked, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_explore(asked) == 64
    assert text in capsys.readouterr().err

"""The listed runs: each in a process of its own, with the numbers that are stated, and one table at the end."""

import json
from typing import Any

import msgspec
import pytest

from holdall.explorer import systems
from holdall.explorer.runs.run import Run
from holdall.explorer.systems import PROTOCOLS, explored, names, system_of, world_of
from holdall.lab import explore_all
from holdall.lab.explore import Asked, run_explore

SMALL = (Run("x2low", states=152), Run("x2", "cancel=1", links="fifo"), Run("x3", states_max=500))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"chain": msgspec.structs.replace(PROTOCOLS["chain"], runs=SMALL, long_runs=())}
    monkeypatch.setattr(systems, "PROTOCOLS", few)
    monkeypatch.setattr(explore_all, "PROTOCOLS", few)


def json_of(capsys: pytest.CaptureFixture[str], status: int, **asked: Any) -> dict[str, Any]:
    assert run_explore(Asked(json=True, world="all", **asked)) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("jobs", [1, 2])
def test_listed_runs_are_told_one_by_one_and_in_all(
    small: None, jobs: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_explore(Asked(world="all", jobs=jobs)) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split() == ["world", "states", "depth", "states/s", "B/state", "MB", "verdict"]
    assert [line.partition("  ")[0].split(" (")[0] for line in lines[1:4]] == [
        "chain x2",
        "chain x2low",
        "chain x3",
    ]
    assert lines[1].startswith("chain x2 (cancel=1, links fifo) ")
    assert lines[3].endswith("clean up to there")
    assert lines[-1].startswith("in all ")
    assert "3 of 3: " in err
    assert "bytes a state" in err


def test_protocols_are_explored_together(small: None, capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, 0, protocol="all")
    assert [run["verdict"] for run in found["runs"]] == ["clean", "clean", "clean up to there"]
    assert found["states"] == {"chain": sum(run["states"] for run in found["runs"])}


def test_another_number_of_states_than_stated_fails(
    small: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {"chain": msgspec.structs.replace(PROTOCOLS["chain"], runs=(Run("x2low", states=153),))}
    monkeypatch.setattr(systems, "PROTOCOLS", wrong)
    found = json_of(capsys, 1)
    assert found["runs"][0]["verdict"] == "153 states were expected"
    # asked for otherwise than it is listed, it has no number
    assert json_of(capsys, 0, faults="cancel=1")["runs"][0]["verdict"] == "clean"


def test_too_few_states_in_all_are_not_enough(small: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_explore(Asked(world="all", min_states=100)) == 0
    assert run_explore(Asked(world="all", min_states=100_000)) == 3
    assert "100,000 are asked for" in capsys.readouterr().err


def test_a_search_that_is_cut_without_being_listed_so_exits_with_3(
    small: None, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json_of(capsys, 3, max_states=60)
    assert [run["verdict"] for run in found["runs"]] == ["cut", "cut", "clean up to there"]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Asked(world="all", protocol="link"), "no list of runs"),
        (Asked(world="all", mutant="wound"), "leave --pool"),
        (Asked(world="long"), "no runs are listed"),
        (Asked(world="all", protocol="swing"), "no protocol 'swing'"),
    ],
)
def test_what_has_no_list_is_refused(
    small: None, asked: Asked, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_explore(asked) == 64
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("protocol", [name for name in names() if name != "link"])
def test_every_listed_run_names_a_world_that_can_be_built(protocol: str) -> None:
    entry = explored(protocol)
    assert entry.worlds(None)
    for run in (*entry.runs, *entry.long_runs):
        world = world_of(protocol, run.world, repeat=run.repeat)
        assert system_of(protocol, world).hosts()

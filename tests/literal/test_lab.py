"""The printed algorithms on the command line: search or script, exit status, traces that replay, refusals."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdall.lab.explore import Asked, run_explore
from holdall.lab.replay import run_replay
from holdall.lab.show import run_show

VIOLATED, USAGE = 1, 64


def json_of(capsys: pytest.CaptureFixture[str], **asked: Any) -> dict[str, Any]:
    assert run_explore(Asked(json=True, **asked)) == VIOLATED
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_l7_is_replayed_from_its_script(capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, protocol="literal-strong-weak", world="L7")
    assert (found["states"], found["transitions"], found["complete"]) == (26, 25, False)
    (violation,) = found["violations"]
    assert (violation["property"], violation["steps"]) == ("deadlock", 25)
    assert run_explore(Asked(protocol="literal-strong-weak", world="L7")) == VIOLATED
    shown = capsys.readouterr()
    assert "replaying a guided script of 25 steps" in shown.err
    assert "KillAck2" in shown.out.splitlines()[-1]


def test_l1_is_searched_for(capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, protocol="literal-lanes", world="L1")
    (violation,) = found["violations"]
    assert found["states"] > 1000
    assert (violation["property"], violation["steps"]) == ("collision", 20)


@pytest.mark.parametrize(
    ("protocol", "world"),
    [
        ("literal-lanes", "L3"),
        ("literal-lanes", "LL"),
        ("literal-game", "B1"),
        ("literal-game", "B6"),
        ("literal-strong-weak", "L12"),
    ],
)
def test_its_trace_replays_and_is_drawn(
    protocol: str, world: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "found.trace"
    (violation,) = json_of(capsys, protocol=protocol, world=world, trace=str(trace))["violations"]
    assert run_replay(trace) == 0
    assert f"{violation['property']}: {violation['text']}" in capsys.readouterr().out
    assert run_show(trace) == 0
    assert "c1" in capsys.readouterr().out


def test_an_own_world_is_explored_under_the_printed_rules(capsys: pytest.CaptureFixture[str]) -> None:
    pools, claims = ("a@n0=1", "a@n1=1"), ("a@n0:1,a@n1:1", "a@n0:1,a@n1:1")
    for protocol, name, steps in (
        ("literal-lanes", "collision", 20),
        ("literal-lanes-combined", "deadlock", 16),
        ("literal-game", "deadlock", 12),
    ):
        (violation,) = json_of(capsys, protocol=protocol, pools=pools, claims=claims)["violations"]
        assert (violation["property"], violation["steps"]) == (name, steps)


@pytest.mark.parametrize(
    ("protocol", "pools", "claims", "says"),
    [
        ("literal-lanes", ("a@n0=1", "b@n0=1"), ("a@n0:1",), "one pool a node"),
        ("literal-lanes", ("a@n0=2",), ("a@n0:1",), "single units"),
        ("literal-strong-weak", ("a@n0=1", "a@n1=1", "a@n2=1"), ("a@n0,a@n1,a@n2",), "one or two resources"),
        ("skeen", ("a@n0=2",), ("a@n0:2",), "one unit of a pool"),
        ("literal-game", ("a@n0=2",), ("a@n0:2",), "one unit of a pool"),
    ],
)
def test_what_the_printed_algorithms_cannot_express_is_refused(
    protocol: str,
    pools: tuple[str, ...],
    claims: tuple[str, ...],
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_explore(Asked(protocol=protocol, pools=pools, claims=claims)) == USAGE
    assert says in capsys.readouterr().err

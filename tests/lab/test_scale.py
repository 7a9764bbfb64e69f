"""Scale by simulation, small: figures for each number of nodes, and its report."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from lab.test_compare import parsed

from holdall.lab.scale import command
from holdall.lab.scale.command import BROKEN, CLEAN, USAGE, Asked, run_scale
from holdall.lab.scale.measure import ScaleCase, scale


def test_claims_of_two_pools_cost_the_same_over_more_nodes() -> None:
    few, many = (
        scale(ScaleCase(protocol="chain", nodes=nodes, duration=300, said=False)) for nodes in (20, 80)
    )
    for one in (few, many):
        assert one.violations == []
        assert one.grants > 4 * one.nodes
        assert one.memory.built > 0
    assert many.messages == pytest.approx(few.messages, rel=0.1)


def test_neighbours_on_a_ring_and_regions() -> None:
    ring = scale(ScaleCase(protocol="chain", nodes=30, duration=300, said=False, shape="ring"))
    wide = scale(ScaleCase(protocol="chain", nodes=30, duration=300, said=False, shape="ring", regions=3))
    assert ring.violations == wide.violations == []
    assert ring.mean != wide.mean


def test_from_the_command_to_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "report"
    asked = Asked(
        protocols="chain,ordered",
        nodes="10,20",
        claims=100,
        regions=2,
        processes=2,
        report=str(folder),
        json=True,
    )
    assert run_scale(asked) == CLEAN
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [(run["protocol"], run["regions"], run["nodes"]) for run in found["runs"]] == [
        (protocol, regions, nodes)
        for protocol in ("ordered", "chain")
        for regions in (None, 2)
        for nodes in (10, 20)
    ]
    assert all(run["claims"] >= 4 * run["nodes"] for run in found["runs"])
    assert {path.name for path in folder.iterdir()} == {"scale.html", "scale.json", "scale.png", "scale.svg"}
    text = (folder / "scale.html").read_text(encoding="utf-8")
    page = parsed(text)
    assert page.count["img"] == 1
    assert all(value.startswith("data:") for value in page.fetched)
    assert page.count["tr"] == 1 + len(found["runs"])


def test_a_series_that_was_broken_off_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Asked(nodes="10,20", claims=100, processes=1, keep=str(tmp_path / "kept.jsonl"), json=True)
    assert run_scale(asked) == CLEAN
    first = json.loads(capsys.readouterr().out)["runs"]

    def never(_: object) -> None:
        raise AssertionError("it was run before")

    monkeypatch.setattr(command, "scale", never)
    assert run_scale(asked) == CLEAN
    assert json.loads(capsys.readouterr().out)["runs"] == first
    assert run_scale(msgspec.structs.replace(asked, keep=str(tmp_path / "none" / "kept"))) == BROKEN


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"nodes": "10,x"}, "write numbers"),
        ({"nodes": "1"}, "2 to"),
        ({"nodes": "10", "claims": 0}, "--claims"),
        ({"protocols": "mystery"}, "mystery"),
        ({"protocols": "chain-try"}, "chain-try can't be scaled"),
        ({"shape": "star"}, "--shape"),
    ],
)
def test_what_makes_no_sense_is_refused(
    wrong: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_scale(Asked(**wrong)) == USAGE
    assert said in capsys.readouterr().err

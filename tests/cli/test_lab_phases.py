"""Phases are drawn from what was explored: every change once, and nothing that was not seen."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from holdall.lab.phases import Change, explored_phases, run_phases
from holdall.lab.phases_svg import drawn_phases

SVG = "{http://www.w3.org/2000/svg}"


def test_the_phases_of_ordered_locking() -> None:
    found = explored_phases("ordered", "pair", "cancel=1,expiry=1")
    assert set(found.changes) == {
        Change("none", "waiting", "Acquire"),
        Change("waiting", "inside", "Held"),
        Change("waiting", "ending", "Release"),
        Change("inside", "ending", "Release"),
        Change("inside", "ending", "LeaseLost"),
        Change("ending", "none", "EndAck"),
    }


def test_the_picture_has_a_box_for_each_phase_and_an_arc_for_each_change(tmp_path: Path) -> None:
    picture = tmp_path / "phases.svg"
    assert run_phases("ordered", "pair", "", svg=picture) == 0
    root = ET.parse(picture).getroot()  # noqa: S314 - our own
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert [text for text in texts if text in {"not known", "waiting", "inside", "ending", "over"}] == [
        "not known", "waiting", "inside", "ending", "over",
    ]  # fmt: skip
    assert len(list(root.iter(f"{SVG}path"))) == 4


def test_ending_stands_below_all_other_phases() -> None:
    text = drawn_phases([("none", "a", "x"), ("a", "ending", "y"), ("a", "b", "z"), ("ending", "none", "w")])
    assert text.index(">b<") < text.index(">ending<") < text.index(">over<")


def test_json_and_an_unknown_world(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_phases("ordered", "pair", "", as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["v"], found["world"], found["states"]) == (1, "pair", 46)
    assert run_phases("ordered", "nowhere", "") == 64
    assert "no world" in capsys.readouterr().err

"""The picture of a trace: every host, every message that arrives, well-formed, nothing from outside."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from holdall.lab.explore import Asked, run_explore
from holdall.lab.replay import load
from holdall.lab.sequence_svg import drawn_svg
from holdall.lab.show import run_show
from holdall.machine.contract import Received

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shortest way to a deadlock when a kill that overtakes its promotion is forgotten."""
    path = tmp_path_factory.mktemp("traces") / "violation.jsonl"
    assert run_explore(Asked(protocol="chain", mutant="early-kill", trace=str(path))) == 1
    return path


def test_every_host_has_a_lifeline_and_every_message_that_arrives_an_arrow(trace: Path) -> None:
    found = load(trace)
    root = ET.fromstring(drawn_svg(found))  # noqa: S314 - our own
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    hosts = {step.host for step in found.steps}
    assert hosts <= set(texts)
    assert found.header.note in texts
    arrows = [
        arrival
        for step in found.steps
        for arrival in step.arrivals
        if isinstance(arrival.event, Received) and arrival.event.sender.node != step.host
    ]
    assert len(list(root.iter(f"{SVG}polygon"))) == len(arrows) > 0


def test_a_picture_is_written_and_says_so(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "violation.svg"
    assert run_show(trace, svg=picture, title="A <title> & more") == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert str(picture) in said.err
    text = picture.read_text()
    assert "A &lt;title&gt; &amp; more" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_a_picture_that_cannot_be_written_is_an_error(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_show(trace, svg=tmp_path / "no" / "where.svg") == 64
    assert "can't write" in capsys.readouterr().err

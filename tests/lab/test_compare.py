"""One small comparison from the command to the page, and what it refuses."""

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from holdall.lab.compare.command import CLEAN, DIFFERS, MISSING, USAGE, Asked, run_compare
from holdall.lab.compare.contestants import contestants
from holdall.simulator.systems import SYSTEMS

NAMES = ["central", "ordered", "chain"]
LOADS = ["ring-6-saturated", "random-4-low"]
ASKED = Asked(
    suites="loads",
    protocols="chain,central,ordered",
    workloads=",".join(LOADS),
    duration=150,
    seeds=2,
    processes=1,
)


class Page(HTMLParser):
    """Counts elements, and gathers texts of cells and all that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.fetched: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in {"meta", "img"}:
            self.open.append(tag)
        self.fetched += [
            value or "" for name, value in attrs if name in {"src", "href", "srcset", "data", "action"}
        ]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


def parsed(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    return page


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the report of one comparison."""
    folder = tmp_path_factory.mktemp("compare") / "new" / "report"
    asked = Asked(
        suites="loads", protocols="chain,central,ordered", workloads=",".join(LOADS), duration=150, seeds=2,
        processes=1, report=str(folder), json=True,
    )  # fmt: skip
    assert run_compare(asked) == CLEAN
    return folder


def test_the_page_is_whole_and_fetches_nothing(report: Path) -> None:
    text = (report / "index.html").read_text(encoding="utf-8")
    page = parsed(text)
    assert page.count["html"] == page.count["body"] == 1
    assert page.count["img"] == page.count["figure"] == 5
    assert page.fetched
    assert all(value.startswith("data:image/svg+xml;base64,") for value in page.fetched)
    assert "://" not in text
    assert "No run violated a property." in text
    for name in NAMES:
        assert page.cells.count(name) == len(LOADS)


def test_the_figures_inside_are_svg_and_fetch_nothing(report: Path) -> None:
    images = parsed((report / "index.html").read_text(encoding="utf-8")).fetched
    for image in images:
        svg = base64.b64decode(image.partition(",")[2]).decode()
        assert "<svg" in svg
        assert not re.findall(r'(?:href|src)="(?!#)', svg)
        assert not re.findall(r"url\((?!#)", svg)


def test_each_figure_is_kept_as_png_and_svg(report: Path) -> None:
    assert {path.name for path in report.iterdir()} == {
        "index.html", "compare.json", "tables.md", *(
            f"{name}.{kind}" for name in ("throughput", "waits", "trade", "tails", "fairness") for kind in ("png", "svg")
        ),
    }  # fmt: skip
    for path in report.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_the_tables_in_markdown_have_a_line_for_each_protocol_and_workload(report: Path) -> None:
    text = (report / "tables.md").read_text(encoding="utf-8")
    for load in LOADS:
        assert f"**{load}**" in text
    for name in NAMES:
        assert text.count(f"\n| {name} |") == len(LOADS)
    widths = {len(line.split("|")) for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1


def test_the_document_has_a_row_for_each_protocol_and_workload(report: Path) -> None:
    found: dict[str, Any] = json.loads((report / "compare.json").read_bytes())
    assert (found["v"], found["protocols"], found["workloads"]) == (1, NAMES, LOADS)
    assert [(row["workload"], row["name"]) for row in found["rows"]] == [
        (load, name) for load in LOADS for name in NAMES
    ]
    assert found["runs"] == len(NAMES) * len(LOADS) * 2
    for row in found["rows"]:
        assert row["seeds"] == 2
        assert row["grants"] > 20
        assert row["violations"] == []
        assert row["percentiles"] == sorted(row["percentiles"])
        assert len(row["percentiles"]) == 101
        assert 0 < row["jain"] <= 1
        assert row["throughput_span"][0] <= row["throughput"] <= row["throughput_span"][1]
    by_name = {(row["workload"], row["name"]): row for row in found["rows"]}
    for load in LOADS:
        assert set(by_name[load, "ordered"]["relative"].values()) == {1.0}
        assert by_name[load, "central"]["messages"] == pytest.approx(3, abs=0.3)


def test_the_table_in_a_pipe_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_compare(ASKED) == CLEAN
    out = capsys.readouterr().out
    assert "\x1b" not in out
    lines = out.splitlines()
    assert [line for line in lines if line in LOADS] == LOADS
    assert sum(line.startswith("chain ") for line in lines) == len(LOADS)


def test_two_processes_find_what_one_finds(capsys: pytest.CaptureFixture[str]) -> None:
    found: list[Any] = []
    for processes in (1, 2):
        asked = Asked(
            suites="loads,alone",
            protocols="chain,ordered",
            workloads="random-4-low",
            duration=100,
            processes=processes,
            json=True,
        )
        assert run_compare(asked) == CLEAN
        document = json.loads(capsys.readouterr().out)
        document.pop("seconds")
        found.append(document)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"protocols": "chain,mystery"}, "mystery"),
        ({"protocols": ","}, "there are:"),
        ({"suites": "loads,nothing"}, "nothing"),
        ({"suites": " "}, "there are:"),
        ({"workloads": "square-4"}, "SHAPE-POOLS"),
        ({"workloads": "/none/mine.toml"}, "can't read"),
        ({"seeds": 0}, "--seeds"),
        ({"processes": 0}, "--processes"),
        ({"duration": 1.0}, "--duration"),
    ],
)
def test_what_makes_no_sense_is_refused(
    wrong: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_compare(Asked(**wrong)) == USAGE
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


def test_a_report_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    asked = Asked(suites="alone", protocols="central", processes=1, report=str(tmp_path / "file" / "report"))
    assert run_compare(asked) == USAGE
    assert "can't write the report" in capsys.readouterr().err


def test_a_cost_that_is_not_the_specified_one_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from holdall.lab.compare import alone

    dearer = alone.Cost(lambda k: 2 * k, lambda k: k + 1, "2k")
    monkeypatch.setitem(alone.SPECIFIED, "chain", dearer)
    assert run_compare(Asked(suites="alone", protocols="chain", processes=1)) == DIFFERS
    assert "chain alone, k=16: 33 messages and 17 delays; specified are 32 and 17" in capsys.readouterr().err


def test_everybody_in_the_simulator_is_compared_unless_named() -> None:
    assert {one.name for one in contestants()} == set(SYSTEMS)
    assert [one.name for one in contestants()][:2] == ["central", "ordered"]
    assert [one.name for one in contestants("ordered,chain-try,central")] == [
        "central",
        "ordered",
        "chain-try",
    ]


def test_without_matplotlib_a_report_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(name: str) -> None:
        del name

    monkeypatch.setattr("holdall.lab.compare.canvas.find_spec", none)
    assert run_compare(Asked(report=str(tmp_path))) == MISSING
    captured = capsys.readouterr()
    assert "pip install 'holdall[lab]'" in captured.err
    assert captured.out == ""

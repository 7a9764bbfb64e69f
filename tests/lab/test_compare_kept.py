"""Results kept in a file: a comparison that was broken off goes on where it was, whatever stands in the file."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdall.lab.compare import command
from holdall.lab.compare.command import CLEAN, USAGE, Asked, run_compare
from holdall.lab.compare.contestants import plain
from holdall.lab.compare.kept import Keeper
from holdall.lab.compare.measure import Case, Measured, measure
from holdall.simulator.workload import Workload

CASE = Case(contestant=plain("ordered"), title="t", workload=Workload(pools=4, nodes=4), seed=1, duration=100)


@pytest.fixture(name="found", scope="module")
def _found() -> Measured:
    return measure(CASE)


def keeper(path: Path | None) -> Keeper[Case, Measured]:
    return Keeper(path, Case, Measured)


def test_what_was_kept_is_known_to_the_next(tmp_path: Path, found: Measured) -> None:
    path = tmp_path / "kept.jsonl"
    keeper(path).keep(CASE, found)
    other = msgspec.structs.replace(CASE, seed=2)
    again = keeper(path)
    assert again.known(CASE) == found
    assert again.known(other) is None
    again.keep(other, found)
    assert keeper(path).known(CASE) == keeper(path).known(other) == found


def test_a_line_that_was_cut_off_and_one_of_another_kind_are_passed_over(
    tmp_path: Path, found: Measured
) -> None:
    path = tmp_path / "kept.jsonl"
    keeper(path).keep(CASE, found)
    whole = path.read_bytes()
    path.write_bytes(b'{"kind":"Other","job":{},"found":{}}\nnot json\n' + whole[: len(whole) // 2])
    assert keeper(path).known(CASE) is None
    keeper(path).keep(CASE, found)
    assert keeper(path).known(CASE) == found


def test_without_a_file_nothing_is_kept(found: Measured) -> None:
    none = keeper(None)
    none.keep(CASE, found)
    assert none.known(CASE) is None


def test_a_comparison_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Asked(
        suites="loads,extent,alone", protocols="central,ordered", workloads="random-4-low", duration=100, processes=1,
        keep=str(tmp_path / "kept.jsonl"), json=True,
    )  # fmt: skip
    assert run_compare(asked) == CLEAN
    first: dict[str, Any] = json.loads(capsys.readouterr().out)

    def never(_: object) -> None:
        raise AssertionError("it was run before")

    for work in ("measure", "extent", "alone"):
        monkeypatch.setattr(command, work, never)
    assert run_compare(asked) == CLEAN
    second: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert first.pop("seconds") != second.pop("seconds")
    assert first == second


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = Asked(
        suites="alone", protocols="central", processes=1, keep=str(tmp_path / "none" / "kept.jsonl")
    )
    assert run_compare(asked) == USAGE
    assert "--keep" in capsys.readouterr().err

"""The audit log: each line follows from the ones before, and a line that was touched shows."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdall.http.audit import NAME, Audit, first_broken


@pytest.fixture
def file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        for number in range(5):
            Audit(Path(folder) / "http").write({"what": "kick", "about": f"L{number}", "reason": "x" * 5000})
        yield Path(folder) / "http" / NAME


def test_each_process_goes_on_with_the_chain_and_nobody_else_may_read_it(file: Path) -> None:
    assert first_broken(file.read_bytes()) == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["about"] for line in lines] == ["L0", "L1", "L2", "L3", "L4"]
    assert {len(line["reason"]) for line in lines} == {1000}
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_changed_line_shows(file: Path, number: int) -> None:
    lines = file.read_bytes().splitlines()
    lines[number - 1] = lines[number - 1].replace(b"kick", b"kiss")
    assert first_broken(b"\n".join(lines)) == number


def test_a_line_that_was_taken_out_shows_at_the_next_one(file: Path) -> None:
    lines = file.read_bytes().splitlines()
    del lines[2]
    assert first_broken(b"\n".join(lines)) == 3
    assert first_broken(b"no json") == 1

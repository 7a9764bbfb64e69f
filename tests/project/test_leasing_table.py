"""The table of what leasing can do names tests that exist, commands that exist, and each row once."""

import ast
import re
from pathlib import Path

import pytest
from docs.commands_page import command_names

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "internals" / "leasing-table.md").read_text(encoding="utf-8")
CASES = [
    *(f"N{one}" for one in range(1, 9)),
    "D1",
    "F1",
    "F2",
    "F3",
    "F4",
    "E1",
    "E2",
    "E3",
    "P1",
    "Q1",
    "Q2",
    "X1",
    "X2",
]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| [A-Z]\d", line)
]
TESTS = sorted(set(re.findall(r"`(tests/[^`]*)`", PAGE)))


def test_each_row_is_there_once_with_something_that_shows_it() -> None:
    assert [row[0] for row in ROWS] == [*(f"S{one}" for one in range(1, 25)), *CASES]
    assert all(len(row) == 4 for row in ROWS)
    assert [row[0] for row in ROWS if not re.findall(r"`[^`]+`", row[2])] == []


@pytest.mark.parametrize("named", TESTS)
def test_a_test_that_the_table_names_exists(named: str) -> None:
    file, _, name = named.partition("::")
    functions = {
        one.name
        for one in ast.parse((ROOT / file).read_text(encoding="utf-8")).body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert name.startswith("test_")
    assert name in functions


def test_a_case_is_shown_by_a_test_that_carries_its_name() -> None:
    assert [row[0] for row in ROWS if row[0] in CASES and f"::test_{row[0].lower()}_" not in row[2]] == []


def test_a_command_that_the_table_names_exists() -> None:
    named = set(re.findall(r"`(holdall [^`]*)`", PAGE))
    assert named - set(command_names()) == set()

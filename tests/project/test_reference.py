"""The pages about statuses and histories say what the code says."""

import re
from pathlib import Path
from typing import get_args

import pytest

from holdall.checker.records import AnyRecord, Record
from holdall.checker.verdict import Rule
from holdall.model import errors
from holdall.node.configured import BusSettings, Defaults, NodeSettings, PoolSettings
from holdall.node.http_settings import HttpSettings

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
VARIABLE = re.compile(r"\bHOLDALL_[A-Z_]+")


def rows(page: str, heading: str) -> list[tuple[str, str]]:
    """First and second cell of each row of the table below a heading."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    section = text.partition(f"{heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| (.+?) \| (.+?) \|", section, re.MULTILINE)[1:]


def test_the_page_lists_exactly_the_rules_of_the_checker() -> None:
    listed = [
        name for cell, _ in rows("histories.md", "## Rules") for name in re.findall(r"`([a-z-]+)`", cell)
    ]
    assert sorted(listed) == sorted(get_args(Rule))


@pytest.mark.parametrize("record", get_args(AnyRecord), ids=lambda record: record.__name__)
def test_the_page_lists_exactly_the_fields_of_each_line(record: type[Record]) -> None:
    config = record.__struct_config__
    (fields,) = (cell for tag, cell in rows("histories.md", "## Input") if tag == f"`{config.tag}`")
    outside_brackets = re.sub(r"\([^()]*\)", "", fields)
    listed = re.findall(r"`([a-z_]+)\??`", outside_brackets)
    assert sorted(listed) == sorted(record.__struct_encode_fields__)


def test_every_status_of_an_error_is_on_the_page() -> None:
    listed = {cell for cell, _ in rows("statuses.md", "# Exit statuses")}
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.HoldallError)
    ]
    assert {str(kind.exit_status) for kind in kinds} <= listed


def test_the_page_lists_exactly_the_errors_with_their_statuses_and_classes() -> None:
    text = (REFERENCE / "statuses.md").read_text(encoding="utf-8").partition("## Errors\n")[2]
    listed = re.findall(r"^\| `(\S+)` \| (\d+) \| `(\w+)` \|", text, re.MULTILINE)
    wanted = [(code, str(kind.exit_status), kind.__name__) for code, kind in errors.BY_CODE.items()]
    assert sorted(listed) == sorted(wanted)
    raised = {name for cell, _ in rows("python.md", "## Errors") for name in re.findall(r"^`(\w+)`", cell)}
    # The base class stands in the text above; a program has no configuration of a node.
    assert raised == {name for _, _, name in wanted} - {"HoldallError", "BadConfig"}


def keys(heading: str) -> list[str]:
    """Keys that the page of the configuration lists below a heading."""
    listed = rows("configuration.md", heading)
    return sorted(cell.strip("`") for cell, _ in listed)


def durations_by_name(fields: tuple[str, ...]) -> set[str]:
    """Names in the file of a settings' fields: a duration is written with its unit there."""
    return {field.removesuffix("_ms") for field in fields}


def test_the_page_lists_exactly_the_keys_of_the_configuration() -> None:
    node = durations_by_name(NodeSettings.__struct_fields__) - {
        "system"
    }  # where a node runs, not what is written
    assert keys("## The node") == sorted(node)
    assert keys("## The bus") == sorted(BusSettings.__struct_fields__)
    assert keys("## HTTP") == sorted(HttpSettings.__struct_fields__)
    assert keys("## Defaults of its leases") == sorted(durations_by_name(Defaults.__struct_fields__))
    assert keys("## Pools") == sorted(durations_by_name(PoolSettings.__struct_fields__) | {"count"})


def test_every_variable_of_the_environment_is_on_the_page_and_no_other() -> None:
    page = (REFERENCE / "configuration.md").read_text(encoding="utf-8").partition("## Environment\n")[2]
    source = REFERENCE.parents[1] / "src"
    used = {
        name for path in source.rglob("*.py") for name in VARIABLE.findall(path.read_text(encoding="utf-8"))
    }
    assert set(VARIABLE.findall(page)) == used

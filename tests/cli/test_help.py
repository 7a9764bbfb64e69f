"""What `--help` shows: every command in a panel, examples that can be copied, live names where a pool is asked for."""

import re
from collections.abc import Iterator

import pytest
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from holdall.cli import completion
from holdall.cli.app import PANELS, app
from holdall.model import frames


def all_commands(
    group: TyperGroup | None = None, prefix: str = "holdall"
) -> Iterator[tuple[str, TyperCommand]]:
    for name, command in (group or get_group(app)).commands.items():
        if isinstance(command, TyperGroup):
            yield from all_commands(command, f"{prefix} {name}")
        elif isinstance(command, TyperCommand):
            yield f"{prefix} {name}", command


def test_the_panels_name_exactly_the_commands_there_are() -> None:
    named = [name for names in PANELS.values() for name in names]
    assert sorted(named) == sorted(get_group(app).commands)


@pytest.mark.parametrize(("name", "command"), list(all_commands()))
def test_each_example_is_a_line_that_begins_with_its_command(name: str, command: TyperCommand) -> None:
    head, *examples = (command.epilog or "").splitlines()
    assert re.fullmatch("Examples?:", head)
    assert [one for one in examples if not one.startswith("  holdall ")] == []
    assert any(one.split(" && ")[0].startswith(f"  {name}") for one in examples)


def test_pool_names_complete_wherever_a_need_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    row = frames.PoolRow(
        pool="psu",
        node="n",
        labels={"volts": "48"},
        reach="system",
        total=3,
        free=2,
        held=1,
        unusable=0,
        waiting=0,
        units=(),
    )

    def listing(_what: str) -> frames.Listing:
        return frames.Listing(n=0, pools=(row,))

    monkeypatch.setattr(completion, "_listing", listing)
    found = 0
    for _, command in all_commands():
        for option in command.params:
            if option.metavar == "SPEC":
                found += 1
                context = command.make_context("x", [], resilient_parsing=True)
                offered = [item.value for item in option.shell_complete(context, "ps")]
                assert offered == ["psu", "psu,volts=48"]
    assert found == 5

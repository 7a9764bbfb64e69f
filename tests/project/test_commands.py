"""The commands that the documentation lists and those of the code are the same."""

import re
import shlex
from pathlib import Path

import pytest
from docs.commands_page import command_names, write_commands_page
from typer.core import TyperGroup
from typer.main import get_group

from holdall.cli.app import app
from holdall.model.spec import parse_spec

ROOT = Path(__file__).resolve().parents[2]


def commands_at_a_glance() -> set[str]:
    """Full names from the list in docs/start.md; `lab explore | simulate` names each of the group."""
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    listing = page.partition("## All commands at a glance")[2].partition("```text\n")[2].partition("```")[0]
    commands = get_group(app).commands
    names: set[str] = set()
    for line in listing.splitlines():
        command, _, rest = line.removeprefix("holdall ").partition(" ")
        names.add(f"holdall {command}")
        group = re.match(r"\s*(\w+(?: \| \w+)*)", rest)
        if group and isinstance(commands.get(command), TyperGroup):
            names |= {f"holdall {command} {name}" for name in group[1].split(" | ")}
    return names


def test_the_list_of_commands_and_the_code_agree() -> None:
    assert commands_at_a_glance() == set(command_names())


def test_the_reference_has_a_section_for_every_command_and_a_meaning_for_every_option(tmp_path: Path) -> None:
    write_commands_page(tmp_path / "commands.md")
    page = (tmp_path / "commands.md").read_text(encoding="utf-8")
    assert [name for name in commands_at_a_glance() if f"# `{name}`\n" not in page] == []
    assert re.findall(r"^\| .* \|  \|$", page, re.MULTILINE) == []


def shown_lines() -> list[str]:
    """Every `$ holdall …` line of the pages, without its comment."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [page.read_text(encoding="utf-8") for page in pages if page.name != "commands.md"]
    lines = re.findall(r"^\$ (holdall .*)$", "\n".join(texts), re.MULTILINE)
    return [part.strip() for line in lines for part in line.partition("  #")[0].split("&&")]


@pytest.mark.parametrize("line", shown_lines())
def test_a_command_line_on_a_page_exists_with_its_options(line: str) -> None:
    words = shlex.split(line.partition(" -- ")[0])
    group = get_group(app)
    command = group.commands[words[1]]
    if isinstance(command, TyperGroup):
        command = command.commands[words[2]]
    known = {spelling for option in command.params for spelling in option.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_every_pool_wish_on_the_page_is_read() -> None:
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    table = page.partition("## What you can ask for")[2].partition("##")[0]
    wishes = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert len(wishes) == 7
    for wish in wishes:
        for spec in re.split(r" ?--(?:need|or) ", wish):
            assert not spec or parse_spec(spec).pools

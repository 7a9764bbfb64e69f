"""The commands that the documentation lists and those of the code are the same."""

import re
from pathlib import Path

from commands_page import command_names, write_commands_page

ROOT = Path(__file__).resolve().parents[2]


def commands_at_a_glance() -> set[str]:
    """Full names from the list in docs/start.md; `lab explore | simulate` names each of the group."""
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    listing = page.partition("## All commands at a glance")[2].partition("```text\n")[2].partition("```")[0]
    names: set[str] = set()
    for line in listing.splitlines():
        command, _, rest = line.removeprefix("holdall ").partition(" ")
        names.add(f"holdall {command}")
        if group := re.match(r"\s*(\w+(?: \| \w+)+)", rest):
            names |= {f"holdall {command} {name}" for name in group[1].split(" | ")}
    return names


def test_the_list_of_commands_and_the_code_agree() -> None:
    assert commands_at_a_glance() == set(command_names())


def test_the_reference_has_a_section_for_every_command_and_a_meaning_for_every_option(tmp_path: Path) -> None:
    write_commands_page(tmp_path / "commands.md")
    page = (tmp_path / "commands.md").read_text(encoding="utf-8")
    assert [name for name in commands_at_a_glance() if f"# `{name}`\n" not in page] == []
    assert re.findall(r"^\| .* \|  \|$", page, re.MULTILINE) == []

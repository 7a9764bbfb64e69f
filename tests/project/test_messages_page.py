"""The reference of messages has every family, every message and every field of the code."""

import re
from typing import get_args

import pytest
from docs.messages_page import CHAPTERS, KEPT, families, write_messages_page

LAB = ("holdall.world.", "holdall.simulator.", "holdall.explorer.")


def shipped() -> set[str]:
    """Families of nodes: not those of tests, nor of the worlds that the lab explores."""
    return {
        name
        for name, members in families().items()
        if all(one.__module__.startswith("holdall.") for one in members)
        and not any(one.__module__.startswith(LAB) for one in members)
    }


def test_every_family_is_in_one_chapter_or_is_what_a_journal_keeps() -> None:
    of_chapters = [name for chapter in CHAPTERS for name in chapter.families]
    # What a node answers its clients is a family for the sake of traces, and a union of its own chapter here.
    assert sorted([*of_chapters, *KEPT, "answers"]) == sorted(shipped())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "messages.md"
    write_messages_page(path)
    return path.read_text(encoding="utf-8")


def test_the_page_has_every_message_with_its_fields_in_order(page: str) -> None:
    known = families()
    messages = [member for chapter in CHAPTERS for name in chapter.families for member in known[name]]
    messages += [member for chapter in CHAPTERS for _, union in chapter.unions for member in get_args(union)]
    assert len(messages) > 150
    parts = re.split(r"^\*\*(\w+)\*\*", page, flags=re.MULTILINE)[1:]
    shown: dict[str, list[list[str]]] = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        fields = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
        shown.setdefault(name, []).append(fields)
    for message in messages:
        assert list(message.__struct_encode_fields__) in shown[message.__name__], message


def test_every_message_says_what_it_is(page: str) -> None:
    assert re.findall(r"^\*\*(\w+)\*\*(?:, `[^`]*` on the wire)?\. $", page, re.MULTILINE) == []


def test_a_field_is_told_with_its_type_default_and_text(page: str) -> None:
    chain = page.partition("### Chain\n")[2].partition("\n### ")[0]
    assert "**Done**, `done` on the wire. The end of this attempt and all earlier ones" in chain
    assert "| `claim` | `ClaimId` |  |" in chain
    assert "| `alone` | `bool`, else `False` | The claim has gone to no other node" in chain
    assert "**ClaimId**" in page.partition("## Values inside messages\n")[2]

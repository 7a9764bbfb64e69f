"""docs/protocols/literal.md says of every row what the explorer finds."""

import re
from pathlib import Path

import pytest
from literal import test_game, test_lanes, test_strong_weak
from literal.found import Clean, Wrong

from holdall.world.literal import game, lanes, strong_weak

PAGE = (Path(__file__).parents[2] / "docs" / "protocols" / "literal.md").read_text(encoding="utf-8")
SECTIONS: dict[str, str] = dict(
    zip(
        ("literal-lanes", "literal-game", "literal-strong-weak"),
        re.split(r"^## .*`literal-.*$", PAGE, flags=re.MULTILINE)[1:],
        strict=True,
    )
)
FOUND = [
    *(("literal-lanes", row) for row in (*test_lanes.WRONG, *test_lanes.CLEAN)),
    *(("literal-game", row) for row in (*test_game.WRONG, *test_game.CLEAN)),
    *(("literal-strong-weak", row) for row in test_strong_weak.WRONG),
]


@pytest.mark.parametrize(("protocol", "row"), FOUND, ids=[f"{name}-{row}" for name, row in FOUND])
def test_the_page_gives_the_numbers_of_each_row(protocol: str, row: Wrong | Clean) -> None:
    lines = [line for line in SECTIONS[protocol].splitlines() if f"`{row.world}`" in line]
    said = f"{row.states:,}" if isinstance(row, Clean) else f"{row.steps}, {row.property}"
    assert any(said in line for line in lines), said


@pytest.mark.parametrize(
    ("protocol", "names"),
    [
        ("literal-lanes", set(lanes.ROWS)),
        ("literal-game", set(game.ROWS)),
        ("literal-strong-weak", set(strong_weak.ROWS)),
    ],
)
def test_the_page_names_every_world(protocol: str, names: set[str]) -> None:
    assert {name for name in names if f"`{name}`" not in SECTIONS[protocol]} == set()


def test_every_code_name_of_the_page_exists() -> None:
    source = "\n".join(
        path.read_text(encoding="utf-8")
        for path in (Path(__file__).parents[2] / "src" / "holdall" / "protocols" / "literal").glob("*.py")
    )
    for section in SECTIONS.values():
        table = section.split("| code (")[1].split("\n\n")[0]
        cells = [line.split("|")[2] for line in table.splitlines()[2:]]
        names = {
            name.rpartition(".")[2] for cell in cells for name in re.findall(r"`([A-Za-z_.0-9]+)`", cell)
        }
        assert names
        assert {name for name in names if not re.search(rf"\b{name}\b", source)} == set()

"""The page about listings names every field of their JSON, and no other."""

import re
from pathlib import Path

import msgspec
import pytest

from holdall.model import frames
from holdall.model.why import Blocker, NeedWhy, NodeLine, Why

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "listings.md").read_text(
    encoding="utf-8"
)

ROWS: dict[str, type[msgspec.Struct]] = {
    "Pools": frames.PoolRow,
    "Units of a pool": frames.UnitRow,
    "Leases": frames.LeaseView,
    "Units of a lease": frames.HeldUnit,
    "Waits": Why,
    "Needs of a wait": NeedWhy,
    "Blockers of a wait": Blocker,
    "Lines of a wait": NodeLine,
    "Rows of the log": frames.LogRow,
    "Not asked": frames.NotAsked,
}


@pytest.mark.parametrize("heading", ROWS)
def test_the_page_names_exactly_the_fields_of_each_row(heading: str) -> None:
    section = PAGE.partition(f"### {heading}\n")[2].partition("\n### ")[0]
    first_cells = re.findall(r"^\| (.+?) \|", section, re.MULTILINE)[1:]
    listed = [name for cell in first_cells for name in re.findall(r"`([a-z_]+)`", cell)]
    assert sorted(listed) == sorted(ROWS[heading].__struct_fields__)

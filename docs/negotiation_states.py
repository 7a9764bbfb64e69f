"""Draws the life of a negotiated lease, as a table and as a picture, from the table that hosts run."""

from pathlib import Path

from holdall.lab.phases_svg import drawn_phases
from holdall.leases.negotiation.states import ROWS

HEAD = "| state | event | next | |\n|---|---|---|---|\n"


def state_table() -> str:
    """All rows, as Markdown."""
    lines: list[str] = []
    for row in ROWS:
        then = row.next if row.ending is None else f"{row.next}, then {row.ending}"
        lines.append(f"| {row.state} | {row.occurrence.replace('_', ' ')} | {then} | {row.note} |\n")
    return HEAD + "".join(lines)


def state_picture() -> str:
    """All rows, as SVG."""
    changes = [(row.state, row.next, row.occurrence.replace("_", " ")) for row in ROWS]
    return drawn_phases([("none", "proposed", "propose"), *changes])


def write_negotiation_states(folder: Path) -> None:
    """The two files that the page of negotiation shows."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "negotiation.txt").write_text(state_table(), encoding="utf-8")
    (folder / "negotiation.svg").write_text(state_picture(), encoding="utf-8")

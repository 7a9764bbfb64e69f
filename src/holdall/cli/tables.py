"""How listings look: tables for people on a terminal, plain columns in a pipe, JSON on request."""

import datetime as dt
import sys
import time
from collections.abc import Sequence

import msgspec

from holdall.model.durations import show_duration
from holdall.model.frames import LeaseView, NotAsked
from holdall.model.names import unit_text

SHORT_CELL = 10
"""Letters up to which a column is never broken, whatever the width of the terminal."""


def print_json(name: str, rows: object, **more: object) -> None:
    """One JSON document on stdout: `{"v": 1, NAME: rows}`."""
    document = {"v": 1, name: msgspec.to_builtins(rows), **more}
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def print_listing(name: str, rows: object, not_asked: Sequence[NotAsked], **more: object) -> None:
    """The same with the nodes that have no part in it."""
    print_json(name, rows, not_asked=msgspec.to_builtins(not_asked), **more)


def say_not_asked(not_asked: Sequence[NotAsked]) -> None:
    """A line on stderr for each node that has no part in what was listed."""
    for one in not_asked:
        sys.stderr.write(f"not asked: {plain(one.node)} ({plain(one.why)})\n")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str) -> None:
    """A table on stdout; `empty` (on stderr) when there is nothing to list."""
    if not rows:
        sys.stderr.write(empty + "\n")
        return
    if not sys.stdout.isatty():
        _print_columns(headings, rows)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for number, heading in enumerate(headings):
        # A short id or a time is copied or compared: on a narrow terminal the long cells give way.
        longest = max(len(heading), *(len(row[number]) for row in rows))
        table.add_column(heading, overflow="fold", no_wrap=longest <= SHORT_CELL)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def _print_columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [list(headings), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def plain(text: str) -> str:
    """`text` without control characters: what others wrote can't move the cursor of who reads it."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def granted_units(lease: LeaseView) -> str:
    """`psu-1 fence 7 · psu-2 fence 8`; `psu-1@lab-2 fence 7 · …` where they lie on several nodes."""
    several = len({unit.node for unit in lease.units}) > 1
    return " · ".join(
        f"{plain(unit_text(unit.pool, unit.name) + (f'@{unit.node}' if several else ''))} fence {unit.fence}"
        for unit in lease.units
    )


def clock_time(wall_ms: int) -> str:
    """Local time of day; with the date when it is not today; `?` for what no calendar has."""
    try:
        moment = dt.datetime.fromtimestamp(wall_ms / 1000).astimezone()
    except (OverflowError, OSError, ValueError):
        return "?"
    today = dt.datetime.now().astimezone().date()
    return moment.strftime("%H:%M:%S" if moment.date() == today else "%Y-%m-%d %H:%M:%S")


def ago(wall_ms: int) -> str:
    """How long ago that was."""
    return show_duration(max(0, time.time() * 1000 - wall_ms))

"""The comparison as tables: for a terminal, plain columns for a pipe, and the same cells for the page."""

import sys
from collections.abc import Sequence
from itertools import groupby
from statistics import mean

from holdall.lab.compare.alone import Alone
from holdall.lab.compare.extent import Extent
from holdall.lab.compare.published_sheets import published_sheets
from holdall.lab.compare.rows import Comparison, Row
from holdall.lab.compare.sheet import Sheet


def sheets(found: Comparison) -> list[Sheet]:
    """All tables of a comparison, in the order in which they are read."""
    return [
        *_loads(found.rows),
        *([_extent(found.extent)] if found.extent else []),
        *([_alone(found.alone)] if found.alone else []),
        *published_sheets(found.published),
    ]


def _loads(rows: list[Row]) -> list[Sheet]:
    return [
        Sheet(
            f"{workload}",
            (
                "protocol", "grants/delay", "to ordered", "mean wait", "p99", "to ordered", "longest", "messages",
                "Jain", "overtaken", "passed", "grants",
            ),
            [_load(row) for row in group],
        )
        for workload, group in groupby(rows, key=lambda row: row.workload)
    ]  # fmt: skip


def _load(row: Row) -> tuple[str, ...]:
    relative = row.relative
    return (
        row.name + (" !" if row.violations else ""),
        f"{row.throughput:.3f}",
        f"{relative.throughput:.2f}" if relative else "-",
        f"{row.mean:.1f}",
        f"{row.p99:.0f}",
        f"{relative.p99:.2f}" if relative else "-",
        f"{row.longest:.0f}",
        f"{row.messages:.1f}",
        f"{row.jain:.2f}",
        f"{row.overtaken}",
        "-" if row.passed is None else f"{row.passed}",
        f"{row.grants}",
    )


def _extent(extents: list[Extent]) -> Sheet:
    lines: list[tuple[str, ...]] = []
    for name, group in groupby(extents, key=lambda one: one.name):
        mine = list(group)
        bare = [one for one in mine if not one.leases]
        leased = [one for one in mine if one.leases]
        backs = [one.back for one in leased if one.back is not None]
        served = [one.served for one in leased if one.served is not None]
        lines.append(
            (
                name,
                ", ".join(f"{one.victim}: {len(one.blocked)}" for one in bare) or "-",
                f"{max(one.farthest for one in bare)}" if bare else "-",
                ", ".join(f"{one.victim}: {len(one.blocked)}" for one in leased) or "-",
                f"{max(one.longest or 0.0 for one in leased):.0f}" if leased else "-",
                f"{max(backs):.0f}" if backs else "-",
                f"{max(served):.0f}" if served else "-",
                "-" if not leased else f"{sum(one.recovered for one in leased)} of {len(leased)}",
            )
        )
    one = extents[0]
    return Sheet(
        f"A holder dies in a ring of {one.pools}",
        (
            "protocol", "no leases: blocked for good", "farthest", f"leases of {one.ttl:.0f}: without a grant so long",
            "longest wait", "units with others", "neighbours served", "within ttl + 2 holds",
        ),
        lines,
        "By the number of the client that dies. Times are mean message delays after its death.",
    )  # fmt: skip


def _alone(alone: list[Alone]) -> Sheet:
    lines: list[tuple[str, ...]] = []
    sizes = (1, 2, 3, 8, 16)
    for name, group in groupby(alone, key=lambda one: one.name):
        mine = list(group)
        by_size = {one.k: one for one in mine}
        judged = [one for one in mine if one.same is not None]
        lines.append(
            (
                name,
                *(
                    f"{by_size[k].messages:.4g} / {by_size[k].delays:.4g}" if k in by_size else "-"
                    for k in sizes
                ),
                f"{mean(one.hops for one in mine):.1f}",
                "-" if not judged else f"{sum(one.same is True for one in judged)} of {len(judged)}",
            )
        )
    return Sheet(
        "A claim alone: messages / delays to the grant",
        ("protocol", *(f"k = {k}" for k in sizes), "token hops", "as specified"),
        lines,
        "One pool on each of k nodes; acknowledgements of an end are not counted.",
    )


def show(found: Comparison) -> None:
    """On stdout: rich on a terminal, plain columns in a pipe."""
    for sheet in sheets(found):
        show_sheet(sheet)


def show_sheet(sheet: Sheet) -> None:
    """One table, as `show`."""
    if sys.stdout.isatty():
        _show_rich(sheet)
    else:
        _show_plain(sheet)


def _show_rich(sheet: Sheet) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=sheet.title, caption=sheet.note or None, title_justify="left", caption_justify="left",
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0),
    )  # fmt: skip
    for number, heading in enumerate(sheet.headings):
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for row in sheet.rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def _show_plain(sheet: Sheet) -> None:
    lines: list[Sequence[str]] = [sheet.headings, *sheet.rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(sheet.headings))]
    print(f"\n{sheet.title}")
    for line in lines:
        cells = [
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
    if sheet.note:
        print(sheet.note)

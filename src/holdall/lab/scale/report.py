"""The report of `lab scale`: one figure of four panels, the table, and one page of HTML that fetches nothing."""

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from holdall.lab.compare.canvas import (
    EDGE,
    WIDTH,
    Axes,
    Drawn,
    drawing,
    kept,
    legend,
    new,
    plain_ticks,
    size,
)
from holdall.lab.compare.contestants import in_order
from holdall.lab.compare.look import Look, looks
from holdall.lab.compare.page import STYLE, figure_html, table_html
from holdall.lab.scale.found import Scales, sheet
from holdall.lab.scale.measure import Scale

CAPTION = (
    "The same load on each node while nodes are added: every node has one pool and one client, which claims two pools "
    "anywhere again and again. Full markers: all links alike; empty markers: hosts in regions 1 to 150 ms apart, where one mean "
    "message delay is 50 ms. Waits: the mean, and the 99th percentile dotted. Memory is that of the whole simulation: a node, its pool and a client's host."
)


def write(found: Scales, folder: Path) -> None:
    """`scale.html`, `scale.json`, `scale.png`, `scale.svg`. Raises OSError, and MissingPlots without matplotlib."""
    drawn = drawing(lambda: _draw(found))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scale.png").write_bytes(drawn.png)
    (folder / "scale.svg").write_bytes(drawn.svg)
    (folder / "scale.json").write_bytes(msgspec.json.encode(found))
    (folder / "scale.html").write_text(_page(found, drawn), encoding="utf-8")


def _draw(found: Scales) -> Drawn:
    look = looks([one.protocol for one in found.runs])
    figure, axes = new(WIDTH, 5.2, 2, 2)
    panels: tuple[tuple[str, Callable[[Scale], float], Callable[[Scale], float] | None], ...] = (
        ("messages per claim", _messages, None),
        ("wait [delays]: mean, p99 dotted", _mean, _p99),
        ("memory per node [KiB]", _kib, None),
        ("memory per claim made [bytes]", _claim_bytes, None),
    )
    for axis, (label, value, tail) in zip(axes, panels, strict=True):
        for name in look:
            for regions in (False, True):
                mine = [
                    one for one in found.runs if one.protocol == name and (one.regions is not None) == regions
                ]
                if mine:
                    _line(axis, mine, value, look[name], hollow=regions)
                    if tail is not None:
                        _line(axis, mine, tail, look[name], hollow=regions, line=":")
        axis.set_xscale("log")
        plain_ticks(axis.xaxis)
        axis.set_ylim(0, 1.12 * max(part(one) for one in found.runs for part in (value, tail or value)))
        axis.set_xlabel("nodes  (log scale)")
        axis.set_ylabel(label)
    legend(figure, look, in_order(look))
    return kept(figure, "scale", CAPTION)


def _line(
    axis: Axes,
    runs: list[Scale],
    value: Callable[[Scale], float],
    look: Look,
    *,
    hollow: bool,
    line: str | None = None,
) -> None:
    fill: dict[str, Any] = (
        {"markerfacecolor": "white", "markeredgecolor": look.colour} if hollow else {"markeredgecolor": EDGE}
    )
    axis.plot(
        [one.nodes for one in runs], [value(one) for one in runs], color=look.colour, marker=look.marker, markersize=size(look),
        linestyle=line or look.line, linewidth=1.1, **fill,
    )  # fmt: skip


def _messages(one: Scale) -> float:
    return one.messages


def _mean(one: Scale) -> float:
    return one.mean


def _p99(one: Scale) -> float:
    return one.p99


def _kib(one: Scale) -> float:
    return one.kib_per_node


def _claim_bytes(one: Scale) -> float:
    return one.kib_per_node * 1024 * one.nodes / max(1, one.claims)


def _page(found: Scales, drawn: Drawn) -> str:
    return "\n".join(
        (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
            f"<title>Scale - holdall {html.escape(found.version)}</title><style>{STYLE}</style></head><body>",
            f'<h1>More and more nodes</h1><p class="lead">holdall {html.escape(found.version)}: {len(found.runs)} runs, {found.seconds:,.0f} s.</p>',
            figure_html(1, drawn),
            table_html(sheet(found)),
            "</body></html>\n",
        )
    )

"""The report's figures of the loads: throughput, waits, fairness, one band a workload, and waits as a whole."""

from collections.abc import Callable
from typing import NamedTuple

from holdall.lab.compare.canvas import (
    EDGE,
    MANY,
    WIDTH,
    Axes,
    Drawn,
    Figure,
    kept,
    legend,
    new,
    plain_ticks,
    size,
)
from holdall.lab.compare.look import Look
from holdall.lab.compare.rows import Comparison, Row

BANDS = 12
"""Most workloads in one figure."""


def names_of(found: Comparison, used: set[str]) -> list[str]:
    """The used ones, in the order of legends."""
    return [name for name in found.protocols if name in used]


# Loads: one band for each workload, one lane in it for each protocol


def _relative(row: Row) -> float | None:
    return row.relative.throughput if row.relative else None


def _messages(row: Row) -> float:
    return row.messages


def _mean(row: Row) -> float:
    return row.mean


def _p99(row: Row) -> float:
    return row.p99


def _p99_span(row: Row) -> tuple[float, float]:
    return row.p99_span


def _jain(row: Row) -> float:
    return row.jain


def _overtaken(row: Row) -> float:
    return float(row.overtaken)


class _Panel(NamedTuple):
    label: str
    value: Callable[[Row], float | None]
    log: bool
    span: Callable[[Row], tuple[float, float]] | None = None
    reference: float | None = None


def _strips(
    found: Comparison, look: dict[str, Look], name: str, caption: str, panels: tuple[_Panel, ...]
) -> list[Drawn]:
    """One figure, or several where there are more workloads than a page is high."""
    pages = -(-len(found.workloads) // BANDS)
    step = -(-len(found.workloads) // max(1, pages))
    return [
        _strip(
            found, look, name if pages == 1 else f"{name}-{number + 1}",
            caption if pages == 1 else f"{caption} Part {number + 1} of {pages}.",
            panels, found.workloads[number * step : (number + 1) * step],
        )
        for number in range(pages)
        if found.rows
    ]  # fmt: skip


def _strip(
    found: Comparison,
    look: dict[str, Look],
    name: str,
    caption: str,
    panels: tuple[_Panel, ...],
    workloads: list[str],
) -> Drawn:
    names = names_of(found, {row.name for row in found.rows})
    lane = 0.84 / max(1, len(names))
    height = 1.3 + max(0.24, 0.055 * len(names)) * len(workloads)
    figure, axes = new(WIDTH, height, 1, len(panels), sharey=True)
    for axis, panel in zip(axes, panels, strict=True):
        for row in (one for one in found.rows if one.workload in workloads):
            value = panel.value(row)
            if value is None or (panel.log and value <= 0):
                continue
            at = workloads.index(row.workload) - 0.42 + lane * (names.index(row.name) + 0.5)
            mine = look[row.name]
            if panel.span is not None and row.seeds > 1:
                axis.plot(panel.span(row), (at, at), color=mine.colour, linewidth=0.8, alpha=0.6)
            axis.plot(
                [value],
                [at],
                color=mine.colour,
                marker=mine.marker,
                markeredgecolor=EDGE,
                markersize=size(mine),
                linestyle="none",
            )
        if panel.log:
            axis.set_xscale("log")
            plain_ticks(axis.xaxis)
        if panel.reference is not None:
            axis.axvline(panel.reference, color="#555555", linewidth=0.8, linestyle="--")
        axis.set_xlabel(panel.label + (MANY if panel.log else ""))
        axis.grid(visible=False, axis="y")
        for edge in range(len(workloads) - 1):
            axis.axhline(edge + 0.5, color="#bbbbbb", linewidth=0.6)
    axes[0].set_yticks(range(len(workloads)), workloads)
    axes[0].set_ylim(len(workloads) - 0.5, -0.5)
    legend(figure, look, names, points=True)
    return kept(figure, name, caption)


def throughput(found: Comparison, look: dict[str, Look]) -> list[Drawn]:
    """See the caption."""
    return _strips(
        found, look, "throughput",
        "Throughput relative to ordered locking on the same claims, and protocol messages per granted claim "
        "(acknowledgements of an end not counted). The dashed line is ordered.",
        (
            _Panel("throughput / ordered's", _relative, log=True, reference=1.0),
            _Panel("messages per claim", _messages, log=True),
        ),
    )  # fmt: skip


def waits(found: Comparison, look: dict[str, Look]) -> list[Drawn]:
    """See the caption."""
    return _strips(
        found, look, "waits",
        "Wait from the claim to the grant, in mean message delays: mean and 99th percentile. Lines span the seeds.",
        (
            _Panel("mean wait [message delays]", _mean, log=True),
            _Panel("p99 wait [message delays]", _p99, log=True, span=_p99_span),
        ),
    )  # fmt: skip


def fairness(found: Comparison, look: dict[str, Look]) -> list[Drawn]:
    """See the caption."""
    return _strips(
        found, look, "fairness",
        "Jain's index over single waits (1: all waited alike), and the most claims that asked later, share a pool and "
        "were granted earlier (by the clients' clocks, so message delays count).",
        (
            _Panel("Jain's index over single waits", _jain, log=False),
            _Panel("most times overtaken", _overtaken, log=False),
        ),
    )  # fmt: skip


# Waits as a whole, and what is paid for throughput


def _busiest(found: Comparison, count: int) -> list[str]:
    """Workloads under load first, as listed."""
    order = ("saturated", "medium", "low")
    ranked = sorted(
        found.workloads,
        key=lambda name: next((place for place, load in enumerate(order) if load in name), len(order)),
    )
    return ranked[:count]


def _grid(count: int) -> tuple[Figure, list[Axes]]:
    """So many parts, two beside each other; what is left of the last line is not shown."""
    columns = min(2, count)
    lines = -(-count // columns)
    figure, axes = new(WIDTH, 0.8 + 2.3 * lines, lines, columns)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes


def tails(found: Comparison, look: dict[str, Look]) -> list[Drawn]:
    """See the caption."""
    chosen = _busiest(found, 4)
    if not chosen:
        return []
    figure, axes = _grid(len(chosen))
    used: set[str] = set()
    for axis, workload in zip(axes, chosen, strict=False):
        for row in found.rows:
            if row.workload == workload and len(row.percentiles) == 101:
                mine = look[row.name]
                left = [1 - share / 100 for share in range(100)]
                # less than the time of one message is no wait: the axis is logarithmic
                waited = [max(wait, 1.0) for wait in row.percentiles[:100]]
                axis.plot(
                    waited, left, color=mine.colour, linestyle=mine.line, marker=mine.marker, markeredgecolor=EDGE,
                    markevery=(7, 23), markersize=size(mine) - 1, linewidth=1.1,
                )  # fmt: skip
                used.add(row.name)
        axis.set_xscale("log")
        axis.set_yscale("log")
        plain_ticks(axis.xaxis)
        plain_ticks(axis.yaxis)
        axis.set_ylim(0.0098, 1.02)
        axis.set_title(workload)
        axis.set_xlabel("wait [message delays]" + MANY)
        axis.set_ylabel("share that waits longer" + MANY)
    legend(figure, look, names_of(found, used))
    return [kept(figure, "tails", "Which share of the claims waits longer than so long (down to 1 %).")]


def trade(found: Comparison, look: dict[str, Look]) -> list[Drawn]:
    """See the caption."""
    chosen = _busiest(found, 4)
    if not chosen:
        return []
    figure, axes = _grid(len(chosen))
    used: set[str] = set()
    for axis, workload in zip(axes, chosen, strict=False):
        for row in found.rows:
            if row.workload == workload and row.grants:
                mine = look[row.name]
                axis.plot(
                    [row.throughput],
                    [row.p99],
                    color=mine.colour,
                    marker=mine.marker,
                    markeredgecolor=EDGE,
                    linestyle="none",
                    markersize=size(mine) + 1,
                )
                used.add(row.name)
        axis.set_title(workload)
        axis.set_xlabel("throughput [grants per message delay]")
        axis.set_ylabel("p99 wait [message delays]" + MANY)
        axis.set_xlim(left=0)
        axis.set_yscale("log")
        plain_ticks(axis.yaxis, dense=True)
    legend(figure, look, names_of(found, used), points=True)
    return [
        kept(figure, "trade", "Throughput against the 99th percentile of waits: right and low is better.")
    ]

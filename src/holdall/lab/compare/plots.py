"""The figures of the report, drawn with matplotlib (the extra `lab`). Each is drawn once and kept as PNG and as SVG."""

from collections.abc import Callable
from textwrap import fill

from holdall.lab.compare.canvas import (
    EDGE,
    MANY,
    MARKER,
    WIDTH,
    Drawn,
    drawing,
    kept,
    legend,
    new,
    plain_ticks,
    size,
)
from holdall.lab.compare.look import Look, looks
from holdall.lab.compare.plots_loads import fairness, names_of, tails, throughput, trade, waits
from holdall.lab.compare.published import LIMIT
from holdall.lab.compare.rows import Comparison


def draw(found: Comparison) -> list[Drawn]:
    """All figures for which there is something to draw. Raises MissingPlots without matplotlib."""
    look = looks(found.protocols)
    return drawing(lambda: [drawn for figure in FIGURES for drawn in figure(found, look)])


# A claim alone


def _alone(found: Comparison, look: dict[str, Look]) -> list[Drawn]:
    if not found.alone:
        return []
    figure, axes = new(WIDTH, 4.6, 1, 2)
    names = names_of(found, {one.name for one in found.alone})
    for place, (axis, label) in enumerate(
        zip(axes, ("messages per claim", "message delays to the grant"), strict=True)
    ):
        for together, points in _same_curves(found, names, delays=bool(place)):
            style = look[together[0]]
            axis.plot(
                *zip(*points, strict=True), color=style.colour, linestyle=style.line, marker=style.marker,
                markeredgecolor=EDGE, markersize=size(style), linewidth=1.1, label=fill(", ".join(together), 52, break_on_hyphens=False),
            )  # fmt: skip
        axis.set_xlabel("pools of the claim, one on each node")
        axis.set_ylabel(label)
        axis.set_xlim(0.5, 16.5)
        axis.set_ylim(bottom=0)
        axis.set_xticks([1, 2, 4, 6, 8, 10, 12, 14, 16])
        axis.legend(loc="upper center", bbox_to_anchor=(0.46, -0.16), frameon=False, handlelength=2.6)
    caption = (
        "What a claim costs that nobody stands in the way of; protocols that cost the same share a line. Every message takes one delay; "
        "acknowledgements of an end and a token's hops are not counted."
    )
    return [kept(figure, "alone", caption)]


def _same_curves(
    found: Comparison, names: list[str], *, delays: bool
) -> list[tuple[list[str], list[tuple[int, float]]]]:
    """Names of protocols, and their common points (pools, cost), from the dearest down."""
    curves: dict[tuple[tuple[int, float], ...], list[str]] = {}
    for name in names:
        points = tuple(
            (one.k, round(one.delays if delays else one.messages, 3))
            for one in found.alone
            if one.name == name
        )
        # a protocol for two pools lies on the line of one that serves more and costs as much
        whole = next((other for other in curves if other[: len(points)] == points), points)
        curves.setdefault(whole, []).append(name)
    ranked = sorted(curves.items(), key=lambda item: -item[0][-1][1] / item[0][-1][0])
    return [(together, list(points)) for points, together in ranked]


# A holder dies


def _extent(found: Comparison, look: dict[str, Look]) -> list[Drawn]:
    if not found.extent:
        return []
    names = names_of(found, {one.name for one in found.extent})
    figure, (bare, leased) = new(WIDTH, 1.3 + 0.24 * len(names), 1, 2, sharey=True)
    for at, name in enumerate(names):
        style = look[name]
        mine = [one for one in found.extent if one.name == name]
        counts = [len(one.blocked) for one in mine if not one.leases]
        bare.barh(at, max(counts, default=0), color=style.colour, height=0.6, alpha=0.35)
        bare.plot(
            counts,
            [at] * len(counts),
            color=style.colour,
            marker=style.marker,
            markeredgecolor=EDGE,
            markersize=size(style),
            linestyle="none",
        )
        for values, full in (
            ([one.back for one in mine if one.back is not None], True),
            ([one.served for one in mine if one.served is not None], False),
        ):
            leased.plot(
                values, [at - 0.13 if full else at + 0.13] * len(values), marker="o" if full else "s", markeredgecolor=EDGE,
                markerfacecolor=style.colour if full else "white", markersize=MARKER, linestyle="none",
            )  # fmt: skip
    one = found.extent[0]
    bare.set_xlim(0, one.pools)
    bare.set_xlabel(f"of {one.pools - 1} others blocked for good, without leases")
    leased.axvline(one.ttl, color="#555555", linewidth=0.8, linestyle="--")
    leased.axvline(one.ttl + 2 * one.hold, color="#555555", linewidth=0.8, linestyle=":")
    leased.set_xlim(left=0)
    leased.set_xlabel("with leases: message delays after the death")
    bare.set_yticks(range(len(names)), names)
    bare.set_ylim(len(names) - 0.5, -0.5)
    for axis in (bare, leased):
        axis.grid(visible=False, axis="y")
    return [kept(
        figure, "extent",
        f"A holder in a saturated ring of {one.pools} dies. Left: who is never served again without leases (one mark for each "
        "place of the dead, the bar is the worst). Right, with leases: when its units are with others (full circles) and when both "
        "its neighbours are served (open squares); dashed: one ttl, dotted: one ttl and two mean holds.",
    )]  # fmt: skip


# Published figures


def _published(found: Comparison, look: dict[str, Look]) -> list[Drawn]:
    ones = [one for one in found.published if one.measure == "throughput"]
    if not ones:
        return []
    figure, (axis,) = new(WIDTH * 0.72, WIDTH * 0.66 + 1.1, 1, 1)
    values = [value for one in ones for value in (one.published, one.measured)]
    low, high = min(values) * 0.8, max(values) * 1.25
    axis.fill_between(
        [low, high],
        [low * (1 - LIMIT), high * (1 - LIMIT)],
        [low * (1 + LIMIT), high * (1 + LIMIT)],
        color="#eeeeee",
    )
    axis.plot([low, high], [low, high], color="#555555", linewidth=0.8)
    for one in ones:
        style = look[one.protocol]
        axis.plot(
            [one.published],
            [one.measured],
            color=style.colour,
            marker=style.marker,
            markeredgecolor=EDGE,
            markersize=size(style),
            linestyle="none",
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(low, high)
    axis.set_ylim(low, high)
    axis.set_xlabel("published throughput" + MANY)
    axis.set_ylabel("measured throughput" + MANY)
    plain_ticks(axis.xaxis)
    plain_ticks(axis.yaxis)
    legend(figure, look, names_of(found, {one.protocol for one in ones}), points=True, columns=3)
    caption = (
        "Throughput as published and as measured on the shipped code: grants per message delay, or, in the summary of all loads, by "
        f"ordered's. The band is {LIMIT:.0%} wide to each side."
    )
    return [kept(figure, "published", caption)]


FIGURES: tuple[Callable[[Comparison, dict[str, Look]], list[Drawn]], ...] = (
    throughput, waits, trade, tails, fairness, _extent, _alone, _published,
)  # fmt: skip

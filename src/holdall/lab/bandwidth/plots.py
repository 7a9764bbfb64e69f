"""Four panels: response times without leases and with, shares as agents come and go, and what one run granted."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from holdall.lab.bandwidth.expected import CAPACITY
from holdall.lab.bandwidth.found import Agent, Bandwidth, Granted, steady_ms
from holdall.lab.bandwidth.timeline import END_MS, course
from holdall.lab.compare.canvas import WIDTH, Axes, Drawn, drawing, kept, new

COLOURS: Mapping[str, str] = {
    "a10": "#56b4e9", "a25": "#009e73", "a40": "#e69f00", "a50": "#d55e00", "a60": "#cc79a7"
}  # fmt: skip
"""Of Okabe and Ito: told apart with every usual kind of colour blindness."""
FORMATS = (".png", ".svg")
CAPTION = "Response times without and with leases, and what was granted over time."


def plot(found: Bandwidth, file: Path) -> None:
    """Write the figure as PNG or SVG, by the file's name. Raises OSError, and MissingPlots without matplotlib."""
    drawn = drawing(lambda: _draw(found))
    file.write_bytes(drawn.svg if file.suffix == ".svg" else drawn.png)


def _draw(found: Bandwidth) -> Drawn:
    figure, (without, with_, over_time, granted) = new(WIDTH, 5.6, 2, 2)
    steady = steady_ms(found.rule)
    top = 1.3 * max(*(one.mean_ms + one.sd_ms for one in (*found.without, *found.with_)), *steady.values())
    _bars(without, found.without, None, top)
    without.set_title(f"without leases, link of {CAPACITY:,} B/s")
    _bars(with_, found.with_, steady, top)
    with_.set_title(f"with leases of 2 s, rule {found.rule}")
    levels = course(found.rule)
    _stacked(over_time, [(level.at_ms, level.granted) for level in levels], END_MS)
    over_time.set_title("shares as agents come and go (virtual time)")
    steps, end_ms = _levels(found.changes)
    _stacked(granted, steps, end_ms)
    granted.set_title("granted in one measured run, until the last byte")
    return kept(figure, "bandwidth", CAPTION)


def _bars(axis: Axes, agents: Sequence[Agent], steady_all: Mapping[str, float] | None, top: float) -> None:
    """One bar an agent, with the standard deviation of the repetitions' means."""
    for place, one in enumerate(agents):
        axis.bar(
            place, one.mean_ms, 0.62, yerr=one.sd_ms, color=COLOURS[one.agent], edgecolor="#333333", linewidth=0.6,
            error_kw={"elinewidth": 1.0, "capsize": 4, "ecolor": "#333333"},
        )  # fmt: skip
        axis.text(place, 0.4 * one.mean_ms, f"{one.mean_ms:,.0f}", ha="center", fontsize=8)
        wanted = one.expected_ms
        axis.plot(
            [place - 0.4, place + 0.4], [wanted, wanted], color="black", linewidth=1.0, linestyle="--",
            label="by arithmetic, over all messages" if not place else None,
        )  # fmt: skip
        if steady_all is not None and one.agent in steady_all:
            steady = steady_all[one.agent]
            axis.plot(
                [place - 0.4, place + 0.4], [steady, steady], color="black", linewidth=1.0, linestyle=":",
                label="by arithmetic, while all are there" if not place else None,
            )  # fmt: skip
    axis.set_xticks(range(len(agents)), [f"{one.payload:,}" for one in agents])
    axis.set_xlabel("payload [bytes]")
    axis.set_ylabel("mean response time [ms]")
    axis.set_ylim(0, top)
    axis.grid(visible=False, axis="x")
    _thousands(axis)
    axis.legend(loc="upper left", frameon=False)


def _levels(changes: Sequence[Granted]) -> tuple[list[tuple[float, dict[str, int]]], float]:
    """What everybody has after each change, and when the last of it is over."""
    has: dict[str, int] = {}
    steps: list[tuple[float, dict[str, int]]] = []
    for change in changes:
        has[change.agent] = change.granted
        steps.append((change.at_ms, dict(has)))
    return steps, changes[-1].at_ms if changes else 1.0


def _stacked(axis: Axes, steps: Sequence[tuple[float, Mapping[str, int]]], end_ms: float) -> None:
    """Grants on top of each other, from the smallest asker up; the line is the capacity."""
    agents = [agent for agent in COLOURS if any(agent in granted for _, granted in steps)]
    times = [at_ms / 1_000 for at_ms, _ in steps] + [end_ms / 1_000]
    rows = [
        [granted.get(agent, 0) for _, granted in steps] + [steps[-1][1].get(agent, 0)] for agent in agents
    ]
    axis.stackplot(
        times, rows, step="post", labels=agents, colors=[COLOURS[agent] for agent in agents], linewidth=0
    )
    axis.axhline(CAPACITY, color="black", linewidth=0.9, linestyle="--")
    axis.set_xlim(0, end_ms / 1_000)
    axis.set_ylim(0, CAPACITY * 1.3)
    axis.set_xlabel("time [s]")
    axis.set_ylabel("granted [B/s]")
    _thousands(axis)
    axis.legend(loc="upper center", ncols=len(agents), frameon=False, columnspacing=1.0, handlelength=1.2)


def _thousands(axis: Axes) -> None:
    from matplotlib.ticker import StrMethodFormatter

    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))

"""What all figures share: size, style, legend, axes, and how a figure is kept as PNG and as SVG.

matplotlib's types are known to the checkers in part only, so its objects go by `Any` here.
"""

from collections.abc import Callable
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from holdall.lab.compare.look import Look

Axes: TypeAlias = Any
Figure: TypeAlias = Any
Made = TypeVar("Made")

WIDTH = 7.2
"""Inches: two columns of a paper."""
DPI = 200
STYLE: dict[str, object] = {
    "font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "legend.fontsize": 7.5, "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#dddddd", "grid.linewidth": 0.6, "axes.axisbelow": True, "svg.fonttype": "path",
    "svg.hashsalt": "holdall", "lines.markeredgewidth": 0.5,
}  # fmt: skip
MARKER = 5.0
EDGE = "#333333"
"""Around each marker, so that light colours stand out from white and from each other."""
MANY = "  (log scale)"
MANY_DECADES = 1000.0
"""From this ratio of the largest to the smallest on, numbers at 1, 2 and 5 of each decade touch each other."""
NEEDED = "figures need matplotlib: install the extra with `pip install 'holdall[lab]'`, or leave out --report"


class Drawn(NamedTuple):
    """One figure, as files' contents, and what it shows."""

    name: str
    caption: str
    png: bytes
    svg: bytes


class MissingPlots(Exception):
    """matplotlib is not installed."""


def ready(folder: Path) -> None:
    """Before hours of runs: figures can be drawn, and the folder of the report is there. Raises MissingPlots, OSError."""
    if find_spec("matplotlib") is None:
        raise MissingPlots(NEEDED)
    folder.mkdir(parents=True, exist_ok=True)


def drawing(draw: Callable[[], Made]) -> Made:
    """What `draw` makes, in the style of all figures. Raises MissingPlots without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingPlots(NEEDED) from None
    library: Any = mpl
    with library.rc_context(STYLE):
        return draw()


def new(
    width: float, height: float, rows: int, columns: int, *, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure with panels, width and height in inches."""
    from matplotlib import figure

    made: Any = figure.Figure(figsize=(width, height), layout="constrained")
    axes = made.subplots(rows, columns, squeeze=False, sharey=sharey)
    return made, list(axes.flat)


def kept(figure: Figure, name: str, caption: str) -> Drawn:
    """The figure as PNG and SVG."""
    png, svg = BytesIO(), BytesIO()
    figure.savefig(png, format="png", dpi=DPI)
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Drawn(name, caption, png.getvalue(), svg.getvalue())


def size(look: Look) -> float:
    """Of its marker, in points: stars look smaller than they are."""
    return MARKER if isinstance(look.marker, str) else 1.45 * MARKER


def legend(
    figure: Figure, look: dict[str, Look], names: list[str], *, points: bool = False, columns: int = 5
) -> None:
    """Below the panels, so that it hides nothing, in at most `columns`; `points`: the figure has markers without lines."""
    from matplotlib import lines

    line: Any = lines.Line2D
    handles = [
        line(
            [],
            [],
            color=look[name].colour,
            marker=look[name].marker,
            linestyle="none" if points else look[name].line,
            label=name,
            markeredgecolor=EDGE,
            markersize=size(look[name]) + 1,
        )
        for name in names
    ]
    for count in range(min(columns, len(names)), 0, -1):
        made = figure.legend(
            handles=handles, loc="outside lower center", ncols=count, frameon=False, handlelength=2.6
        )
        # Names differ in length, so only what is laid out tells how many stand beside each other; a PNG's letters,
        # set for more dots, come out some hundredths wider.
        if count == 1 or 1.06 * made.get_window_extent().width <= figure.bbox.width:
            return
        made.remove()


def plain_ticks(axis: Any, *, dense: bool = False) -> None:
    """Numbers at 1, 2 and 5 of each decade of an axis (`xaxis` or `yaxis`) with a logarithmic scale; dense: at more.

    What is drawn there tells how many decades there are: with many, numbers stand at 1 and 3 only.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_data_interval()
    within = (1.0, 2.0, 5.0) if high <= MANY_DECADES * low else (1.0, 3.0)
    axis.set_major_locator(
        LogLocator(base=10, subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if dense else within, numticks=12)
    )
    axis.set_major_formatter(FuncFormatter(_number))
    axis.set_minor_formatter(NullFormatter())


def _number(value: float, _: object) -> str:
    return f"{value:g}"

"""A job as a drawing (SVG): a box for each task, a column for each depth, a line for each `after`.

Columns come from the longest way to a task; within a column boxes are sorted by the middle of those before them, so
that lines seldom cross. Texts are escaped; nothing is loaded from anywhere.
"""

from collections.abc import Mapping, Sequence
from html import escape

from holdall.jobs.client import JobView
from holdall.jobs.tree import depths, task_state

BOX_WIDTH = 190
BOX_HEIGHT = 44
GAP_X = 70
GAP_Y = 18
MARGIN = 24
_LETTERS_MAX = 26
_COLOURS: Mapping[str, tuple[str, str]] = {
    "ok": ("#d8f0dc", "#2d7a3e"),
    "failed": ("#fadcd9", "#b3261e"),
    "skipped": ("#eeeeee", "#8a8a8a"),
    "cancelled": ("#eeeeee", "#8a8a8a"),
    "running": ("#dbe8fb", "#1f5fbf"),
    "pausing": ("#fdeecb", "#9a6b00"),
    "waiting": ("#ffffff", "#666666"),
}
"""Fill and line of a box, by the state of its task."""


def draw(view: JobView) -> str:
    """The whole document. Solid lines: `after`; dashed ones: named in a `when`; dotted ones: a group begins anew."""
    places = layout(view)
    columns = max(column for column, _ in places.values()) + 1
    rows = max(row for _, row in places.values()) + 1
    width = 2 * MARGIN + columns * BOX_WIDTH + (columns - 1) * GAP_X
    height = 2 * MARGIN + rows * BOX_HEIGHT + (rows - 1) * GAP_Y + 24
    title = f"job {view.row.name}: {view.row.state}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"',
        f'  viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#fcfcfc"/>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">',
        '<path d="M0 0 L8 4 L0 8 z" fill="#777"/></marker></defs>',
        f'<text x="{MARGIN}" y="{MARGIN}" font-weight="bold">{escape(title[:80])}</text>',
    ]
    for task in view.spec.tasks:
        parts += [_line(places[other], places[task.name], dashed=bool(task.when)) for other in task.after]
    for group in view.spec.groups:
        label = f"{group.name}: until {group.until}, round {view.machine.groups.rounds[group.name]} of {group.times}"
        parts += _loop([places[task] for task in group.tasks], label)
    for task in view.spec.tasks:
        state, text = task_state(view, task)
        name = f"{task.name} ({len(task.foreach)} items)" if task.foreach is not None else task.name
        parts.append(_box(places[task.name], name, state, text))
    return "\n".join([*parts, "</svg>\n"])


def layout(view: JobView) -> dict[str, tuple[int, int]]:
    """(column, row) of each task, from 0."""
    depth = depths(view.machine)
    places: dict[str, tuple[int, int]] = {}
    for column in range(max(depth.values()) + 1):
        tasks = [task for task in view.spec.tasks if depth[task.name] == column]
        middle = {
            task.name: sum(places[other][1] for other in task.after) / max(1, len(task.after))
            for task in tasks
        }
        for row, task in enumerate(sorted(tasks, key=lambda task: middle[task.name])):
            places[task.name] = (column, row)
    return places


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    column, row = place
    return MARGIN + column * (BOX_WIDTH + GAP_X), MARGIN + 24 + row * (BOX_HEIGHT + GAP_Y)


def _box(place: tuple[int, int], name: str, state: str, text: str) -> str:
    x, y = _corner(place)
    fill, line = _COLOURS[state]
    return (
        f"<g><title>{escape(f'{name}: {text}')}</title>"
        f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="{fill}" stroke="{line}"/>'
        f'<text x="{x + 10}" y="{y + 18}" font-weight="bold" fill="#222">{escape(_cut(name))}</text>'
        f'<text x="{x + 10}" y="{y + 35}" font-size="11" fill="{line}">{escape(_cut(text or state))}</text></g>'
    )


def _line(begin: tuple[int, int], end: tuple[int, int], *, dashed: bool) -> str:
    x1, y1 = _corner(begin)
    x2, y2 = _corner(end)
    x1, y1, y2 = x1 + BOX_WIDTH, y1 + BOX_HEIGHT // 2, y2 + BOX_HEIGHT // 2
    bend = GAP_X // 2
    style = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<path d="M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}" fill="none" stroke="#777"{style} '
        'marker-end="url(#tip)"/>'
    )


def _loop(places: Sequence[tuple[int, int]], label: str) -> list[str]:
    """Of a group: back from its last column to its first, below its boxes."""
    first, last = min(places), max(places)
    x1, y1 = _corner(last)
    x2, y2 = _corner(first)
    x1, x2, y = x1 + BOX_WIDTH // 2, x2 + BOX_WIDTH // 2, max(y1, y2) + BOX_HEIGHT + GAP_Y // 2
    way = f"M{x1} {y1 + BOX_HEIGHT} L{x1} {y} L{x2} {y} L{x2} {y2 + BOX_HEIGHT}"
    return [
        f'<path d="{way}" fill="none" stroke="#777" stroke-dasharray="2 3" marker-end="url(#tip)">',
        f"<title>{escape(label)}</title></path>",
        f'<text x="{x2 + 8}" y="{y + 10}" font-size="10" fill="#777">{escape(label[:80])}</text>',
    ]


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS_MAX else text[: _LETTERS_MAX - 1] + "…"

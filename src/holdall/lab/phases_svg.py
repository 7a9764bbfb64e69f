"""Phases as a picture: one below the other in the order in which a claim meets them, with an arc for each change.

Changes down the list are arcs on the right, changes back up are arcs on the left; what brings a change about stands
at its arc.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import TypeAlias
from xml.sax.saxutils import escape

Change: TypeAlias = tuple[str, str, str]
"""(phase before, phase after, what brought it about)"""

INK, PALE, DOWN, UP = "#1b1f24", "#57606a", "#0072b2", "#d55e00"
BOX_W, BOX_H, GAP = 132, 34, 62
LANE, FIRST_LANE = 26, 30
LETTER = 6.4
TEXT_MAX = 46
NONE = "none"
ENDING = "ending"
"""All phases lead there, so it stands below them."""


def drawn_phases(changes: Sequence[Change]) -> str:
    """The picture of these changes; the phase `none` stands first and last."""
    arcs: dict[tuple[str, str], set[str]] = defaultdict(set)
    for before, after, by in changes:
        arcs[before, NONE + "." if after == NONE else after].add(by)
    order = _order(set(arcs))
    place = {phase: number for number, phase in enumerate(order)}
    down = sorted(
        (pair for pair in arcs if place[pair[0]] < place[pair[1]]), key=lambda pair: _span(pair, place)
    )
    up = sorted(
        (pair for pair in arcs if place[pair[0]] > place[pair[1]]), key=lambda pair: _span(pair, place)
    )
    labels = {pair: _label(arcs[pair]) for pair in arcs}
    right = FIRST_LANE + LANE * len(down) + int(max((len(labels[pair]) for pair in down), default=0) * LETTER)
    left = FIRST_LANE + LANE * len(up) + int(max((len(labels[pair]) for pair in up), default=0) * LETTER)
    x = left + 20
    width, height = x + BOX_W + right + 30, 20 + len(order) * (BOX_H + GAP)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    tops = {phase: 16 + number * (BOX_H + GAP) for phase, number in place.items()}
    for phase, y in tops.items():
        parts.append(_box(phase, x, y))
    texts: list[str] = []
    for side, pairs in (("right", down), ("left", up)):
        for lane, pair in enumerate(pairs):
            arc, text = _arc(pair, labels[pair], lane, side, x, tops)
            parts.append(arc)
            texts.append(text)
    return "\n".join([*parts, *texts, "</svg>"])


def _order(pairs: set[tuple[str, str]]) -> list[str]:
    """Breadth first from before the claim; its end is last."""
    end = NONE + "."
    after: dict[str, list[str]] = defaultdict(list)
    for before, then in sorted(pairs):
        after[before].append(then)
    found, todo = {NONE: None}, deque([NONE])
    while todo:
        for then in after[todo.popleft()]:
            if then not in found and then != end:
                found[then] = None
                todo.append(then)
    rest = sorted({phase for pair in pairs for phase in pair} - set(found) - {end})
    found = dict.fromkeys(sorted(found, key=lambda phase: phase == ENDING))
    return [*found, *rest, *([end] if any(then == end for _, then in pairs) else [])]


def _span(pair: tuple[str, str], place: dict[str, int]) -> tuple[int, int]:
    return abs(place[pair[0]] - place[pair[1]]), min(place[pair[0]], place[pair[1]])


def _label(causes: set[str]) -> str:
    text = ", ".join(sorted(causes))
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"


def _box(phase: str, x: int, y: int) -> str:
    is_end = phase.startswith(NONE)
    fill, dash = ("#ffffff", ' stroke-dasharray="4 3"') if is_end else ("#f3f5f7", "")
    shown = {NONE: "not known", NONE + ".": "over"}.get(phase, phase)
    return (
        f'<rect x="{x}" y="{y}" width="{BOX_W}" height="{BOX_H}" rx="7" fill="{fill}" stroke="{PALE}"{dash}/>'
        f'<text x="{x + BOX_W / 2}" y="{y + 22}" text-anchor="middle" font-weight="600" fill="{INK}">'
        f"{escape(shown)}</text>"
    )


def _arc(
    pair: tuple[str, str], label: str, lane: int, side: str, x: int, tops: dict[str, int]
) -> tuple[str, str]:
    """The way from one box to the other along its lane, and the text at its middle."""
    is_right = side == "right"
    colour, sign = (DOWN, 1) if is_right else (UP, -1)
    edge = x + BOX_W if is_right else x
    # Ways leave in the lower half of a box and arrive in the upper half of the next; each at a height of its own.
    shift = 3 + lane * 3 % 12
    y0 = tops[pair[0]] + (BOX_H - shift if is_right else shift)
    y1 = tops[pair[1]] + (shift if is_right else BOX_H - shift)
    out = edge + sign * (FIRST_LANE + LANE * lane)
    path = (
        f'<path d="M {edge} {y0} C {out} {y0}, {out} {y0}, {out} {(y0 + y1) / 2} '
        f'S {out} {y1}, {edge + sign * 8} {y1}" fill="none" stroke="{colour}" stroke-width="1.4"/>'
        f'<polygon points="{edge},{y1} {edge + sign * 9},{y1 - 4} {edge + sign * 9},{y1 + 4}" fill="{colour}"/>'
    )
    anchor = "start" if is_right else "end"
    # Beside its arc, a little higher or lower than those of its neighbours.
    y = (y0 + y1) / 2 + (lane % 3 - 1) * 15
    text = (
        f'<text x="{out + sign * 6}" y="{y + 4}" text-anchor="{anchor}" fill="{colour}" '
        f'paint-order="stroke" stroke="#ffffff" stroke-width="4">{escape(label)}</text>'
    )
    return path, text

"""A trace as a sequence diagram in SVG: a lifeline a host, an arrow a message from where it was sent to where it arrived.

So messages that overtake each other cross. One colour a claim, from a palette that colour-blind readers can tell apart.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

import msgspec

from holdall.lab.diagram import envelope_of, hosts_of, texts_of, told
from holdall.machine.contract import Address, ClockRead, Message, Received, TimerFired
from holdall.machine.host import Arrival
from holdall.machine.link_frames import LinkFrame
from holdall.machine.trace import Step, Trace

ROW = 30
COLUMN_LEAST = 190
LETTER = 6.1
"""Width of a letter of the labels, in pixels."""
TOP = 84
ROWS_MAX = 1_500
INK, PALE, ALARM = "#1b1f24", "#8a94a0", "#c1121f"
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d1f", "#5b5bd6", "#56b4e9", "#6b7280")
"""After Okabe and Ito, without the yellow, which no line on white can be read in."""


class Mark(msgspec.Struct, frozen=True):
    """One thing in a row: an arrow from another host and row, or something at the host itself."""

    row: int
    host: str
    text: str
    kind: str
    """message, again, inside, timer, crash, recover, start, or never: it does not arrive in this trace."""
    colour: str
    other: str = ""
    sent: int = -1


class _Drawing:
    """Puts the steps of a trace into rows."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.hosts = hosts_of(list(steps))
        self.marks: list[Mark] = []
        self.rows = 0
        self.numbers: dict[int, int] = {}
        """Row -> number of its step."""
        self._sent: dict[object, list[tuple[int, str, str, Message]]] = defaultdict(list)
        self._seen: dict[object, int] = {}
        self._colours: dict[object, str] = {}
        for step in steps:
            if self.rows >= ROWS_MAX:
                break
            self._step(step)
        for waiting in self._sent.values():
            for row, host, to, message in waiting:
                text = "; ".join(texts_of(message))
                self.marks.append(Mark(row, host, text, "never", self._colour(message), to))

    def _colour(self, message: Message) -> str:
        claim = getattr(message, "claim", None)
        if claim is None:
            return PALE
        return self._colours.setdefault(claim, PALETTE[len(self._colours) % len(PALETTE)])

    def _new_row(self, n: int) -> int:
        self.numbers[self.rows] = n
        self.rows += 1
        return self.rows - 1

    def _step(self, step: Step) -> None:
        row = -1
        if step.kind != "turn":
            row = self._new_row(step.n)
            text = step.kind if step.boot is None else f"{step.boot.kind}, epoch {step.boot.epoch}"
            self.marks.append(Mark(row, step.host, text, step.kind, ALARM if step.kind == "crash" else INK))
        for arrival in step.arrivals:
            if isinstance(arrival.event, Received) and isinstance(arrival.event.message, ClockRead):
                continue
            row = self._new_row(step.n)
            self.marks.append(self._arrived(step, row, arrival))
        for sender, to, message in step.turn.sends:
            row = self._new_row(step.n) if row < 0 else row
            if to.node == step.host:
                row = self._new_row(step.n) if to.part == "agent" else row
                if to.part == "agent":
                    mark = Mark(row, step.host, told(message), "inside", self._colour(message))
                    self.marks.append(mark)
            elif to.node in self.hosts:
                key = envelope_of(sender, to, message)
                self._sent[key].append((row, step.host, to.node, message))

    def _arrived(self, step: Step, row: int, arrival: Arrival) -> Mark:
        event = arrival.event
        if isinstance(event, TimerFired):
            return Mark(row, step.host, f"{arrival.part}: {event.timer}", "timer", INK)
        sender, message = event.sender, event.message
        if sender.node == step.host:
            return Mark(row, step.host, f"← {told(message)}", "inside", self._colour(message))
        key = envelope_of(sender, Address(step.host, arrival.part), message)
        waiting = self._sent.get(key)
        kind = "message" if waiting else "again"
        sent = waiting.pop(0)[0] if waiting else self._seen.get(key, row)
        self._seen[key] = sent
        text = "; ".join(texts_of(message))
        shown = text if not isinstance(message, LinkFrame) or len(text) < 80 else text[:78] + "…"
        return Mark(row, step.host, shown, kind, self._colour(message), sender.node, sent)


def drawn_svg(trace: Trace, title: str = "") -> str:
    """The whole picture. `title`: in place of what the trace's header says it shows."""
    drawing = _Drawing(trace.steps)
    longest = max((len(mark.text) for mark in drawing.marks), default=0)
    column = max(COLUMN_LEAST, min(420, int(longest * LETTER) + 36))
    width = column * max(len(drawing.hosts), 2) + 70
    height = TOP + ROW * drawing.rows + 30
    x_of = {host: 60 + column // 2 + number * column for number, host in enumerate(drawing.hosts)}
    shown = title or trace.header.note
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="20" y="26" font-size="14" font-weight="600" fill="{INK}">{escape(shown)}</text>',
    ]
    for host, x in x_of.items():
        parts.append(f'<line x1="{x}" y1="{TOP - 20}" x2="{x}" y2="{height - 14}" stroke="#c9d1d9"/>')
        parts.append(
            f'<rect x="{x - 42}" y="{TOP - 44}" width="84" height="24" rx="5" fill="#f3f5f7" stroke="#c9d1d9"/>'
            f'<text x="{x}" y="{TOP - 28}" text-anchor="middle" font-weight="600" fill="{INK}">{escape(host)}</text>'
        )
    for row, number in drawing.numbers.items():
        if row == 0 or drawing.numbers[row - 1] != number:
            y = TOP + ROW * row + 4
            parts.append(
                f'<text x="34" y="{y}" text-anchor="end" fill="{PALE}" font-size="10">{number}</text>'
            )
    drawn = [part for mark in drawing.marks for part in _mark(mark, x_of)]
    # Labels last, so that no line crosses them.
    parts += sorted(drawn, key=lambda part: part.startswith("<text"))
    parts.append("</svg>")
    return "\n".join(parts)


def _mark(mark: Mark, x_of: dict[str, int]) -> Iterator[str]:
    x, y = x_of[mark.host], TOP + ROW * mark.row
    match mark.kind:
        case "message" | "again":
            yield from _arrow(mark, x_of[mark.other], TOP + ROW * mark.sent, x, y)
        case "never":
            half = (x + x_of[mark.other]) / 2
            dash = 'stroke-dasharray="5 4"'
            yield f'<line x1="{x}" y1="{y}" x2="{half}" y2="{y + 9}" stroke="{mark.colour}" {dash}/>'
            yield _label(half, y + 12, "⋯", PALE, "middle", size=14)
            side = 12 if half > x else -12
            yield _label(half + side, y + 13, mark.text, PALE, "start" if half > x else "end")
        case _:
            signs = {"timer": "◷", "crash": "✗", "recover": "▲", "start": "▲"}
            colour = ALARM if mark.kind == "crash" else mark.colour
            if mark.kind in signs:
                yield _label(x, y + 5, signs[mark.kind], colour, "middle", size=16)
            else:
                yield f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>'
            yield _label(x + 11, y + 4, mark.text, colour, "start")


def _arrow(mark: Mark, x0: float, y0: float, x: float, y: float) -> Iterator[str]:
    dash = ' stroke-dasharray="6 3"' if mark.kind == "again" else ""
    yield f'<line x1="{x0}" y1="{y0}" x2="{x}" y2="{y}" stroke="{mark.colour}" stroke-width="1.4"{dash}/>'
    back = 9 if x0 < x else -9
    slope = (y - y0) / (x - x0) if x != x0 else 0.0
    head = [(x, y), (x - back, y - back * slope - 4), (x - back, y - back * slope + 4)]
    points = " ".join(f"{px:.1f},{py:.1f}" for px, py in head)
    yield f'<polygon points="{points}" fill="{mark.colour}"/>'
    # At the arriving end, just above the line.
    away = -14 if x0 < x else 14
    yield _label(x + away, y + away * slope - 4, mark.text, mark.colour, "end" if x0 < x else "start")


def _label(x: float, y: float, text: str, colour: str, anchor: str, *, size: int = 11) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}" '
        f'paint-order="stroke" stroke="#ffffff" stroke-width="3">{escape(text)}</text>'
    )

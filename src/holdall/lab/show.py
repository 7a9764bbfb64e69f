"""`holdall lab show`: a trace as a sequence diagram in text, one line a message, timer or crash.

Exit status: 0 shown, 64 a file that is no trace.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from holdall.lab.diagram import envelope_of, hosts_of, texts_of, told
from holdall.lab.replay import load
from holdall.machine.contract import Address, ClockRead, Received
from holdall.machine.host import Arrival
from holdall.machine.link_frames import LinkFrame
from holdall.machine.trace import BadTrace, Header, Step, Trace

SHOWN, USAGE = 0, 64
JSON_VERSION = 1
COLUMNS_MAX = 9
"""More hosts than this are not drawn side by side."""
COLUMN = 15
LINES_MAX = 5_000

Kind: TypeAlias = Literal["message", "inside", "timer", "lost", "start", "crash", "recover"]


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the diagram."""

    n: int
    kind: Kind
    host: str
    """Where it happens; of a message that never arrives, who sent it."""
    text: str
    other: str = ""
    """The other end of a message."""
    at_ms: int | None = None


class _Report(msgspec.Struct):
    v: int
    header: Header
    hosts: tuple[str, ...]
    lines: list[Line]


def run_show(trace: Path, *, as_json: bool = False, svg: Path | None = None, title: str = "") -> int:
    """Draw a trace on stdout, or into a file as a picture; the exit status."""
    try:
        found = load(trace)
    except BadTrace as error:
        print(f"holdall: {trace}: {error}", file=sys.stderr)
        return USAGE
    if svg is not None:
        return _write_svg(found, svg, title)
    lines = list(lines_of(found.steps))
    hosts = hosts_of(found.steps)
    if as_json:
        print(msgspec.json.encode(_Report(JSON_VERSION, found.header, hosts, lines)).decode())
        return SHOWN
    if found.header.note:
        print(found.header.note, file=sys.stderr)
    for text in drawn(lines[:LINES_MAX], hosts):
        print(text)
    if len(lines) > LINES_MAX:
        print(f"… {len(lines) - LINES_MAX} further lines; --json has all", file=sys.stderr)
    return SHOWN


def _write_svg(found: Trace, svg: Path, title: str) -> int:
    from holdall.lab.sequence_svg import drawn_svg

    try:
        svg.write_text(drawn_svg(found, title) + "\n")
    except OSError as error:
        print(f"holdall: can't write {error.filename}: {error.strerror}", file=sys.stderr)
        return USAGE
    print(f"picture: {svg}", file=sys.stderr)
    return SHOWN


def lines_of(steps: list[Step]) -> Iterator[Line]:
    """What happens, in order. A message shows where it arrives; one that never does, where it was sent.

    A frame shows as the messages in it, each with the frame's number; a frame that comes again, as that.
    """
    frames: set[object] = set()
    hosts = {step.host for step in steps}
    coming = Counter(
        envelope_of(arrival.event.sender, Address(step.host, arrival.part), arrival.event.message)
        for step in steps
        for arrival in step.arrivals
        if isinstance(arrival.event, Received)
    )
    for step in steps:
        if step.kind != "turn":
            text = "" if step.boot is None else _boot(step)
            yield Line(step.n, step.kind, step.host, text, at_ms=step.at_ms)
        for arrival in step.arrivals:
            yield from _arrived(step, arrival, coming, frames)
        for sender, to, message in step.turn.sends:
            envelope = envelope_of(sender, to, message)
            if to.node == step.host:
                yield Line(step.n, "inside", step.host, f"→ {to.part}: {told(message)}", at_ms=step.at_ms)
            elif to.node in hosts and coming[envelope] <= 0:
                for text in texts_of(message):
                    yield Line(step.n, "lost", step.host, text, to.node, step.at_ms)


def drawn(lines: list[Line], hosts: tuple[str, ...]) -> Iterator[str]:
    """The diagram: a column a host, or plain lines when there are too many hosts."""
    if len(hosts) > COLUMNS_MAX:
        for line in lines:
            yield f"{_head(line)}{_plain(line)}"
        return
    place = {host: number for number, host in enumerate(hosts)}
    yield " " * 14 + "".join(host[: COLUMN - 1].center(COLUMN) for host in hosts).rstrip()
    for line in lines:
        yield f"{_head(line)}{_row(line, place)}  {line.text}".rstrip()


def _head(line: Line) -> str:
    at = "" if line.at_ms is None else str(line.at_ms)
    return f"{line.n:>5} {at:>7} "


def _row(line: Line, place: dict[str, int]) -> str:
    cells = list((" " * (COLUMN // 2) + "│").ljust(COLUMN) * len(place))
    here = place[line.host] * COLUMN + COLUMN // 2
    match line.kind:
        case "message" | "lost" if line.other in place:
            there = place[line.other] * COLUMN + COLUMN // 2
            start, end = (there, here) if line.kind == "message" else (here, there)
            step = 1 if end > start else -1
            for at in range(start + step, end, step):
                cells[at] = "─"
            cells[start] = "├" if step > 0 else "┤"
            if line.kind == "lost":
                cells[end - step] = "✗"
            else:
                cells[end - step] = "▶" if step > 0 else "◀"
        case _:
            marks: dict[Kind, str] = {"timer": "◷", "crash": "✗", "recover": "▲", "start": "▲"}
            cells[here] = marks.get(line.kind, "●")
    return "".join(cells)


def _plain(line: Line) -> str:
    match line.kind:
        case "message":
            return f"{line.other} → {line.host}: {line.text}"
        case "lost":
            return f"{line.host} → {line.other}, never arrives: {line.text}"
        case "inside":
            return f"{line.host}: {line.text}"
        case _:
            return f"{line.host}: {line.kind} {line.text}".rstrip()


def _arrived(step: Step, arrival: Arrival, coming: Counter[object], frames: set[object]) -> Iterator[Line]:
    event = arrival.event
    if not isinstance(event, Received):
        yield Line(step.n, "timer", step.host, f"{arrival.part}: {event.timer}", at_ms=step.at_ms)
        return
    sender, message = event.sender, event.message
    if isinstance(message, ClockRead):
        return  # in every turn, and says nothing
    coming[envelope_of(sender, Address(step.host, arrival.part), message)] -= 1
    if sender.node == step.host:
        text = f"{arrival.part} ← {sender.part}: {told(message)}"
        yield Line(step.n, "inside", step.host, text, at_ms=step.at_ms)
        return
    texts = texts_of(message)
    if isinstance(message, LinkFrame) and message.seq:
        name = (sender.node, step.host, message.mine, message.yours, message.seq)
        if name in frames:
            texts = [f"[{message.seq}] again, ack {message.ack}"]
        frames.add(name)
    for text in texts:
        yield Line(step.n, "message", step.host, text, sender.node, step.at_ms)


def _boot(step: Step) -> str:
    boot = step.boot
    if boot is None:
        return ""
    quarantine = f", quarantine {boot.quarantine_ms} ms" if boot.quarantine_ms else ""
    return f"{boot.kind}, epoch {boot.epoch}{quarantine}"

"""Traces: what arrived at each host in each turn and what came of it, as JSON lines; and their replay.

One format for a failing seed of the simulator, a counter-example of the explorer and a node's trace file. The
first line is the header; each further line is one step of one host: `start`, `turn`, `crash` or `recover`.
Since machines know neither clock nor chance, freshly built hosts that get the same arrivals must answer with
the same effects; `replay` names the first turn where they don't.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from holdall.machine.codec import CODEC, Codec, CodecError
from holdall.machine.contract import (
    Address,
    Boot,
    CancelTimer,
    ProtocolViolation,
    Received,
    Record,
    SetTimer,
    TimerFired,
)
from holdall.machine.host import SEPARATOR, Arrival, Host, Turn

VERSION = 1

Kind: TypeAlias = Literal["start", "turn", "crash", "recover"]


class BadTrace(ValueError):
    """A file that is no trace of this release; the text names the line."""


class Header(msgspec.Struct, frozen=True, tag="header", kw_only=True):
    """Who wrote the trace, and how its hosts can be built again."""

    v: int = VERSION
    holdall: str = ""
    """Release that wrote it."""
    driver: str
    """`simulator`, `explorer` or `node`: who knows how to build the hosts from `world`."""
    node: str = ""
    seed: int | None = None
    world: dict[str, Any] = {}
    """Plain values from which the driver builds the hosts."""
    note: str = ""
    """What the trace shows, e.g. the property that is violated."""
    families: dict[str, int] = {}
    """Versions of the unions of messages and records."""


class Step(msgspec.Struct, kw_only=True):
    """One turn of one host."""

    kind: Kind = "turn"
    n: int
    """Number of the step, from 1."""
    at_ms: int | None = None
    """The driver's clock: virtual in the simulator; None in the explorer."""
    host: str
    arrivals: tuple[Arrival, ...] = ()
    boot: Boot | None = None
    """How a host recovers; only with `recover`."""
    kept: bool = True
    """False: the host came up without its records."""
    undone: Mapping[str, Record | None] = {}
    """Records that it came up with otherwise than its turns had saved them (None: without): its journal lacked turns."""
    turn: Turn
    """What came of it; empty with `crash`."""


class Trace(msgspec.Struct):
    """A whole trace in memory."""

    header: Header
    steps: list[Step]


class Difference(msgspec.Struct, frozen=True):
    """The first step whose effects are not those of the trace. Texts are JSON, one effect a line."""

    n: int
    host: str
    expected: tuple[str, ...]
    got: tuple[str, ...]

    def text(self) -> str:
        """For people: the lines that differ, `-` as in the trace, `+` as it came."""
        lost = [f"  - {line}" for line in self.expected if line not in self.got]
        new = [f"  + {line}" for line in self.got if line not in self.expected]
        if not lost and not new:
            lost = [f"  - {line}" for line in self.expected]
            new = [f"  + {line}" for line in self.got]
        head = f"turn {self.n} on {self.host} differs (- trace, + now):"
        return "\n".join([head, *lost, *new])


# How a step is written


class _Arrived(msgspec.Struct, omit_defaults=True):
    part: str
    sender: str = ""
    message: dict[str, Any] | None = None
    timer: str | None = None


class _Sent(msgspec.Struct):
    sender: str
    to: str
    message: dict[str, Any]


class _Armed(msgspec.Struct, omit_defaults=True):
    after_ms: int
    spread_ms: int = 0


class _Line(msgspec.Struct, tag="step", omit_defaults=True):
    n: int
    host: str
    kind: Kind = "turn"
    at_ms: int | None = None
    arrivals: list[_Arrived] = []
    boot: Boot | None = None
    kept: bool = True
    undone: dict[str, dict[str, Any] | None] = {}
    saves: dict[str, dict[str, Any] | None] = {}
    timers: dict[str, _Armed | None] = {}
    sends: list[_Sent] = []
    ends: dict[str, str] = {}


class _ArrivedRaw(msgspec.Struct):
    part: str
    sender: str = ""
    message: dict[str, msgspec.Raw] | None = None
    timer: str | None = None


class _SentRaw(msgspec.Struct):
    sender: str
    to: str
    message: dict[str, msgspec.Raw]


class _LineRaw(msgspec.Struct, tag="step"):
    n: int
    host: str
    kind: Kind = "turn"
    at_ms: int | None = None
    arrivals: list[_ArrivedRaw] = []
    boot: Boot | None = None
    kept: bool = True
    undone: dict[str, dict[str, msgspec.Raw] | None] = {}
    saves: dict[str, dict[str, msgspec.Raw] | None] = {}
    timers: dict[str, _Armed | None] = {}
    sends: list[_SentRaw] = []
    ends: dict[str, str] = {}


_json = msgspec.json.Encoder()
_line_decoder: msgspec.json.Decoder[Header | _LineRaw] = msgspec.json.Decoder(Header | _LineRaw)


def write_header(header: Header, *, codec: Codec = CODEC) -> bytes:
    """The first line of a trace, with the families' versions filled in."""
    return _json.encode(msgspec.structs.replace(header, families=codec.versions())) + b"\n"


def write_step(step: Step, *, codec: Codec = CODEC) -> bytes:
    """One line. Raises CodecError when a message or record belongs to no family."""
    return _json.encode(_to_line(step, codec)) + b"\n"


def read(lines: Iterable[bytes], *, codec: Codec = CODEC) -> Trace:
    """A whole trace; empty lines are skipped. Raises BadTrace."""
    header: Header | None = None
    steps: list[Step] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = _line_decoder.decode(line)
            if header is None:
                header = _header(value, codec)
            else:
                steps.append(_to_step(value, codec))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise BadTrace(f"line {number}: {error}") from error
    if header is None:
        raise BadTrace("empty: the first line of a trace is its header")
    return Trace(header, steps)


def _header(value: "Header | _LineRaw", codec: Codec) -> Header:
    if not isinstance(value, Header):
        raise BadTrace("the first line of a trace is its header")
    if value.v != VERSION:
        raise BadTrace(f"trace version {value.v}; this release reads version {VERSION}")
    known = codec.versions()
    for family, version in value.families.items():
        if version > known.get(family, version):
            raise BadTrace(
                f"written with version {version} of {family!r}; this release knows {known[family]}"
            )
    return value


def replay(
    steps: Iterable[Step],
    build: Callable[[str], Host],
    *,
    records: Mapping[str, Mapping[str, Record]] | None = None,
    codec: Codec = CODEC,
) -> Difference | None:
    """Give freshly built hosts the arrivals of a trace; None when every effect is the same.

    `build(name)` makes a host that has not been started. A host that recovers is built anew and gets the
    records that the trace's own turns have saved, on top of `records` (host -> key -> record) from before the trace.
    An event that a machine refuses (ProtocolViolation) has no effects.
    """
    hosts: dict[str, Host] = {}
    saved: dict[str, dict[str, Record]] = {name: dict(kept) for name, kept in (records or {}).items()}
    for step in steps:
        kept = saved.setdefault(step.host, {})
        if step.kind == "crash":
            hosts.pop(step.host, None)
            continue
        refused: list[str] = []
        try:
            got = _again(step, build, hosts, kept, refused)
        except ProtocolViolation as error:  # at a start or a recovery
            got = Turn({}, {}, [])
            refused.append(f"refused: {error}")
        if got != step.turn:
            now = (*refused, *effects(got, codec))
            return Difference(step.n, step.host, tuple(effects(step.turn, codec)), now)
        _put(kept, got.saves)
    return None


def _put(kept: dict[str, Record], records: Mapping[str, Record | None]) -> None:
    for key, record in records.items():
        if record is None:
            kept.pop(key, None)
        else:
            kept[key] = record


def _again(
    step: Step,
    build: Callable[[str], Host],
    hosts: dict[str, Host],
    kept: dict[str, Record],
    refused: list[str],
) -> Turn:
    if step.kind == "recover":
        if not step.kept:
            kept.clear()
        _put(kept, step.undone)
        hosts[step.host] = build(step.host)
        return hosts[step.host].recover(kept, step.boot or Boot("same", 1, 1))
    if step.kind == "start":
        hosts[step.host] = build(step.host)
        return hosts[step.host].start()
    if step.host not in hosts:
        # A start without effects may be left out of a trace.
        hosts[step.host] = build(step.host)
        hosts[step.host].start()
    return hosts[step.host].turn(step.arrivals, lambda _, error: refused.append(f"refused: {error}"))


def effects(turn: Turn, codec: Codec = CODEC) -> Iterator[str]:
    """The effects of a turn as JSON texts, in the order in which a driver carries them out."""
    for key, record in turn.saves.items():
        forgotten = {"forget": key, "why": turn.ends[key]} if key in turn.ends else {"forget": key}
        yield _text(forgotten if record is None else {"save": key, "record": codec.plain(record)})
    for name, timer in turn.timers.items():
        if isinstance(timer, SetTimer):
            yield _text({"timer": name, "after_ms": timer.after_ms, "spread_ms": timer.spread_ms})
        else:
            yield _text({"cancel": name})
    for sender, to, message in turn.sends:
        yield _text({"send": str(to), "from": str(sender), "message": codec.plain(message)})


def _text(value: object) -> str:
    return _json.encode(value).decode()


def _to_line(step: Step, codec: Codec) -> _Line:
    arrivals: list[_Arrived] = []
    for arrival in step.arrivals:
        match arrival.event:
            case Received(sender, message):
                arrivals.append(_Arrived(arrival.part, str(sender), codec.plain(message)))
            case TimerFired(timer):
                arrivals.append(_Arrived(arrival.part, timer=timer))
    turn = step.turn
    return _Line(
        n=step.n,
        host=step.host,
        kind=step.kind,
        at_ms=step.at_ms,
        arrivals=arrivals,
        boot=step.boot,
        kept=step.kept,
        undone=_plain(step.undone, codec),
        saves=_plain(turn.saves, codec),
        timers={
            name: _Armed(timer.after_ms, timer.spread_ms) if isinstance(timer, SetTimer) else None
            for name, timer in turn.timers.items()
        },
        sends=[_Sent(str(sender), str(to), dict(codec.plain(message))) for sender, to, message in turn.sends],
        ends=turn.ends,
    )


def _plain(records: Mapping[str, Record | None], codec: Codec) -> dict[str, dict[str, Any] | None]:
    return {key: None if record is None else dict(codec.plain(record)) for key, record in records.items()}


def _to_step(line: Header | _LineRaw, codec: Codec) -> Step:
    if isinstance(line, Header):
        raise BadTrace("a second header")
    arrivals: list[Arrival] = []
    for entry in line.arrivals:
        if entry.message is not None:
            event = Received(_address(entry.sender), codec.from_plain(entry.message))
            arrivals.append(Arrival(entry.part, event))
        elif entry.timer is not None:
            arrivals.append(Arrival(entry.part, TimerFired(entry.timer)))
        else:
            raise CodecError("an arrival has a message or a timer")
    turn = Turn(
        saves=_records(line.saves, codec),
        timers={name: _timer(name, armed) for name, armed in line.timers.items()},
        sends=[
            (_address(sent.sender), _address(sent.to), codec.from_plain(sent.message)) for sent in line.sends
        ],
        ends=line.ends,
    )
    return Step(
        kind=line.kind,
        n=line.n,
        at_ms=line.at_ms,
        host=line.host,
        arrivals=tuple(arrivals),
        boot=line.boot,
        kept=line.kept,
        undone=_records(line.undone, codec),
        turn=turn,
    )


def _records(lines: Mapping[str, dict[str, msgspec.Raw] | None], codec: Codec) -> dict[str, Record | None]:
    return {key: None if raw is None else codec.from_plain(raw) for key, raw in lines.items()}


def _timer(name: str, armed: _Armed | None) -> SetTimer | CancelTimer:
    inner = name.partition(SEPARATOR)[2]
    return CancelTimer(inner) if armed is None else SetTimer(inner, armed.after_ms, armed.spread_ms)


def _address(text: str) -> Address:
    node, _, part = text.partition("/")
    return Address(node, part)

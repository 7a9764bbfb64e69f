"""A counter-example as a trace: the moves of a path, run once more on real hosts.

Messages that are lost or repeated show by what arrives; a crash is a `crash` and a `recover` step of its host.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from holdall.explorer.mail import Mail
from holdall.explorer.moves import BOOT_KIND, Move
from holdall.explorer.search import Violation
from holdall.explorer.table import Events
from holdall.machine.codec import CODEC, Codec
from holdall.machine.contract import Boot, ProtocolViolation, Record
from holdall.machine.host import Arrival, Host, Turn
from holdall.machine.link_frames import LinkFrame, LinkOpen
from holdall.machine.trace import Header, Step, write_header, write_step
from holdall.world.plan import BadWorld, ClaimPlan, GiveBack, Place, World

DRIVER = "explorer"


class Hosts(Protocol):
    """The machines of a world."""

    def build(self, host: str) -> Host: ...

    def boot(self, kind: str, epoch: int) -> Boot: ...

    @property
    def world(self) -> msgspec.Struct: ...


class Space(Protocol):
    """What the moves of a path refer to."""

    @property
    def system(self) -> Hosts: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def mail(self) -> Mail: ...

    @property
    def events(self) -> Events: ...

    @property
    def fresh(self) -> frozenset[str]: ...


def steps_of(space: Space, moves: tuple[Move, ...]) -> list[Step]:
    """The turns along a path, with their effects."""
    return list(_Runner(space).run(moves))


def lines_of(
    space: Space, violation: Violation, protocol: str, *, codec: Codec, release: str = ""
) -> list[bytes]:
    """The trace as JSON lines."""
    world = {"protocol": protocol, **world_value(space.system.world)}
    header = Header(holdall=release, driver=DRIVER, world=world, note=f"{violation.name}: {violation.text}")
    steps = steps_of(space, violation.moves)
    return [write_header(header, codec=codec), *(write_step(step, codec=codec) for step in steps)]


def world_value(world: msgspec.Struct) -> dict[str, Any]:
    """The world as plain values, for a trace's header."""
    value: dict[str, Any] = msgspec.to_builtins(world)
    return value


def world_from(value: dict[str, Any]) -> World:
    """The world of a trace's header. Raises BadWorld."""
    plain = {name: part for name, part in value.items() if name != "protocol"}
    try:
        return msgspec.convert(plain, World)
    except msgspec.ValidationError as error:
        raise BadWorld(f"the trace's header names no world: {error}") from error


class _Runner:
    def __init__(self, space: Space) -> None:
        self._space = space
        self._hosts: dict[str, Host] = {}
        self._records: dict[str, dict[str, Record]] = {name: {} for name in space.names}
        self._epochs = dict.fromkeys(space.names, 1)
        self._count = 0

    def run(self, moves: tuple[Move, ...]) -> Iterator[Step]:
        for name in self._space.names:
            host = self._hosts[name] = self._space.system.build(name)
            turn = host.start()
            if turn.saves or turn.timers or turn.sends:
                yield self._step(name, "start", turn)
        for move in moves:
            yield from self._move(move)

    def _move(self, move: Move) -> Iterator[Step]:
        name = self._space.names[move.host]
        if move.kind == "again":
            raise BadWorld(
                "a run with claims that come for ever can't be written as a trace; leave --trace out"
            )
        if move.kind in BOOT_KIND:
            if move.within:
                yield self._turn(name, self._arrival(move, move.within, name))
            yield self._step(name, "crash", Turn({}, {}, []))
            yield self._recover(name, move.kind)
        elif move.kind == "gone" or (move.kind == "act" and move.what < 0):
            yield self._step(name, "crash", Turn({}, {}, []))
        elif move.kind != "lose":
            yield self._turn(name, self._arrival(move, move.kind, name))

    def _arrival(self, move: Move, kind: str, name: str) -> Arrival:
        if kind == "timer":
            return self._hosts[name].fire(move.timer)
        if kind == "act":
            return self._space.events.values[move.what]
        return self._space.mail.arrivals[move.what]

    def _turn(self, name: str, arrival: Arrival) -> Step:
        try:
            turn = self._hosts[name].turn((arrival,))
        except ProtocolViolation:
            turn = Turn({}, {}, [])  # the last step of a trace whose property is "refused"
        return self._step(name, "turn", turn, arrival)

    def _recover(self, name: str, kind: str) -> Step:
        if kind in self._space.fresh:
            self._epochs[name] += 1
        boot = self._space.system.boot(BOOT_KIND[kind], self._epochs[name])
        kept = self._records[name]
        if kind == "wipe":
            kept.clear()
        host = self._hosts[name] = self._space.system.build(name)
        return self._step(name, "recover", host.recover(kept, boot), boot=boot)

    def _step(
        self, name: str, kind: Any, turn: Turn, arrival: Arrival | None = None, boot: Boot | None = None
    ) -> Step:
        self._count += 1
        for key, record in turn.saves.items():
            if record is None:
                self._records[name].pop(key, None)
            else:
                self._records[name][key] = record
        arrivals = () if arrival is None else (arrival,)
        kept = boot is None or boot.kind != "lost"
        return Step(kind=kind, n=self._count, host=name, arrivals=arrivals, boot=boot, kept=kept, turn=turn)


def told(space: Space, moves: tuple[Move, ...]) -> Iterator[str]:
    """A path for people, one line a move."""
    for number, move in enumerate(moves, start=1):
        yield f"{number:3}  {_told(space, move)}"


def _told(space: Space, move: Move) -> str:
    name = space.names[move.host]
    lost = "".join(f"; lost: {_letter(space, message)}" for message in _bits(move.lost))
    match move.kind:
        case "deliver" | "repeat" | "lose":
            verb = {"deliver": "gets", "repeat": "gets, and it is still under way,", "lose": "will never get"}
            return f"{name} {verb[move.kind]} {_letter(space, move.what)}"
        case "act":
            return f"{name} {move.text}{_event(space, move.what)}"
        case "timer":
            return f"{name} timer {move.timer}"
        case "again":
            return f"{name} may claim again: nothing is left of its earlier claim"
        case "gone":
            return f"{name} never comes back{lost}"
        case _ if move.within:
            turn = _told(space, move._replace(kind=move.within, within="", lost=0))
            return f"{turn}; then {name}: {move.kind} after {move.cut} messages of this turn{lost}"
        case _:
            return f"{name}: {move.kind}{lost}"


def _bits(mask: int) -> list[int]:
    return [number for number in range(mask.bit_length()) if mask >> number & 1]


def _letter(space: Space, number: int) -> str:
    letter = space.mail.letters[number]
    return f"{_short(letter.message)} from {letter.sender.node}"


def _event(space: Space, number: int) -> str:
    if number < 0:
        return ""
    event = space.events.values[number].event
    message = getattr(event, "message", None)
    return "" if message is None else f" {_short(message)}"


def _short(message: msgspec.Struct) -> str:
    if isinstance(message, LinkOpen | LinkFrame):
        return _link(message)
    claim = getattr(message, "claim", "")
    rest = [
        f"{name}={getattr(message, name)}"
        for name in (
            "attempt",
            "epoch",
            "position",
            "pn",
            "n",
            "yes",
            "alternatives",
            "keep",
            "index",
            "rinit",
            "rmin",
            "number",
            "words",
        )
        if hasattr(message, name)
    ]
    return f"{type(message).__name__}({', '.join([str(claim), *rest])})"


def _link(message: LinkOpen | LinkFrame) -> str:
    """Ends, number, acknowledgement and what a frame holds."""
    ends = f"{message.mine}→{message.yours or '?'}"
    if isinstance(message, LinkOpen):
        return f"open {ends}"
    if not message.seq:
        return f"ack {message.ack} {ends}"
    held = ", ".join(_short(CODEC.decode(parcel.body)) for parcel in message.parcels)
    return f"frame {message.seq} (ack {message.ack}) {ends}: {held}"


def claim_text(claim: ClaimPlan) -> str:
    """A claim's plan as the named worlds write it."""
    text = " or ".join(_places(need) for need in (claim.need, *claim.siblings))
    notes = [
        *(["now or not at all"] if not claim.wait else []),
        *([f"{claim.repeat} times"] if claim.repeat > 1 else []),
        *(["gives a part back" if isinstance(step, GiveBack) else "exchanges" for step in claim.steps]),
        *([f"of {claim.holder}"] if claim.holder else []),
        *([f"age {claim.clock}"] if claim.clock is not None else []),
    ]
    return f"{claim.host} {text}" + (f" ({', '.join(notes)})" if notes else "")


def _places(need: tuple[Place, ...]) -> str:
    return " -> ".join(
        f"{place.node}:"
        + "|".join(
            "+".join(f"{count}{pool}" if count > 1 else pool for pool, count in vector)
            for vector in place.alternatives
        )
        for place in need
    )

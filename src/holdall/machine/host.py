"""Machines that live and crash together: one node's parts, and the turn that joins them.

Messages between parts of one host are delivered within the same turn, in the order in which they were sent;
all others leave with the turn's answer, those to other nodes through the host's link, if it has one. Timers and
records carry the part's name, so parts can't disturb each other.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Self, TypeAlias

import msgspec

from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    CancelTimer,
    Effect,
    Event,
    Forget,
    Machine,
    ProtocolViolation,
    Received,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.machine.link import LINK, Link

SEPARATOR = "!"
"""Between a part's name and its timer or record: `manager!row/…`."""


class Arrival(msgspec.Struct, frozen=True):
    """An event and the part of this host that it is for."""

    part: str
    event: Event


Refused: TypeAlias = Callable[[Arrival, ProtocolViolation], None]
"""Told of an event that its part has refused, or of a message that can't leave; the rest of the turn counts."""


class Turn(msgspec.Struct):
    """What one turn asks of the driver, in the order of its duties: save, arm, send."""

    saves: dict[str, Record | None] = {}
    """Key -> record, or None to forget: the last word of the turn on each key."""
    timers: dict[str, SetTimer | CancelTimer] = {}
    sends: list[tuple[Address, Address, msgspec.Struct]] = []
    """(sender, receiver, message), receivers outside this host only."""
    ends: dict[str, str] = {}
    """Key -> why it is forgotten, where that was said."""


class Host:
    """The parts of one node: name -> machine; and the link through which they speak to other nodes."""

    def __init__(self, node: str, parts: Mapping[str, Machine], link: Link | None = None) -> None:
        """Without a link, messages to other nodes are sends of the turn one by one."""
        self.node = node
        self.parts: dict[str, Machine] = dict(parts)
        self.link = link
        self._addresses = {part: Address(node, part) for part in self.parts}

    def start(self) -> Turn:
        """First start of all parts, in the order of their names."""
        return self._run((), {name: self.parts[name].start() for name in sorted(self.parts)})

    def recover(self, records: Mapping[str, Record], boot: Boot) -> Turn:
        """Start again from the records of earlier turns (keys as in `Turn.saves`)."""
        kept: dict[str, dict[str, Record]] = {name: {BOOT_KEY: boot} for name in self.parts}
        for key in sorted(records):
            part, _, inner = key.partition(SEPARATOR)
            if part in kept:
                kept[part][inner] = records[key]
        if self.link is not None:
            self.link.recover(boot)
        return self._run((), {name: self.parts[name].recover(kept[name]) for name in sorted(self.parts)})

    def turn(self, arrivals: Iterable[Arrival], refused: Refused | None = None) -> Turn:
        """Deliver `arrivals` in order, and what the parts tell each other because of them.

        A timer that ran out, but is set anew or cancelled in this turn before its part could hear of it, is not delivered.

        An event that its part refuses (ProtocolViolation) is given to `refused` and has no effect; without `refused`
        the violation is raised and nothing of the turn may be used.
        """
        return self._run(arrivals, {}, refused)

    def one(self, part: str, event: Event) -> Turn:
        """A turn of one event, as `turn` without `refused`: for drivers that count each microsecond."""
        if self.link is not None:
            return self._run((Arrival(part, event),), {})
        turn = Turn({}, {}, [])
        effects = self.parts[part].handle(event)
        if effects:
            inside: deque[Arrival] = deque()
            self._note(part, effects, turn, inside, None)
            if inside:
                self._drain(turn, inside, None)
        return turn

    def fire(self, timer: str) -> Arrival:
        """The arrival for a timer named as in `Turn.timers`."""
        part, _, inner = timer.partition(SEPARATOR)
        return Arrival(part, TimerFired(inner))

    def key(self) -> Hashable:
        """All parts' keys: hosts with equal keys behave alike."""
        parts = tuple((name, self.parts[name].key()) for name in sorted(self.parts))
        return parts if self.link is None else (*parts, (LINK, self.link.key()))

    def copy(self) -> Self:
        """An independent twin of all parts."""
        twin = object.__new__(type(self))
        twin.node = self.node
        twin._addresses = self._addresses
        twin.parts = {name: machine.copy() for name, machine in self.parts.items()}
        twin.link = None if self.link is None else self.link.copy()
        return twin

    def _run(
        self,
        arrivals: Iterable[Arrival],
        first: Mapping[str, Sequence[Effect]],
        refused: Refused | None = None,
    ) -> Turn:
        turn = Turn({}, {}, [])
        inside: deque[Arrival] = deque()
        for part, effects in first.items():
            self._note(part, effects, turn, inside, refused)
        self._drain(turn, inside, refused)
        for arrival in arrivals:
            if arrival.part == LINK and self.link is not None:
                self._unpack(self.link, arrival, inside, refused)
            elif type(arrival.event) is TimerFired and _is_void(arrival.part, arrival.event, turn):
                continue
            else:
                self._handle(arrival, turn, inside, refused)
            if inside:
                self._drain(turn, inside, refused)
        if self.link is not None and self.link.is_touched:
            sends, timers = self.link.flush()
            turn.sends += sends
            turn.timers.update({f"{LINK}{SEPARATOR}{name}": timer for name, timer in timers.items()})
        return turn

    def _drain(self, turn: Turn, inside: "deque[Arrival]", refused: Refused | None) -> None:
        while inside:
            self._handle(inside.popleft(), turn, inside, refused)

    def _handle(
        self, arrival: Arrival, turn: Turn, inside: "deque[Arrival]", refused: Refused | None
    ) -> None:
        try:
            effects = self.parts[arrival.part].handle(arrival.event)
        except ProtocolViolation as error:
            if refused is None:
                raise
            refused(arrival, error)
            return
        if effects:
            self._note(arrival.part, effects, turn, inside, refused)

    def _unpack(
        self, link: Link, arrival: Arrival, inside: "deque[Arrival]", refused: Refused | None
    ) -> None:
        try:
            found = link.arrive(arrival.event)
        except ProtocolViolation as error:
            if refused is None:
                raise
            refused(arrival, error)
            return
        why = found.refusal
        for part, received in found.deliveries:
            if part in self.parts:
                inside.append(Arrival(part, received))
            else:
                why = why or f"no part {part!r} here"
        if why:
            if refused is None:
                raise ProtocolViolation(why)
            refused(arrival, ProtocolViolation(why))

    def _note(
        self,
        part: str,
        effects: Sequence[Effect],
        turn: Turn,
        inside: "deque[Arrival]",
        refused: Refused | None,
    ) -> None:
        # Runs once per effect of every turn: comparing types takes a fraction of what class patterns do.
        sender, prefix = self._addresses[part], part + SEPARATOR
        for effect in effects:
            if type(effect) is Send:
                to = effect.to
                if to.node == self.node:
                    if to.part in self.parts:
                        inside.append(Arrival(to.part, Received(sender, effect.message)))
                    else:
                        turn.sends.append((sender, to, effect.message))
                elif self.link is None:
                    turn.sends.append((sender, to, effect.message))
                else:
                    self._post(self.link, part, effect, refused)
            elif type(effect) is Save:
                turn.saves[prefix + effect.key] = effect.record
            elif type(effect) is Forget:
                key = prefix + effect.key
                turn.saves[key] = None
                if effect.why:
                    turn.ends[key] = effect.why
            elif isinstance(effect, SetTimer | CancelTimer):
                turn.timers[prefix + effect.timer] = effect

    def _post(self, link: Link, part: str, effect: Send, refused: Refused | None) -> None:
        try:
            link.post(part, effect.to, effect.message)
        except ProtocolViolation as error:
            if refused is None:
                raise
            refused(Arrival(LINK, Received(self._addresses[part], effect.message)), error)


def _is_void(part: str, event: TimerFired, turn: Turn) -> bool:
    """Timers of several parts run out at once after a pause; what one does about its own may concern another's."""
    return f"{part}{SEPARATOR}{event.timer}" in turn.timers

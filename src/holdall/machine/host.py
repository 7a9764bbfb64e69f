"""Machines that live and crash together: one node's parts, and the turn that joins them.

Messages between parts of one host are delivered within the same turn, in the order in which they were sent;
all others leave with the turn's answer. Timers and records carry the part's name, so parts can't disturb
each other.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Self

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
    Received,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)

SEPARATOR = "!"
"""Between a part's name and its timer or record: `manager!row/…`."""


class Arrival(msgspec.Struct, frozen=True):
    """An event and the part of this host that it is for."""

    part: str
    event: Event


class Turn(msgspec.Struct):
    """What one turn asks of the driver, in the order of its duties: save, arm, send."""

    saves: dict[str, Record | None] = {}
    """Key -> record, or None to forget: the last word of the turn on each key."""
    timers: dict[str, SetTimer | CancelTimer] = {}
    sends: list[tuple[Address, Address, msgspec.Struct]] = []
    """(sender, receiver, message), receivers outside this host only."""


class Host:
    """The parts of one node: name -> machine."""

    def __init__(self, node: str, parts: Mapping[str, Machine]) -> None:
        self.node = node
        self.parts: dict[str, Machine] = dict(parts)
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
        return self._run((), {name: self.parts[name].recover(kept[name]) for name in sorted(self.parts)})

    def turn(self, arrivals: Iterable[Arrival]) -> Turn:
        """Deliver `arrivals` in order, and what the parts tell each other because of them."""
        return self._run(arrivals, {})

    def fire(self, timer: str) -> Arrival:
        """The arrival for a timer named as in `Turn.timers`."""
        part, _, inner = timer.partition(SEPARATOR)
        return Arrival(part, TimerFired(inner))

    def key(self) -> Hashable:
        """All parts' keys: hosts with equal keys behave alike."""
        return tuple((name, self.parts[name].key()) for name in sorted(self.parts))

    def copy(self) -> Self:
        """An independent twin of all parts."""
        twin = object.__new__(type(self))
        twin.node = self.node
        twin._addresses = self._addresses
        twin.parts = {name: machine.copy() for name, machine in self.parts.items()}
        return twin

    def _run(self, arrivals: Iterable[Arrival], first: Mapping[str, Sequence[Effect]]) -> Turn:
        turn = Turn({}, {}, [])
        inside: deque[Arrival] = deque()
        for part, effects in first.items():
            self._note(part, effects, turn, inside)
        self._drain(turn, inside)
        parts = self.parts
        for arrival in arrivals:
            effects = parts[arrival.part].handle(arrival.event)
            if effects:
                self._note(arrival.part, effects, turn, inside)
                if inside:
                    self._drain(turn, inside)
        return turn

    def _drain(self, turn: Turn, inside: "deque[Arrival]") -> None:
        while inside:
            arrival = inside.popleft()
            self._note(arrival.part, self.parts[arrival.part].handle(arrival.event), turn, inside)

    def _note(self, part: str, effects: Sequence[Effect], turn: Turn, inside: "deque[Arrival]") -> None:
        # Runs once per effect of every turn; class patterns take several times as long as isinstance.
        for effect in effects:
            if isinstance(effect, Send):
                sender = self._addresses[part]
                to = effect.to
                if to.node == self.node and to.part in self.parts:
                    inside.append(Arrival(to.part, Received(sender, effect.message)))
                else:
                    turn.sends.append((sender, to, effect.message))
            elif isinstance(effect, Save):
                turn.saves[f"{part}{SEPARATOR}{effect.key}"] = effect.record
            elif isinstance(effect, Forget):
                turn.saves[f"{part}{SEPARATOR}{effect.key}"] = None
            else:
                turn.timers[f"{part}{SEPARATOR}{effect.timer}"] = effect

"""A small closed world of negotiation, searched through: any message next, timers at any moment, losses and crashes.

Clocks go as they like here: a timer that is armed may fire whenever. What must hold then holds without any clock.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Self, TypeVar

import msgspec

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.host import HostManager
from holdall.leases.negotiation.states import TERMINAL
from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    CancelTimer,
    Effect,
    Forget,
    Machine,
    Message,
    Received,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)

W = TypeVar("W", bound="World")
Letter = tuple[Address, Address, Message]
QUIET = ("heartbeat", "suspect", "gone", "keep", "answer", "lease", "quarantine")
"""Timers that tell of silence or forget: they are left out."""


class Budget(msgspec.Struct, frozen=True):
    timers: int
    losses: int
    crashes: int


class World:
    """One state."""

    def __init__(
        self,
        make: Mapping[Address, Callable[[], Machine]],
        capacity: Mapping[str, int],
        crashing: Sequence[Address],
        budget: Budget,
    ) -> None:
        self.make, self.capacity, self.crashing, self.budget = make, capacity, tuple(crashing), budget
        self.machines: dict[Address, Machine] = {}
        self.kept: dict[Address, dict[str, Record]] = {}
        self.timers: frozenset[tuple[Address, str]] = frozenset()
        self.mail: tuple[Letter, ...] = ()
        self.lapsed: frozenset[tuple[str, int]] = frozenset()
        """(lease, revision) of which an agent was told that it is over without a grant."""
        self.outcomes: frozenset[str] = frozenset()
        self.starts = 1
        self.in_order = False
        """Links keep the order of messages, as the shipped ones do within one process start."""

    def twin(self) -> Self:
        twin = type(self)(self.make, self.capacity, self.crashing, self.budget)
        twin.machines = dict(self.machines)
        twin.kept = dict(self.kept)
        twin.timers, twin.mail, twin.starts = self.timers, self.mail, self.starts
        twin.lapsed, twin.outcomes, twin.in_order = self.lapsed, self.outcomes, self.in_order
        return twin

    def key(self) -> object:
        return (
            tuple(self.machines[one].key() for one in sorted(self.machines)),
            tuple(repr(sorted(self.kept[one].items())) for one in sorted(self.kept)),
            self.timers,
            tuple(map(repr, self._by_link() if self.in_order else sorted(self.mail, key=repr))),
            self.lapsed,
            self.outcomes,
            self.budget,
            self.starts,
        )

    def _by_link(self) -> list[Letter]:
        """What matters of the order."""
        return sorted(self.mail, key=lambda one: one[:2])

    # ------------------------------------------------------------ moves

    def moves(self) -> Iterator[Self]:
        for place, letter in enumerate(self.mail):
            rest = self.mail[:place] + self.mail[place + 1 :]
            before = self.mail[:place]
            if letter in before or (self.in_order and any(one[:2] == letter[:2] for one in before)):
                continue
            yield self.delivered(letter, rest)
            if self.budget.losses:
                lost = self.twin()
                lost.mail = rest
                lost.budget = msgspec.structs.replace(self.budget, losses=self.budget.losses - 1)
                yield lost
        if self.budget.timers:
            for address, timer in sorted(self.timers):
                yield self._fired(address, timer)
        if self.budget.crashes:
            for address in self.crashing:
                yield self._crashed(address)

    def delivered(self, letter: Letter, rest: tuple[Letter, ...]) -> Self:
        sender, to, message = letter
        after = self.twin()
        after.mail = rest
        if isinstance(message, m.Lapsed):
            after.lapsed |= {(message.lease, message.revision)}
        if to not in self.machines:
            after.outcomes |= {type(message).__name__}
            return after
        machine = after.machines[to] = self.machines[to].copy()
        after.carry(to, machine.handle(Received(sender, message)))
        return after

    def _fired(self, address: Address, timer: str) -> Self:
        after = self.twin()
        after.timers -= {(address, timer)}
        after.budget = msgspec.structs.replace(self.budget, timers=self.budget.timers - 1)
        machine = after.machines[address] = self.machines[address].copy()
        after.carry(address, machine.handle(TimerFired(timer)))
        return after

    def _crashed(self, address: Address) -> Self:
        """It comes up with what it saved; its timers are gone, messages to it are not."""
        after = self.twin()
        after.budget = msgspec.structs.replace(self.budget, crashes=self.budget.crashes - 1)
        after.timers = frozenset(one for one in self.timers if one[0] != address)
        after.starts += 1
        boot = Boot("same", after.starts, after.starts)
        machine = after.machines[address] = self.make[address]()
        after.carry(address, machine.recover({**self.kept.get(address, {}), BOOT_KEY: boot}))
        return after

    def carry(self, address: Address, effects: Sequence[Effect]) -> None:
        kept = dict(self.kept.get(address, {}))
        timers = set(self.timers)
        for effect in effects:
            match effect:
                case Save(key, record):
                    kept[key] = record
                case Forget(key):
                    kept.pop(key, None)
                case SetTimer(timer):
                    if timer.partition("/")[0] not in QUIET:
                        timers.add((address, timer))
                case CancelTimer(timer):
                    timers.discard((address, timer))
                case Send(to, message):
                    self.mail = (*self.mail, (address, to, message))
        self.kept[address] = kept
        self.timers = frozenset(timers)

    # ------------------------------------------------------------ what must hold

    def wrong(self) -> str:
        """What is wrong with this state; "" when nothing is."""
        for machine in self.machines.values():
            if isinstance(machine, HostManager):
                wrong = self._wrong_at(machine)
                if wrong:
                    return wrong
        return ""

    def _wrong_at(self, host: HostManager) -> str:
        live = [one for one in host.book.held.values() if one.state not in TERMINAL]
        replaced = {one.replaces for one in live if one.replaces}
        for term, capacity in self.capacity.items():
            used = sum(
                int(status.granted)
                for one in live
                for status in one.terms
                if status.name == term and one.hold not in replaced
            )
            if used > capacity:
                return f"{host.settings.host}: {used} of {capacity} of {term} are given"
            if not replaced and used != capacity - host.book.allotments.free()[term]:
                return f"{host.settings.host}: the books of {term} differ"
        for one in live:
            if one.state == "active" and (one.lease, one.revision) in self.lapsed:
                return f"{one.lease} is active, and its agent was told that it has lapsed"
        return ""


def begun(world: W) -> W:
    """All machines have started, and what they said at their start has arrived."""
    for address, make in world.make.items():
        world.machines[address] = make()
        world.carry(address, world.machines[address].start())
    while world.mail:
        letter, *rest = world.mail
        world = world.delivered(letter, tuple(rest))
    return world


def search(first: World, states_most: int) -> tuple[int, frozenset[str], int]:
    """(states, outcomes, how many states are ends). Raises AssertionError at the first state that is wrong."""
    seen = {first.key()}
    todo = deque([first])
    outcomes: frozenset[str] = frozenset()
    ends = 0
    while todo:
        world = todo.popleft()
        wrong = world.wrong()
        assert not wrong, wrong
        outcomes |= world.outcomes
        alone = True
        for after in world.moves():
            alone = False
            key = after.key()
            if key not in seen:
                seen.add(key)
                todo.append(after)
        ends += alone
        assert len(seen) <= states_most, f"more than {states_most} states"
    return len(seen), outcomes, ends

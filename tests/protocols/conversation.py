"""A small closed system to tell conversations with: hosts, a wire whose order the script decides, and ears."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from holdall.machine.contract import Address, Boot, ClockRead, Machine, Received, Record, SetTimer
from holdall.machine.host import Arrival, Host, Turn
from holdall.protocols.chain.alone import ManagerAlone
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.manager import Manager
from holdall.protocols.chain.messages import CLAIMANT, MANAGER
from holdall.protocols.chain.settling import DEFAULT_SETTINGS, Settings
from holdall.protocols.counting_book import CapacityIs, Departed
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Granted,
    Release,
    Stamp,
    Terms,
    ToClaimant,
    UnitGrant,
    Vector,
    Visit,
)

AGENT = "agent"
M = TypeVar("M", bound=msgspec.Struct)

Letter = tuple[Address, Address, msgspec.Struct]
"""Sender, receiver, message."""


def vec(**units: int) -> Vector:
    """`vec(a=1, b=2)`"""
    return tuple(sorted(units.items()))


def need(*visits: tuple[str, Vector] | tuple[str, Vector, Vector], epoch: int = 1) -> tuple[Visit, ...]:
    """`need(("n0", vec(a=1)), ("n1", vec(a=1)))`; a third part is a second alternative."""
    return tuple(Visit(visit[0], tuple(visit[1:]), epoch) for visit in visits)


def claim_id(node: str, counter: int = 1) -> ClaimId:
    return ClaimId(node, 1, counter)


def plain_claimant(node: str) -> Claimant:
    """A claimant that never repeats itself."""
    return Claimant(node, Address(node, AGENT))


class Net:
    """Hosts by name; `managers` gives the pools of those that have some, every name in `claimants` can claim."""

    def __init__(
        self,
        managers: Mapping[str, Mapping[str, int]],
        claimants: str | tuple[str, ...] = (),
        *,
        settings: Settings = DEFAULT_SETTINGS,
        make: type[Manager] = Manager,
        make_claimant: Callable[[str], Claimant] = plain_claimant,
    ) -> None:
        names = (*managers, *(claimants.split() if isinstance(claimants, str) else claimants))

        def make_host(name: str) -> Host:
            parts: dict[str, Machine] = {CLAIMANT: make_claimant(name)}
            if name in managers:
                parts[MANAGER] = ManagerAlone(name, managers[name], settings=settings, make=make)
            return Host(name, parts)

        self.make_host = make_host
        self.hosts = {name: self.make_host(name) for name in dict.fromkeys(names)}
        self.disks: dict[str, dict[str, Record]] = {name: {} for name in self.hosts}
        self.wire: list[Letter] = []
        self.heard: dict[str, list[msgspec.Struct]] = {name: [] for name in self.hosts}
        """What each node's agent was told."""
        self.timers: dict[str, set[str]] = {name: set() for name in self.hosts}
        self.frames = 0
        """Messages that have gone from host to host."""
        self.commits: dict[str, int] = dict.fromkeys(self.hosts, 0)
        """Turns with something to save."""

    # Looking

    def manager(self, node: str) -> Manager:
        machine = self.hosts[node].parts[MANAGER]
        assert isinstance(machine, ManagerAlone)
        return machine.manager

    def claimant(self, node: str) -> Claimant:
        machine = self.hosts[node].parts[CLAIMANT]
        assert isinstance(machine, Claimant)
        return machine

    def told(self, node: str, kind: type[M]) -> list[M]:
        return [message for message in self.heard[node] if isinstance(message, kind)]

    def units(self, claim: ClaimId) -> tuple[UnitGrant, ...]:
        """What the claim was granted last."""
        return [message.units for message in self.told(claim.node, Granted) if message.claim == claim][-1]

    def is_granted(self, claim: ClaimId) -> bool:
        return any(message.claim == claim for message in self.told(claim.node, Granted))

    def in_flight(self, kind: type[M]) -> list[M]:
        return [message for _, _, message in self.wire if isinstance(message, kind)]

    # Doing

    def acquire(
        self,
        claim: ClaimId,
        wanted: tuple[Visit, ...],
        *,
        wait: bool = True,
        stamp: Stamp | None = None,
        siblings: tuple[tuple[Visit, ...], ...] = (),
        terms: Terms = Terms(),  # noqa: B008 - immutable
    ) -> None:
        self.verb(claim.node, Acquire(claim, wanted, wait, terms, stamp, siblings))

    def release(self, claim: ClaimId) -> None:
        self.verb(claim.node, Release(claim))

    def verb(self, node: str, message: ToClaimant) -> None:
        self.event(node, CLAIMANT, AGENT, message)

    def capacity(self, node: str, pool: str, units: int) -> None:
        self.event(node, MANAGER, "book", CapacityIs(pool, units))

    def departed(self, node: str, claim: ClaimId) -> None:
        self.event(node, MANAGER, "book", Departed(claim))

    def clock(self, node: str, wall_ms: int) -> None:
        self.event(node, MANAGER, "driver", ClockRead(wall_ms))

    def event(self, node: str, part: str, sender: str, message: msgspec.Struct) -> None:
        self._note(node, self.hosts[node].turn([Arrival(part, Received(Address(node, sender), message))]))

    def fire(self, node: str, timer: str) -> None:
        """`timer` as in `timers`, e.g. `manager!promote/c1.1.1`; set timers only."""
        assert timer in self.timers[node], f"{timer} is not among {sorted(self.timers[node])}"
        self.timers[node].discard(timer)
        self._note(node, self.hosts[node].turn([self.hosts[node].fire(timer)]))

    def restart(self, node: str, boot: Boot) -> None:
        """The process dies and comes up with what it saved; its timers are gone, what is in flight stays."""
        self.hosts[node] = self.make_host(node)
        self.timers[node] = set()
        self._note(node, self.hosts[node].recover(self.disks[node], boot))

    # The wire

    def deliver(self, kind: type[M], *, to: str | None = None, claim: ClaimId | None = None) -> M:
        """The oldest message in flight of this kind (and receiver, and claim) arrives."""
        for place, (_, receiver, message) in enumerate(self.wire):
            if isinstance(message, kind) and to in {None, receiver.node}:
                if claim is not None and getattr(message, "claim", None) != claim:
                    continue
                self.arrive(place)
                return message
        raise AssertionError(
            f"no {kind.__name__} in flight; there are {[type(m).__name__ for *_, m in self.wire]}"
        )

    def lose(self, kind: type[M]) -> M:
        """The oldest message in flight of this kind never arrives."""
        for place, (_, _, message) in enumerate(self.wire):
            if isinstance(message, kind):
                del self.wire[place]
                return message
        raise AssertionError(f"no {kind.__name__} in flight")

    def arrive(self, place: int) -> None:
        sender, receiver, message = self.wire.pop(place)
        turn = self.hosts[receiver.node].turn([Arrival(receiver.part, Received(sender, message))])
        self._note(receiver.node, turn)

    def run(self) -> int:
        """Everything arrives, in rounds: what is sent in one arrives in the next. Returns the rounds."""
        rounds = 0
        while self.wire:
            rounds += 1
            for _ in range(len(self.wire)):
                self.arrive(0)
        return rounds

    def _note(self, node: str, turn: Turn) -> None:
        for key, record in turn.saves.items():
            if record is None:
                self.disks[node].pop(key, None)
            else:
                self.disks[node][key] = record
        self.commits[node] += bool(turn.saves)
        for name, timer in turn.timers.items():
            if isinstance(timer, SetTimer):
                self.timers[node].add(name)
            else:
                self.timers[node].discard(name)
        for letter in turn.sends:
            if letter[1].part == AGENT:
                self.heard[node].append(letter[2])
            else:
                self.wire.append(letter)
                self.frames += 1

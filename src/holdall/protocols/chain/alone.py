"""A manager with a book that only counts, as one machine: for explorer, simulator and tests."""

from collections.abc import Hashable, Mapping
from typing import Self, cast, get_args

import msgspec

from holdall.machine.contract import (
    BOOT_KEY,
    Boot,
    ClockRead,
    Effect,
    Event,
    ProtocolViolation,
    Received,
    Record,
    SetTimer,
    TimerFired,
)
from holdall.protocols.chain.manager import Manager
from holdall.protocols.chain.messages import ToManager
from holdall.protocols.chain.rows import Row, without_limits
from holdall.protocols.chain.settling import DEFAULT_SETTINGS, Settings
from holdall.protocols.counting_book import CountingBook
from holdall.protocols.vocabulary import ClaimId

QUARANTINE_TIMER = "quarantine"
_MESSAGES: tuple[type, ...] = get_args(ToManager)


class CapacityIs(msgspec.Struct, frozen=True, tag="capacity_is"):
    """From the world: units of a pool have left service or come back."""

    pool: str
    units: int


class Departed(msgspec.Struct, frozen=True, tag="departed"):
    """From the world: the claim's lease is over at this node."""

    claim: ClaimId
    reason: str = "expired"


class ManagerAlone:
    """The machine. `make` is Manager, or a subclass without one of the rules."""

    def __init__(
        self,
        node: str,
        capacities: Mapping[str, int],
        *,
        epoch: int = 1,
        settings: Settings = DEFAULT_SETTINGS,
        make: type[Manager] = Manager,
    ) -> None:
        self.book = CountingBook(node, capacities)
        self.manager = make(node, epoch, self.book, settings)

    def start(self) -> list[Effect]:
        return []

    def handle(self, event: Event) -> list[Effect]:
        out: list[Effect] = []
        match event:
            case TimerFired(timer):
                if timer == QUARANTINE_TIMER:
                    self.book.granting = True
                    self.manager.capacity_changed(out)
                else:
                    self.manager.fired(timer, out)
            case Received(_, ClockRead(wall_ms)):
                self.manager.clock_read(wall_ms)
            case Received(_, CapacityIs(pool, units)):
                self.book.change_capacity(pool, units)
                self.manager.capacity_changed(out, (pool,))
            case Received(_, Departed(claim, reason)):
                self.manager.departed(claim, out, reason)
            case Received(sender, message):
                if not isinstance(message, _MESSAGES):
                    raise ProtocolViolation(f"{type(message).__name__} is no message to a manager")
                self.manager.receive(sender, cast("ToManager", message), out)
        return out

    def recover(self, records: Mapping[str, Record]) -> list[Effect]:
        out: list[Effect] = []
        boot = cast("Boot", records[BOOT_KEY])
        if boot.quarantine_ms:
            self.book.granting = False
            out.append(SetTimer(QUARANTINE_TIMER, boot.quarantine_ms))
        for row in records.values():
            if isinstance(row, Row) and row.active and boot.kind != "lost":
                self.book.set_aside(row.claim, row.attempt, dict(without_limits(row.vector)), row.terms, [])
        self.manager.recover(records, boot, out)
        return out

    def key(self) -> Hashable:
        return (self.manager.key(), self.book.key())

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.book = self.book.copy()
        twin.manager = self.manager.copy_with(twin.book)
        return twin

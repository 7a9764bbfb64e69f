"""A manager with a book that only counts, as one machine: for explorer, simulator and tests.

Each kind of protocol says which of its records are units that its book must know again after a restart.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any, Generic, Self, TypeVar, cast

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
from holdall.protocols.counting_book import QUARANTINE_TIMER, CapacityIs, CountingBook, Departed
from holdall.protocols.vocabulary import ClaimId, Terms

M = TypeVar("M", bound=Any)


class Alone(ABC, Generic[M]):
    """The machine. `manager` stands on `book`; `messages` are those that it takes."""

    def __init__(self, book: CountingBook, manager: M, messages: tuple[type, ...]) -> None:
        self.book = book
        self.manager: M = manager
        self._messages = messages

    @abstractmethod
    def units_of(self, record: Record) -> tuple[ClaimId, int, dict[str, int], Terms] | None:
        """Claim, number of the lease, units by pool, terms; None: the record is of nothing that has units."""

    def start(self) -> list[Effect]:
        """Nothing is kept."""
        return []

    def handle(self, event: Event) -> list[Effect]:
        """One event of the world, of a timer, or of another machine."""
        out: list[Effect] = []
        match event:
            case TimerFired(timer) if timer == QUARANTINE_TIMER:
                self.book.granting = True
                self.manager.capacity_changed(out)
            case TimerFired(timer):
                self.manager.fired(timer, out)
            case Received(_, ClockRead(wall_ms)):
                self.manager.clock_read(wall_ms)
            case Received(_, CapacityIs(pool, units)):
                self.book.change_capacity(pool, units)
                self.manager.capacity_changed(out, (pool,))
            case Received(_, Departed(claim, reason)):
                self.manager.departed(claim, out, reason)
            case Received(sender, message):
                if not isinstance(message, self._messages):
                    raise ProtocolViolation(f"{type(message).__name__} is no message to a manager")
                self.manager.receive(sender, message, out)
        return out

    def recover(self, records: Mapping[str, Record]) -> list[Effect]:
        """The book first, then the manager."""
        out: list[Effect] = []
        boot = cast("Boot", records[BOOT_KEY])
        if boot.quarantine_ms:
            self.book.granting = False
            out.append(SetTimer(QUARANTINE_TIMER, boot.quarantine_ms))
        for record in () if boot.kind == "lost" else records.values():
            held = self.units_of(record)
            if held is not None:
                claim, number, units, terms = held
                self.book.set_aside(claim, number, units, terms, [])
        self.manager.recover(records, boot, out)
        return out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (self.manager.key(), self.book.key())

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.book = self.book.copy()
        twin.manager = self.manager.copy_with(twin.book)
        twin._messages = self._messages
        return twin

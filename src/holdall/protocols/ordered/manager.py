"""The side of the pools: one line per pool, first come first served; all units of a lock at once.

Only the head of a line is served.
"""

from collections.abc import Hashable, Sequence
from typing import Self

import msgspec

from holdall.machine.contract import Address, Send
from holdall.protocols.by_pool.manager import Key
from holdall.protocols.by_pool.manager import Manager as ByPool
from holdall.protocols.by_pool.messages import Refused
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.ordered.messages import Lock, LockEntry


class Manager(ByPool[LockEntry]):
    """All pools of one node."""

    entry_type = LockEntry

    def __init__(self, node: str, epoch: int, book: Book, *, sweep_ms: int | None = None) -> None:
        super().__init__(node, epoch, book, sweep_ms=sweep_ms)
        self.lines: dict[str, dict[Key, None]] = {}
        """Pool -> waiting locks in order of arrival."""
        self._turn = 0

    def on_message(self, sender: Address, message: Lock, out: Effects) -> None:
        """A lock comes: in line, or served at once."""
        key = (message.claim, message.place)
        if not self.admits(sender, key, message.attempt, message.epoch, out):
            return
        lock = LockEntry(
            message.claim,
            message.attempt,
            message.place,
            message.pool,
            message.units,
            message.terms,
            turn=self._turn + 1,
        )
        if not message.wait and (self.lines.get(lock.pool) or self.wanted(lock) > self.free(lock.pool)):
            out.append(Send(sender, Refused(lock.claim, lock.attempt, lock.place, self.epoch, 0)))
            return
        self.put(lock, out)
        self.settle(lock.pool, out)

    def settle(self, pool: str, out: Effects) -> None:
        """Heads of the line while they fit."""
        line = self.lines.get(pool, {})
        while line and self.book.may_grant():
            key = next(iter(line))
            lock = self.entries[key]
            if self.wanted(lock) > self.free(pool):
                break
            del line[key]
            self.tell_held(self.hold(lock, out), out)
        if not line:
            self.lines.pop(pool, None)

    def entered(self, entry: LockEntry) -> None:
        """At the end of its line. After a restart entries come in order of their names, so the line is put in order."""
        if not entry.held:
            line = self.lines.setdefault(entry.pool, {})
            line[entry.claim, entry.place] = None
            if entry.turn < self._turn:
                turns = sorted(line, key=lambda key: self.entries[key].turn)
                self.lines[entry.pool] = dict.fromkeys(turns)
        self._turn = max(self._turn, entry.turn)

    def left(self, entry: LockEntry, out: Effects) -> None:
        """Out of its line."""
        del out
        self.lines.get(entry.pool, {}).pop((entry.claim, entry.place), None)

    def line(self, pool: str) -> Sequence[LockEntry]:
        """In order of arrival."""
        return [self.entries[key] for key in self.lines.get(pool, {})]

    def entries_key(self) -> Hashable:
        """Arrival numbers count only as an order."""
        order = sorted(self.entries.values(), key=lambda lock: lock.turn)
        return tuple(msgspec.structs.replace(lock, turn=0) for lock in order)

    def copy_with(self, book: Book) -> Self:
        """Its lines."""
        twin = super().copy_with(book)
        twin.lines = {pool: dict(line) for pool, line in self.lines.items()}
        return twin

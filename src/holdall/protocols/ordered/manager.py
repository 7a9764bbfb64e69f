"""The side of the pools: one line per pool, first come first served; all units of a lock at once.

Only the head of a line is served. Saved before a message tells of it: the place in line and the units before Locked,
the end before Unlocked.
"""

from collections.abc import Collection, Hashable, Mapping
from typing import Self, assert_never

import msgspec

from holdall.machine.contract import (
    Address,
    Boot,
    Forget,
    Record,
    Save,
    Send,
)
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.ordered.messages import (
    CLAIMANT,
    BuriedRecord,
    ExtendLock,
    Lessen,
    Lessened,
    Lock,
    Locked,
    LockExtended,
    LockGone,
    LockRecord,
    Refused,
    ToManager,
    Unlock,
    Unlocked,
    party,
)
from holdall.protocols.vocabulary import ALL, ClaimId

LOCK_PREFIX = "lock/"
BURIED_PREFIX = "buried/"

Key = tuple[ClaimId, int]
"""A lock: claim and place."""


class Manager:
    """All pools of one node. `book` names the units; its capacity counts."""

    def __init__(self, node: str, epoch: int, book: Book) -> None:
        self.node = node
        self.epoch = epoch
        self.book = book
        self.locks: dict[Key, LockRecord] = {}
        self.lines: dict[str, dict[Key, None]] = {}
        """Pool -> waiting locks in order of arrival."""
        self.used: dict[str, int] = {}
        self.buried: dict[Key, int] = {}
        self.quarantine_ms = 0
        self._turn = 0

    # The machine's side

    def recover(self, records: Mapping[str, Record], boot: Boot, out: Effects) -> None:
        """Held locks always; lines only when the journal is complete and the epoch the same. The book is up."""
        self.epoch = boot.epoch
        self.quarantine_ms = boot.quarantine_ms
        known = [records[key] for key in sorted(records)]
        for record in sorted((one for one in known if isinstance(one, LockRecord)), key=lambda one: one.turn):
            if record.held or boot.kind == "same":
                self._put(record)
            else:
                out.append(Forget(_key_of(record)))
        for buried in known:
            if isinstance(buried, BuriedRecord):
                self.buried[buried.claim, buried.place] = buried.attempt

    def receive(self, sender: Address, message: ToManager, out: Effects) -> None:
        """One message and its whole turn."""
        match message:
            case Lock():
                self._lock(sender, message, out)
            case Unlock(claim, attempt, place, _):
                self._end((claim, place), attempt, out)
                out.append(Send(sender, Unlocked(claim, attempt, place)))
            case Lessen():
                self._lessen(sender, message, out)
            case ExtendLock(claim, attempt, place, _, for_ms):
                lock = self.locks.get((claim, place))
                held = lock is not None and lock.held and lock.attempt == attempt
                ok = held and self.book.extend(claim, party(attempt, place), for_ms, out)
                out.append(Send(sender, LockExtended(claim, attempt, place, for_ms, ok)))
            case _:
                assert_never(message)

    def fired(self, timer: str, out: Effects) -> bool:
        """The manager sets no timers of its own."""
        return False

    def clock_read(self, wall_ms: int) -> None:
        """Order of arrival needs no clock."""

    def key(self) -> Hashable:
        """Arrival numbers count only as an order."""
        order = sorted(self.locks.values(), key=lambda lock: lock.turn)
        return (
            self.epoch,
            self.quarantine_ms,
            tuple(msgspec.structs.replace(lock, turn=0) for lock in order),
            tuple(sorted(self.buried.items())),
        )

    def copy_with(self, book: Book) -> Self:
        """An independent twin over the copied book."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.book = book
        twin.locks = dict(self.locks)
        twin.lines = {pool: dict(line) for pool, line in self.lines.items()}
        twin.used = dict(self.used)
        twin.buried = dict(self.buried)
        return twin

    # The lease book

    def capacity_changed(self, out: Effects, pools: Collection[str] = ()) -> None:
        """Units of these pools (none named: of any) have left or come back, or the quarantine is over."""
        if self.book.may_grant():
            self.quarantine_ms = 0
        for pool in sorted(pools or self.lines):
            self._serve(pool, out)

    def departed(self, claim: ClaimId, out: Effects, reason: str = "expired") -> None:
        """The claim's lease is over: all its locks here end, and its claimant is told."""
        mine = sorted(key for key in self.locks if key[0] == claim)
        for key in mine:
            lock = self.locks[key]
            self._end(key, lock.attempt, out)
            out.append(Send(Address(claim.node, CLAIMANT), LockGone(claim, lock.attempt, reason)))

    # Locks

    def _lock(self, sender: Address, asked: Lock, out: Effects) -> None:
        key = (asked.claim, asked.place)
        lock = self.locks.get(key)
        if asked.attempt <= self.buried.get(key, 0):
            # Overtaken by its own Unlock: then nobody listens. Or its lease ran out here, and the word of it was lost.
            out.append(Send(sender, LockGone(asked.claim, asked.attempt, "over")))
            return
        if lock is not None and lock.attempt >= asked.attempt:
            if lock.held and lock.attempt == asked.attempt:
                self._tell(lock, out)  # the answer was lost
            return
        if lock is not None:
            self._end(key, lock.attempt, out)  # a new attempt ends the one before
        if asked.epoch != self.epoch or not self.book.may_grant():
            out.append(
                Send(sender, Refused(asked.claim, asked.attempt, asked.place, self.epoch, self.quarantine_ms))
            )
            return
        made = LockRecord(
            asked.claim, asked.attempt, asked.place, asked.pool, asked.units, asked.terms, self._turn + 1
        )
        if not asked.wait and (self.lines.get(asked.pool) or not self._fits(made)):
            out.append(Send(sender, Refused(asked.claim, asked.attempt, asked.place, self.epoch, 0)))
            return
        self._put(made)
        if not self._serve(asked.pool, out):
            out.append(Save(_key_of(made), made))

    def _lessen(self, sender: Address, asked: Lessen, out: Effects) -> None:
        key = (asked.claim, asked.place)
        lock = self.locks.get(key)
        if lock is None or not lock.held or lock.attempt != asked.attempt:
            return  # the lock is over; its claimant hears of it by Unlocked or LockGone
        if asked.units < lock.units:
            self.used[lock.pool] -= lock.units - asked.units
            lock = msgspec.structs.replace(lock, units=asked.units)
            self.locks[key] = lock
            out.append(Save(_key_of(lock), lock))
            keep = {lock.pool: asked.units}
            self.book.give_back(asked.claim, party(lock.attempt, lock.place), keep, out, asked.named)
            self._serve(lock.pool, out)
        kept = self.book.units(asked.claim, party(lock.attempt, lock.place))
        out.append(Send(sender, Lessened(asked.claim, asked.attempt, asked.place, kept)))

    # Lines

    def _put(self, lock: LockRecord) -> None:
        key = (lock.claim, lock.place)
        self._turn = max(self._turn, lock.turn)
        self.locks[key] = lock
        if lock.held:
            self.used[lock.pool] = self.used.get(lock.pool, 0) + lock.units
        else:
            self.lines.setdefault(lock.pool, {})[key] = None

    def _fits(self, lock: LockRecord) -> bool:
        free = self.book.capacity(lock.pool) - self.used.get(lock.pool, 0)
        return self._units(lock) <= free

    def _units(self, lock: LockRecord) -> int:
        return max(1, self.book.capacity(lock.pool)) if lock.units == ALL else lock.units

    def _serve(self, pool: str, out: Effects) -> bool:
        """Heads of the line while they fit. True when the last in line was served, too."""
        line = self.lines.get(pool, {})
        while line and self.book.may_grant():
            key = next(iter(line))
            lock = self.locks[key]
            if not self._fits(lock):
                break
            del line[key]
            lock = msgspec.structs.replace(lock, held=True, units=self._units(lock))
            self.locks[key] = lock
            self.used[pool] = self.used.get(pool, 0) + lock.units
            out.append(Save(_key_of(lock), lock))
            self.book.set_aside(
                lock.claim, party(lock.attempt, lock.place), {pool: lock.units}, lock.terms, out
            )
            self.book.book(lock.claim, party(lock.attempt, lock.place), out)
            self._tell(lock, out)
        if line:
            return False
        self.lines.pop(pool, None)
        return True

    def _tell(self, lock: LockRecord, out: Effects) -> None:
        units = self.book.units(lock.claim, party(lock.attempt, lock.place))
        locked = Locked(lock.claim, lock.attempt, lock.place, units, self.epoch)
        out.append(Send(Address(lock.claim.node, CLAIMANT), locked))

    def _end(self, key: Key, attempt: int, out: Effects) -> None:
        """Bury the lock up to this attempt, and free what it has."""
        if attempt > self.buried.get(key, 0):
            self.buried[key] = attempt
            out.append(Save(f"{BURIED_PREFIX}{key[0]}/{key[1]}", BuriedRecord(key[0], key[1], attempt)))
        lock = self.locks.get(key)
        if lock is None or lock.attempt > attempt:
            return
        del self.locks[key]
        out.append(Forget(_key_of(lock)))
        if lock.held:
            self.used[lock.pool] -= lock.units
            self.book.give_back(lock.claim, party(lock.attempt, lock.place), {}, out)
        else:
            self.lines[lock.pool].pop(key, None)
        self._serve(lock.pool, out)


def _key_of(lock: LockRecord) -> str:
    return f"{LOCK_PREFIX}{lock.claim}/{lock.place}"

"""What a manager keeps beside its rows, and how it comes up again. Source: chain specification, section 7."""

from collections.abc import Hashable, Mapping
from typing import Self

import msgspec

from holdall.machine.contract import Boot, Forget, Record, Save, SetTimer
from holdall.protocols.chain.rows import Killing, Mem, Row, Tombstone, is_limit_pool
from holdall.protocols.chain.settling import DEFAULT_SETTINGS, ROW_KEY, Settings, Settler
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.vocabulary import ClaimId, Stamp, claim_named

MEM_KEY = "mem/"
BURIED_KEY = "buried/"
SWEEP_TIMER = "sweep"


class Restarting(Settler):
    """A settler with memory of killed attempts, tombstones of ended ones, and recovery from its records."""

    def __init__(self, node: str, epoch: int, book: Book, settings: Settings = DEFAULT_SETTINGS) -> None:
        super().__init__(node, epoch, book, settings)
        self.quarantine_ms = 0
        """How long a quarantine lasts that was in force when this came up."""
        self.mem: dict[ClaimId, Mem] = {}
        self.buried: dict[ClaimId, int] = {}
        self.refused: dict[ClaimId, tuple[int, Stamp | None]] = {}
        """Attempts refused in quarantine, with their ages, to be told when it ends: a hint, not a queue."""
        self.aged: set[ClaimId] = set()
        """Tombstones that have seen a sweep already."""

    def copy_with(self, book: Book) -> Self:
        twin = super().copy_with(book)
        twin.mem = self.mem.copy()
        twin.buried = self.buried.copy()
        twin.refused = self.refused.copy()
        twin.aged = self.aged.copy()
        return twin

    def key(self) -> Hashable:
        """What future behaviour depends on, the book apart."""
        return (
            self.epoch,
            self.clock,
            tuple(self.rows[claim] for claim in sorted(self.rows)),
            tuple(sorted(self.mem.items())),
            tuple(sorted(self.buried.items())),
            tuple(sorted(self.refused.items())),
            tuple(sorted(self.aged)),
        )

    # Of which attempt?

    def row_of(self, claim: ClaimId, attempt: int) -> Row | None:
        row = self.rows.get(claim)
        return row if row is not None and row.attempt == attempt else None

    def mem_of(self, claim: ClaimId, attempt: int) -> Mem | None:
        mem = self.mem.get(claim)
        return mem if mem is not None and mem.attempt == attempt else None

    def is_over(self, claim: ClaimId, attempt: int) -> bool:
        """Whether the attempt is buried, or a newer one has been seen."""
        if attempt <= self.buried.get(claim, 0):
            return True
        row, mem = self.rows.get(claim), self.mem.get(claim)
        return (row is not None and row.attempt > attempt) or (mem is not None and mem.attempt > attempt)

    # Memory and tombstones

    def keep_mem(self, claim: ClaimId, mem: Mem, out: Effects) -> None:
        self.mem[claim] = mem
        out.append(Save(f"{MEM_KEY}{claim}", mem))

    def forget_mem(self, claim: ClaimId, out: Effects) -> None:
        if self.mem.pop(claim, None) is not None:
            out.append(Forget(f"{MEM_KEY}{claim}"))

    def bury(self, claim: ClaimId, attempt: int, out: Effects) -> None:
        """The attempt and all before it are over for ever."""
        if attempt <= self.buried.get(claim, 0):
            return
        if not self.buried:
            self._arm_sweep(out)
        self.buried[claim] = attempt
        self.aged.discard(claim)  # the tombstone of an earlier attempt has seen that sweep, this one has not
        out.append(Save(f"{BURIED_KEY}{claim}", Tombstone(attempt)))

    def dig_up(self, claim: ClaimId, out: Effects) -> None:
        """No message of the claim can come any more."""
        self.aged.discard(claim)
        if self.buried.pop(claim, None) is not None:
            out.append(Forget(f"{BURIED_KEY}{claim}"))

    def swept(self, timer: str, out: Effects) -> bool:
        """The sweep's timer: drop the tombstones that have seen one sweep. False: another timer."""
        if timer != SWEEP_TIMER:
            return False
        for claim in sorted(self.aged):
            self.dig_up(claim, out)
        self.aged = set(self.buried)
        if self.buried:
            self._arm_sweep(out)
        return True

    def _arm_sweep(self, out: Effects) -> None:
        if self.settings.sweep_ms is not None:
            out.append(SetTimer(SWEEP_TIMER, self.settings.sweep_ms))

    # Up again

    def recover(self, records: Mapping[str, Record], boot: Boot, out: Effects) -> None:
        """Come up from the records of earlier turns; the book is up already.

        Process died ("same"): everything goes on. Another kernel boot ("reboot"): rows that hold units and
        tombstones stay, the queue and the memory of kills go, and the epoch is another. "lost": nothing is left.
        """
        self.epoch = boot.epoch
        self.quarantine_ms = boot.quarantine_ms
        for name in sorted(records):
            record = records[name]
            if isinstance(record, Row):
                self.clock = max(self.clock, record.stamp.clock)
            if boot.kind == "lost" or (boot.kind == "reboot" and _goes_with_the_queue(record)):
                if name.startswith((ROW_KEY, MEM_KEY, BURIED_KEY)):
                    out.append(Forget(name))
            elif name.startswith(ROW_KEY) and isinstance(record, Row):
                self._recover_row(record)
            elif name.startswith(MEM_KEY) and isinstance(record, Mem):
                self.mem[claim_named(name.removeprefix(MEM_KEY))] = record
            elif name.startswith(BURIED_KEY) and isinstance(record, Tombstone):
                self.buried[claim_named(name.removeprefix(BURIED_KEY))] = record.attempt
        if self.buried:
            self._arm_sweep(out)
        for claim in sorted(self.rows):
            row = self.rows[claim]
            if row.active and not row.last:
                self.promote(row, out)
        self.look_at(())
        self.settle(out)

    def _recover_row(self, record: Row) -> None:
        # A Kill that was under way may be lost: the first look at whom to call back sends it again.
        row = msgspec.structs.replace(record, kill=Killing.NO)
        self.limited = self.limited or any(is_limit_pool(pool) for pool, _ in (*row.most, *row.vector))
        if row.active:
            self.rows[row.claim] = row
            self.take(row)
        else:
            self.insert(row)


def _goes_with_the_queue(record: Record) -> bool:
    return isinstance(record, Mem) or (isinstance(record, Row) and not record.active)

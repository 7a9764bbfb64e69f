"""The side of the pools: a clock and a line per pool. Source: lanes specification, sections 2.4 and 2.7.

Saved before a view shows it: an entry whose units are set aside or granted. After a restart the clock is the largest
index of the entries that are kept: one that was granted at an index must never be followed by a smaller one.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import msgspec

from holdall.machine.contract import Address, Boot, CancelTimer, Record, Send, SetTimer
from holdall.protocols.by_pool.manager import Manager as ByPool
from holdall.protocols.by_pool.messages import PlaceGone, Refused
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.lanes.line import Line
from holdall.protocols.lanes.messages import HOLDS, LaneEntry, Stage, Standing, Status, View
from holdall.protocols.vocabulary import ClaimId, claim_named

AGAIN = "again"
"""Of the timers after which a grant is told once more, one for each entry: AGAIN/claim/place."""


class Manager(ByPool[LaneEntry]):
    """All pools of one node."""

    entry_type = LaneEntry

    def __init__(
        self,
        node: str,
        epoch: int,
        book: Book,
        *,
        sweep_ms: int | None = None,
        again_ms: int | None = None,
    ) -> None:
        """`again_ms`: a grant is told again so long after, until its claimant is known to know it; None: never."""
        super().__init__(node, epoch, book, sweep_ms=sweep_ms)
        self.again_ms = again_ms
        self.clocks: dict[str, int] = {}
        """Pool -> the largest index that it has proposed, or heard to be final (promise pointer, `pp`)."""
        self.lines: dict[str, Line] = {}
        """Pool -> open and queued entries."""

    # ------------------------------------------------------------ forms

    def ignores(self, message: Any) -> bool:
        """Forms of an attempt that has been followed by another: its claimant waits for no answer to them."""
        if not isinstance(message, Standing):
            return False
        key = (message.claim, message.place)
        entry = self.entries.get(key)
        newest = max(self.buried.get(key, 0), 0 if entry is None else entry.attempt)
        return message.attempt < newest

    def on_message(self, sender: Address, message: Standing, out: Effects) -> None:
        """One form of a claim."""
        if self.ignores(message):
            return
        if message.stage is Stage.ASK:
            self._asked(sender, message, out)
        else:
            self._final(sender, message, out)

    def _asked(self, sender: Address, asked: Standing, out: Effects) -> None:
        """Propose the next index; set the units aside if nobody known is delayed by that."""
        key = (asked.claim, asked.place)
        entry = self.entries.get(key)
        if entry is not None and entry.attempt == asked.attempt:
            self.tell_held(entry, out)
            return
        if not self.admits(sender, key, asked.attempt, asked.epoch, out):
            return
        index = self.clocks.get(asked.pool, 0) + 1
        entry = LaneEntry(
            asked.claim,
            asked.attempt,
            asked.place,
            asked.pool,
            asked.units,
            asked.terms,
            index=index,
            asked=asked.units,
        )
        fits = self.fits_aside(entry)
        if not fits and not asked.wait:
            out.append(Send(sender, Refused(entry.claim, entry.attempt, entry.place, self.epoch, 0)))
            return
        self.clocks[asked.pool] = index
        self.put(entry, out)
        if fits:
            # Who has no other place is granted by that.
            self.tell_held(self.become(entry, Status.ASIDE, out, booked=asked.single), out)
        elif asked.single:
            self.tell_held(self.become(entry, Status.QUEUED, out), out)
        else:
            self.tell_held(entry, out)

    def _final(self, sender: Address, final: Standing, out: Effects) -> None:
        """The lane's index: never insert, never go back; what was set aside returns to the order."""
        key = (final.claim, final.place)
        entry = self.entries.get(key)
        lost = entry is None or entry.attempt < final.attempt
        if entry is None or lost or (entry.status <= Status.ASIDE and final.n < entry.index):
            # To insert it at its old index would bring it before claims that have been granted meanwhile.
            self.end(key, final.attempt, out)
            out.append(Send(sender, PlaceGone(final.claim, final.attempt, "over")))
            return
        if final.seen is not None and final.seen[:2] == (Status.GRANTED, entry.turn):
            entry = self._hear(entry, out)
        before = entry
        if entry.status <= Status.ASIDE or final.n > entry.index:
            self.clocks[entry.pool] = max(self.clocks[entry.pool], final.n)
            entry = self.become(entry, Status.QUEUED, out, index=final.n)
        entry = self.wished(entry, final, out)
        if entry is not before:
            self.settle(entry.pool, out)
        heard_late = entry is not before and entry.held
        known = final.epoch == self.epoch and final.seen == (entry.status, entry.turn, entry.hint)
        if self.entries[key] is entry and ((final.answer and not known) or heard_late):
            # A grant that is wanted back before it was lent is there still, and told again as such.
            self.tell_held(entry, out)

    def wished(self, entry: LaneEntry, final: Standing, out: Effects) -> LaneEntry:
        """What the claim wants of its place in the lane, where lanes lend: the entry as it is after that."""
        del final, out
        return entry

    def fits_aside(self, entry: LaneEntry) -> bool:
        """Whether its units are free even when everybody known here has all that it wants."""
        if not self.book.may_grant():
            return False
        capacity = self.book.capacity(entry.pool)
        line = self.lines.get(entry.pool)
        waiting = 0 if line is None else line.wanted(capacity)
        return self.used.get(entry.pool, 0) + waiting + self.wanted(entry) <= capacity

    def settle(self, pool: str, out: Effects) -> None:
        """Grant in order: each queued one for which units are left when all before it have theirs kept."""
        if not self.book.may_grant():
            return
        before, free = 0, self.free(pool)
        granted: list[LaneEntry] = []
        for key in self.lines.get(pool, ()):
            if before >= free:
                break
            entry = self.entries[key]
            wanted = self.wanted(entry)
            if entry.status is Status.QUEUED and before + wanted <= free:
                free -= wanted
                granted.append(entry)
            else:
                before += wanted
        for entry in granted:
            given = self.become(entry, Status.GRANTED, out)
            self.tell_held(given, out)
            self._tell_again(given, out)

    # ------------------------------------------------------------ entries

    def become(
        self, entry: LaneEntry, status: Status, out: Effects, *, index: int = 0, booked: bool = False
    ) -> LaneEntry:
        """Another status, and another index if one is given; its units are set aside or given back with that."""
        self._out_of_line(entry)
        if status is not Status.GRANTED:
            self._stop_telling(entry, out)
        heard = entry.heard and status is Status.GRANTED
        new = msgspec.structs.replace(entry, status=status, index=index or entry.index, heard=heard)
        holds = status in HOLDS
        if holds and not entry.held:
            line = self.lines.get(new.pool)
            self.gets_ahead(new.pool, 0 if line is None else line.before(new))
            new = self.hold(new, out, booked=booked)
        elif entry.held and not holds:
            new = msgspec.structs.replace(self.unhold(new, out), units=entry.asked)
            self.replace(new, out)
        else:
            self.replace(new, out)
        if not holds:
            self.lines.setdefault(new.pool, Line()).enter(new)
        return new

    def entered(self, entry: LaneEntry) -> None:
        """Into its line; the clock is never behind an entry that is here."""
        self.clocks[entry.pool] = max(self.clocks.get(entry.pool, 0), entry.index)
        if not entry.held:
            self.lines.setdefault(entry.pool, Line()).enter(entry)

    def left(self, entry: LaneEntry, out: Effects) -> None:
        """Out of its line."""
        self._stop_telling(entry, out)
        self._out_of_line(entry)

    def confirmed(self, claim: ClaimId, attempt: int, out: Effects) -> None:
        """The claim is inside (stage `hold`): what was set aside for it is granted."""
        for entry in self.of_claim(claim):
            if entry.attempt == attempt:
                aside = entry.status in {Status.ASIDE, Status.TRIED}
                self._hear(self.become(entry, Status.GRANTED, out) if aside else entry, out)
        super().confirmed(claim, attempt, out)

    def own_timer(self, timer: str, out: Effects) -> bool:
        """Nobody has said that a grant is known: the view may be lost."""
        kind, _, name = timer.partition("/")
        claim, _, place = name.rpartition("/")
        if kind != AGAIN:
            return False
        entry = self.entries.get((claim_named(claim), int(place)))
        if entry is not None and entry.status is Status.GRANTED and not entry.heard:
            self.tell_held(entry, out)
            self._tell_again(entry, out)
        return True

    def own_recover(self, records: Mapping[str, Record], boot: Boot, out: Effects) -> None:
        """Views of before may be lost."""
        super().own_recover(records, boot, out)
        for key in sorted(self.entries):
            if self.entries[key].status is Status.GRANTED and not self.entries[key].heard:
                self._tell_again(self.entries[key], out)

    def _tell_again(self, entry: LaneEntry, out: Effects) -> None:
        if self.again_ms is not None:
            out.append(SetTimer(_again(entry), self.again_ms, self.again_ms // 4))

    def _stop_telling(self, entry: LaneEntry, out: Effects) -> None:
        if self.again_ms is not None and entry.status is Status.GRANTED and not entry.heard:
            out.append(CancelTimer(_again(entry)))

    def _hear(self, entry: LaneEntry, out: Effects) -> LaneEntry:
        """Its claimant knows of its grant."""
        if entry.status is not Status.GRANTED or entry.heard:
            return entry
        self._stop_telling(entry, out)
        entry = msgspec.structs.replace(entry, heard=True)
        self.entries[entry.claim, entry.place] = entry
        return entry

    def tell_held(self, entry: LaneEntry, out: Effects) -> None:
        """All that the entry is, with its units or without."""
        units = self.units(entry) if entry.held else ()
        view = View(
            entry.claim,
            entry.attempt,
            entry.place,
            entry.status,
            entry.index,
            units,
            self.epoch,
            entry.turn,
            entry.hint,
        )
        self.tell(entry.claim, view, out)

    def line(self, pool: str) -> Sequence[LaneEntry]:
        """In the order of lanes."""
        return [self.entries[key] for key in self.lines.get(pool, ())]

    def own_key(self) -> Hashable:
        """The clocks."""
        return tuple(sorted(self.clocks.items()))

    def copy_with(self, book: Book) -> Self:
        """Clocks and lines."""
        twin = super().copy_with(book)
        twin.clocks = self.clocks.copy()
        twin.lines = {pool: line.copy() for pool, line in self.lines.items()}
        return twin

    def _out_of_line(self, entry: LaneEntry) -> None:
        line = self.lines.get(entry.pool)
        if line is not None:
            line.leave(entry)
            if not line:
                del self.lines[entry.pool]


def _again(entry: LaneEntry) -> str:
    return f"{AGAIN}/{entry.claim}/{entry.place}"

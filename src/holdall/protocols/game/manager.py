"""The side of the pools: takes forms, keeps each pool's board, and shows each claim its own sums when they matter to it.

A view is sent when a form has come, and when one of the claim's guards at this pool has changed. The units of a request
that is within the free units (and marked, in the complete variant) are set aside with the view that shows it: nobody
comes before it any more, so its claim may decide on that. Source: game specification, sections 1, 5 (fast path) and 6.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeAlias

import msgspec

from holdall.machine.contract import Address, Record, Send
from holdall.protocols.by_pool.manager import Key
from holdall.protocols.by_pool.manager import Manager as ByPool
from holdall.protocols.by_pool.messages import RESTARTED, End, PlaceGone, Refused
from holdall.protocols.game.board import Ahead, Board, Sums
from holdall.protocols.game.messages import Advance, Form, GameEntry, Rules, Stage, View
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.vocabulary import ClaimId

Facts: TypeAlias = tuple[bool, bool, bool, bool]
"""What a claim's guards say at a pool: its door is closed, (p2), (p4), its units are set aside."""


class Manager(ByPool[GameEntry]):
    """All pools of one node."""

    entry_type = GameEntry

    def __init__(
        self, node: str, epoch: int, book: Book, *, rules: Rules, sweep_ms: int | None = None
    ) -> None:
        super().__init__(node, epoch, book, sweep_ms=sweep_ms)
        self.rules = rules
        self.boards: dict[str, Board] = {}
        self.ended: dict[Key, int] = {}
        """Place -> attempt up to which its own claim has ended it: nobody listens to what is said about that."""
        self.refused: tuple[Key, ...] = ()
        """Winning forms that found no units set aside: a property says that there are none."""

    # ------------------------------------------------------------ forms

    def receive(self, sender: Address, message: Any, out: Effects) -> None:
        """As all managers by pool do; who has ended itself is not answered any more."""
        if isinstance(message, End):
            key = (message.claim, message.place)
            self.ended[key] = max(message.attempt, self.ended.get(key, 0))
        super().receive(sender, message, out)

    def fired(self, timer: str, out: Effects) -> bool:
        """With the tombstones goes what is known of who has ended them."""
        known = super().fired(timer, out)
        self.ended = {key: attempt for key, attempt in self.ended.items() if key in self.buried}
        return known

    def forget(self, claim: ClaimId) -> None:
        """With its ends."""
        super().forget(claim)
        self.ended = {key: attempt for key, attempt in self.ended.items() if key[0] != claim}

    def renumber(self) -> None:
        """Nothing is in flight, and claims have done the same: rounds and views are counted from the first one again."""
        for key, entry in self.entries.items():
            self.entries[key] = msgspec.structs.replace(entry, round=min(entry.round, 1), n=min(entry.n, 1))

    def ignores(self, message: Any) -> bool:
        """Forms of claims that have ended here, and those that are older than what is known.

        Should the entry end by its lease later, it has been told so: to hear it twice makes no difference.
        """
        if not isinstance(message, Form | Advance):
            return False
        key = (message.claim, message.place)
        if message.attempt <= self.ended.get(key, 0):
            return True
        entry = self.entries.get(key)
        if entry is None or message.attempt != entry.attempt:
            return entry is not None and message.attempt < entry.attempt
        if isinstance(message, Advance):
            return message.round < entry.round or entry.stage >= Stage.WON
        return (message.round, message.stage) < (entry.round, entry.stage)

    def on_message(self, sender: Address, message: Form | Advance, out: Effects) -> None:
        """One form of a claim."""
        if message.attempt <= self.ended.get((message.claim, message.place), 0):
            return
        if isinstance(message, Advance):
            self._advance(message, out)
            return
        entry = self.entries.get((message.claim, message.place))
        if entry is None or entry.attempt < message.attempt:
            self._first(sender, message, out)
        elif entry.attempt == message.attempt:
            self._next(sender, entry, message, out)

    def _first(self, sender: Address, form: Form, out: Effects) -> None:
        """Registers; what can only follow a view of this pool says that the pool has lost what it showed."""
        key = (form.claim, form.place)
        if form.stage > Stage.TENTATIVE:
            over = form.attempt <= self.buried.get(key, 0)
            out.append(Send(sender, PlaceGone(form.claim, form.attempt, "over" if over else RESTARTED)))
            return
        if not self.admits(sender, key, form.attempt, form.epoch, out):
            return
        board = self.boards.setdefault(form.pool, Board())
        entry = GameEntry(
            form.claim,
            form.attempt,
            form.place,
            form.pool,
            form.units,
            form.terms,
            round=form.round,
            stage=form.stage,
            number=form.number,
            asked=form.units,
            door=board.serial,
        )
        alone = form.stage is Stage.TENTATIVE and self._is_alone(board, entry)
        if not form.wait and not alone:
            if not board:
                del self.boards[form.pool]
            out.append(Send(sender, Refused(form.claim, form.attempt, form.place, self.epoch, 0)))
            return
        if alone:
            entry = msgspec.structs.replace(entry, turn=board.turn + 1, marked=True)
        self.put(entry, out)
        self.settle(entry.pool, out)

    def _next(self, sender: Address, entry: GameEntry, form: Form, out: Effects) -> None:
        """A form that is newer than all before it; one that is not is answered if it is the newest itself."""
        now, told = (form.round, form.stage), (entry.round, entry.stage)
        if now < told:
            return
        if now == told:
            self._show_again(entry, out)
        elif form.stage >= Stage.WON:
            self._won(sender, entry, form, out)
        elif self._is_lost(entry, form):
            self._gone(sender, entry, out)
        else:
            entry = self._moved(entry, form, out)
            self.replace(entry, out)
            self._place(entry)
            self.settle(entry.pool, out)

    def _is_lost(self, entry: GameEntry, form: Form) -> bool:
        """An order form without its request: a request is seen before it is ordered."""
        return form.stage is Stage.ORDERED and (entry.round < form.round or not entry.turn)

    def _gone(self, sender: Address, entry: GameEntry, out: Effects) -> None:
        self.end((entry.claim, entry.place), entry.attempt, out)
        out.append(Send(sender, PlaceGone(entry.claim, entry.attempt, RESTARTED)))

    def _moved(self, entry: GameEntry, form: Form, out: Effects) -> GameEntry:
        """The entry with all that the form states; requests of earlier rounds go first."""
        board = self.boards[entry.pool]
        if form.round > entry.round:
            if entry.held:
                entry = msgspec.structs.replace(self.unhold(entry, out), units=entry.asked)
            entry = msgspec.structs.replace(entry, turn=0, marked=False)
        changes: dict[str, object] = {"round": form.round, "stage": form.stage, "n": 0, "shown": 0}
        if form.stage >= Stage.ADMITTED and not entry.serial:
            changes |= {"serial": board.serial + 1, "door": 0}
        if form.stage >= Stage.REQUESTED and not entry.turn:
            changes["turn"] = board.turn + 1
        if form.stage is Stage.ORDERED:
            changes["marked"] = True
        return msgspec.structs.replace(entry, **changes)

    def _won(self, sender: Address, entry: GameEntry, form: Form, out: Effects) -> None:
        """Book (winning form); with `at_once` its admission goes with that, else with the form that says LEFT."""
        if not entry.held or entry.round != form.round:
            if entry.round <= form.round:
                self.refused = (*self.refused, (entry.claim, entry.place))
                self._gone(sender, entry, out)
            return
        self._book(entry, form.stage, out)

    def _book(self, entry: GameEntry, stage: Stage, out: Effects) -> None:
        leaves = self.rules.at_once or stage is Stage.LEFT
        changes: dict[str, object] = {"stage": stage, "turn": 0, "marked": False, "n": 0, "shown": 0}
        if leaves:
            changes["serial"] = 0
        entry = msgspec.structs.replace(entry, **changes)
        self.replace(entry, out)
        self.book_it(entry, out)
        self._place(entry)
        self._show_again(entry, out)
        self.settle(entry.pool, out)

    def confirmed(self, claim: ClaimId, attempt: int, out: Effects) -> None:
        """The claim is inside: as its winning form."""
        for entry in list(self.of_claim(claim)):
            if entry.held and entry.attempt == attempt and entry.stage < Stage.WON:
                self._book(entry, Stage.WON, out)
            elif entry.held and entry.attempt == attempt:
                self.book_it(entry, out)

    def _advance(self, asked: Advance, out: Effects) -> None:
        """Past named requests right before it that are not marked and of lower priority."""
        key = (asked.claim, asked.place)
        entry = self.entries.get(key)
        if entry is None or (entry.attempt, entry.round) != (asked.attempt, asked.round) or not entry.turn:
            return
        board = self.boards[entry.pool]
        before = list(board.queue)
        at = to = before.index(key)
        while to and self._passes(entry, self.entries[before[to - 1]], asked.passes):
            to -= 1
        if to == at:
            return
        board.pass_by(key, before[to:at])
        for one in before[to : at + 1]:
            self.replace(msgspec.structs.replace(self.entries[one], turn=board.queue[one]), out)
        self.settle(entry.pool, out)

    def _passes(self, entry: GameEntry, before: GameEntry, named: tuple[ClaimId, ...]) -> bool:
        return before.claim in named and not before.marked and before.ticket > entry.ticket

    def _is_alone(self, board: Board, entry: GameEntry) -> bool:
        """The rule of the tentative request: nobody is admitted, nobody has a request, and the units are free."""
        alone = not board.admitted and not board.queue
        return alone and self.book.may_grant() and self.wanted(entry) <= self.free(entry.pool)

    # ------------------------------------------------------------ views

    def settle(self, pool: str, out: Effects) -> None:
        """Set aside what is entitled, then show everybody whose guards have changed."""
        board = self.boards.get(pool)
        if board is None:
            return
        board.open()
        free = self._unwon(board, pool)
        if self.book.may_grant():
            self._set_aside(board, pool, free, out)
        room = self.book.capacity(pool)
        ahead = Ahead(room)
        room = room if self.rules.keeps_place else free
        for key, sums in board.requests(self.entries, self.wanted, ahead, complete=self.rules.complete):
            entry = self.entries[key]
            self._tell_if_new(entry, self._facts(entry, sums, free, room), out)
        for key, closed, fits in board.others(self.entries, self.wanted, ahead, room):
            entry = self.entries[key]
            if closed:
                self._tell_if_new(entry, (True, False, False, False), out)
                board.wait_outside(key, entry)
            elif entry.shown != (OPEN_AND_FITS if fits else OPEN):
                self._tell_if_new(entry, (False, fits, False, False), out)
        if not board:
            del self.boards[pool]

    def _unwon(self, board: Board, pool: str) -> int:
        """Free as the guards see it: what is set aside for requests is in the queue, within what there is."""
        ahead, held, capacity = 0, 0, self.book.capacity(pool)
        for key in board.queue:
            entry = self.entries[key]
            held += entry.units if entry.held else 0
            ahead += self.wanted(entry)
            if ahead > capacity and held >= self.used.get(pool, 0):
                break
        return self.free(pool) + held

    def _set_aside(self, board: Board, pool: str, free: int, out: Effects) -> None:
        ahead = 0
        for key in board.queue:
            entry = self.entries[key]
            units = self.wanted(entry)
            if ahead + units > free:
                return
            ahead += units
            if not entry.held and self.is_entitled(entry) and units <= self.free(pool):
                waiting = self.line(pool)
                self.gets_ahead(pool, sum(other.ticket < entry.ticket for other in waiting))
                self.hold(entry, out)

    def is_entitled(self, entry: GameEntry) -> bool:
        """Whether nobody comes before its request any more."""
        return entry.marked or not self.rules.complete

    def _facts(self, entry: GameEntry, sums: Sums, free: int, room: int) -> Facts:
        wants = self.wanted(entry)
        first = self.rules.complete and entry.stage >= Stage.REQUESTED and sums.first(wants, free)
        return sums.door, sums.fits(wants, room), first, entry.held

    def _tell_if_new(self, entry: GameEntry, facts: Facts, out: Effects) -> None:
        bits = _bits(facts)
        if bits != entry.shown:
            entry = msgspec.structs.replace(entry, shown=bits, n=entry.n + 1)
            self.replace(entry, out)
            self._show(entry, facts, out)

    def _show(self, entry: GameEntry, facts: Facts, out: Effects) -> None:
        door, fits, first, held = facts
        board = self.boards[entry.pool]
        view = View(
            entry.claim,
            entry.attempt,
            entry.place,
            self.epoch,
            entry.round,
            entry.stage,
            entry.n,
            door,
            fits,
            first,
            self.units(entry) if held else (),
            () if held else board.blockers((entry.claim, entry.place)),
            board.clock,
        )
        self.tell(entry.claim, view, out)

    def _show_again(self, entry: GameEntry, out: Effects) -> None:
        """The newest view once more; a winner's is its own standing only."""
        if entry.stage < Stage.WON:
            self._show(entry, _facts_in(entry.shown), out)
            return
        view = View(
            entry.claim,
            entry.attempt,
            entry.place,
            self.epoch,
            entry.round,
            entry.stage,
            0,
            units=self.units(entry),
        )
        self.tell(entry.claim, view, out)

    # ------------------------------------------------------------ boards

    def _place(self, entry: GameEntry) -> None:
        """On its pool's board as it is now."""
        board = self.boards.setdefault(entry.pool, Board())
        board.enter((entry.claim, entry.place), entry, won=entry.stage >= Stage.WON)

    def entered(self, entry: GameEntry) -> None:
        """New, or back after a restart."""
        self._place(entry)

    def left(self, entry: GameEntry, out: Effects) -> None:
        """Its registration, admission and request go."""
        del out
        board = self.boards.get(entry.pool)
        if board is not None:
            board.leave((entry.claim, entry.place))

    def line(self, pool: str) -> Sequence[GameEntry]:
        """Requests in order, then those that have none, by ticket."""
        board = self.boards.get(pool)
        if board is None:
            return []
        queued = [self.entries[key] for key in board.queue]
        others = [self.entries[key] for key in board.registered if key not in board.queue]
        return [*(one for one in queued if not one.held), *sorted(others, key=lambda one: one.ticket)]

    def entries_key(self) -> Hashable:
        """Serials and turns count only as an order; of a door those still count that are admitted."""
        return tuple(normal(self.entries[key] for key in sorted(self.entries)))

    def same_records(self, saved: Mapping[str, Record]) -> Mapping[str, Record]:
        """Likewise."""
        names = [name for name in sorted(saved) if isinstance(saved[name], GameEntry)]
        entries = normal(entry for name in names if isinstance(entry := saved[name], GameEntry))
        return {**saved, **dict(zip(names, entries, strict=True))}

    def own_key(self) -> Hashable:
        """Numbers of tickets that were seen, and what must not be."""
        clocks = tuple((pool, self.boards[pool].clock) for pool in sorted(self.boards))
        return clocks, tuple(sorted(self.ended.items())), self.refused

    def copy_with(self, book: Book) -> Self:
        """The boards."""
        twin = super().copy_with(book)
        twin.ended = self.ended.copy()
        twin.boards = {pool: board.copy() for pool, board in self.boards.items()}
        return twin


OPEN, OPEN_AND_FITS = 17, 19
"""`_bits` of who has no request."""


def _bits(facts: Facts) -> int:
    """What a claim acts on as one number; never 0."""
    door, fits, first, held = facts
    return 16 | (0 if door else 1) | (2 if fits else 0) | (4 if first else 0) | (8 if held else 0)


def _facts_in(bits: int) -> Facts:
    return not bits & 1, bool(bits & 2), bool(bits & 4), bool(bits & 8)


def normal(entries: Iterable[GameEntry]) -> Iterator[GameEntry]:
    """The same with the smallest serials, turns and doors of the same order, each pool for itself."""
    known = list(entries)
    serials: dict[str, list[int]] = {one.pool: [] for one in known}
    turns: dict[str, list[int]] = {one.pool: [] for one in known}
    for one in known:
        insort(serials[one.pool], one.serial)
        insort(turns[one.pool], one.turn)
    for one in known:
        admitted, queued = serials[one.pool], turns[one.pool]
        none, empty = admitted.count(0), queued.count(0)
        yield msgspec.structs.replace(
            one,
            serial=bisect_left(admitted, one.serial) - none + 1 if one.serial else 0,
            turn=bisect_left(queued, one.turn) - empty + 1 if one.turn else 0,
            door=bisect_right(admitted, one.door) - none if one.stage < Stage.WON else 0,
        )

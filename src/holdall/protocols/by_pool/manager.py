"""A manager of pools without its protocol: entries, units, ends and restarts. Who is next is a subclass's matter.

Saved before a message tells of it: an entry that holds units before Held, its end before EndAck. What waits is saved
with its turn, so that a complete journal is an unbroken prefix of what happened.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar, cast

import msgspec

from holdall.machine.contract import Address, Boot, Forget, Record, Save, Send, SetTimer
from holdall.protocols.by_pool.messages import (
    CLAIMANT,
    RESTARTED,
    AskHeld,
    Buried,
    End,
    EndAck,
    Entered,
    Entry,
    Held,
    Lengthen,
    Lengthened,
    Lessen,
    Lessened,
    PlaceGone,
    Refused,
    party,
)
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.vocabulary import ALL, ClaimId

ENTRY_KEY = "entry/"
BURIED_KEY = "buried/"
SWEEP_TIMER = "sweep"
_OF_EVERY_PROTOCOL = frozenset({End, Lessen, Lengthen, Entered, AskHeld})
"""All other messages are the protocol's own."""

Key: TypeAlias = tuple[ClaimId, int]
"""An entry: claim and place."""
E = TypeVar("E", bound=Entry)


class Manager(ABC, Generic[E]):
    """All pools of one node. `book` names the units; its capacity counts.

    `sweep_ms`: ends are remembered for one to two of these spans, longer than any lease can live; None: for ever.
    """

    entry_type: ClassVar[type[Any]]
    """The protocol's subclass of Entry."""

    def __init__(self, node: str, epoch: int, book: Book, *, sweep_ms: int | None = None) -> None:
        self.node = node
        self.epoch = epoch
        self.book = book
        self.entries: dict[Key, E] = {}
        self.places: dict[ClaimId, set[int]] = {}
        """Claim -> its places here."""
        self.used: dict[str, int] = {}
        """Pool -> units set aside."""
        self.buried: dict[Key, int] = {}
        """Place -> highest attempt that is over."""
        self.waiting: dict[str, int] = {}
        """Pool -> entries without units."""
        self.touched: set[str] | None = None
        """Pools whose numbers have changed since a reader emptied this; None: nobody reads."""
        self.overtakes: dict[str, int] = {}
        """Pool -> how often units were set aside for a claim while another one waited that comes before it in the pool's
        order. For figures alone: neither kept nor part of the key, and twins share it."""
        self.quarantine_ms = 0
        self._sweep_ms = sweep_ms
        self._aged: frozenset[Key] = frozenset()
        """Tombstones that have seen a sweep already."""

    # ------------------------------------------------------------ what a protocol says

    @abstractmethod
    def on_message(self, sender: Address, message: Any, out: Effects) -> None:
        """One message of the protocol's own."""

    @abstractmethod
    def settle(self, pool: str, out: Effects) -> None:
        """Units or capacity of the pool have changed: serve who can be served now."""

    def entered(self, entry: E) -> None:
        """An entry has come (or come back after a restart): put it into the protocol's own lines."""

    def left(self, entry: E, out: Effects) -> None:
        """An entry has gone, its units are back; `settle` of its pool follows."""

    def line(self, pool: str) -> Sequence[E]:
        """Who waits there, next one first: for people to read."""
        return [entry for entry in self.entries.values() if entry.pool == pool and not entry.held]

    def confirmed(self, claim: ClaimId, attempt: int, out: Effects) -> None:
        """The claim's node has said that this attempt is inside: from now on its units are its own, and its end counts."""
        for entry in self.of_claim(claim):
            if entry.held and entry.attempt == attempt:
                self.book_it(entry, out)

    def same_records(self, saved: Mapping[str, Record]) -> Mapping[str, Record]:
        """The records as they count to who comes up with them, see `entries_key`."""
        return saved

    def ignores(self, message: Any) -> bool:
        """Whether a message (of the protocol's own) has no effect from now on, also after a restart with all saved."""
        del message
        return False

    def own_key(self) -> Hashable:
        """What future behaviour depends on beside entries, tombstones and epoch."""
        return ()

    def own_facts(self) -> Hashable:
        """What the protocol's properties between nodes look at, beside entries and tombstones."""
        return None

    def own_recover(self, records: Mapping[str, Record], boot: Boot, out: Effects) -> None:
        """The protocol's own records; entries are back already."""

    def own_timer(self, timer: str, out: Effects) -> bool:
        """A timer of the protocol's own. False: it is none of its."""
        del timer, out
        return False

    def keeps(self, entry: E, boot: Boot) -> bool:
        """Whether an entry survives this restart: what holds units does; what waits, if the journal is complete."""
        return entry.held or boot.kind == "same"

    def begin(self, out: Effects) -> None:
        """The first start, with nothing kept: what a protocol has to say or to set then."""

    # ------------------------------------------------------------ the machine's side

    def receive(self, sender: Address, message: Any, out: Effects) -> None:
        """One message and its whole turn."""
        if type(message) not in _OF_EVERY_PROTOCOL:
            self.on_message(sender, message, out)
            return
        match message:
            case End(claim, attempt, place):
                self.end((claim, place), attempt, out)
                out.append(Send(sender, EndAck(claim, attempt, place)))
            case Lessen():
                self._lessen(sender, message, out)
            case Lengthen(claim, attempt, place, for_ms):
                ok = self._held(claim, attempt, place) is not None
                ok = ok and self.book.extend(claim, party(attempt, place), for_ms, out)
                out.append(Send(sender, Lengthened(claim, attempt, place, for_ms, ok)))
            case Entered(claim, attempt):
                self.confirmed(claim, attempt, out)
            case AskHeld(claim, attempt, place):
                entry = self._held(claim, attempt, place)
                if entry is None:
                    out.append(Send(sender, PlaceGone(claim, attempt, RESTARTED)))
                else:
                    self.tell_held(entry, out)
            case _:
                raise AssertionError(f"{type(message).__name__} is no message to every manager by pool")

    def fired(self, timer: str, out: Effects) -> bool:
        """The sweep drops tombstones that have seen one sweep already; all else is the protocol's."""
        if timer != SWEEP_TIMER:
            return self.own_timer(timer, out)
        for key in sorted(self._aged & self.buried.keys()):
            del self.buried[key]
            out.append(Forget(_buried_key(key)))
        self._aged = frozenset(self.buried)
        self._arm_sweep(out)
        return True

    def clock_read(self, wall_ms: int) -> None:
        """Most orders need no clock."""

    def recover(self, records: Mapping[str, Record], boot: Boot, out: Effects) -> None:
        """Come up from the records of earlier turns; the book is up already."""
        self.epoch = boot.epoch
        self.quarantine_ms = boot.quarantine_ms
        for name in sorted(records):
            record = records[name]
            if isinstance(record, self.entry_type):
                entry = cast("E", record)
                if boot.kind != "lost" and self.keeps(entry, boot):
                    self._insert(entry)
                else:
                    out.append(Forget(name))
            elif isinstance(record, Buried):
                self.buried[record.claim, record.place] = record.attempt
        self.own_recover(records, boot, out)
        self._arm_sweep(out)

    def key(self) -> Hashable:
        """Equal keys behave alike over equal books."""
        return (
            self.epoch,
            self.quarantine_ms,
            self.entries_key(),
            tuple(sorted(self.buried.items())),
            tuple(sorted(self._aged)),
            self.own_key(),
        )

    def entries_key(self) -> Hashable:
        """The entries; a protocol whose entries carry numbers that count only as an order says so here."""
        return tuple(self.entries[key] for key in sorted(self.entries))

    def copy_with(self, book: Book) -> Self:
        """An independent twin over the copied book; a subclass copies what it keeps that can change."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin.book = book
        twin.entries = self.entries.copy()
        twin.places = {claim: set(places) for claim, places in self.places.items()}
        twin.used = self.used.copy()
        twin.waiting = self.waiting.copy()
        twin.touched = None if self.touched is None else self.touched.copy()
        twin.buried = self.buried.copy()
        return twin

    # ------------------------------------------------------------ the lease book

    def capacity_changed(self, out: Effects, pools: Collection[str] = ()) -> None:
        """Units of these pools (none named: of any) have left or come back, or the quarantine is over."""
        if self.book.may_grant():
            self.quarantine_ms = 0
        for pool in sorted(pools or {entry.pool for entry in self.entries.values()}):
            self.settle(pool, out)

    def departed(self, claim: ClaimId, out: Effects, reason: str = "expired") -> None:
        """The claim's lease is over: all its places here end, and its claimant is told."""
        for entry in list(self.of_claim(claim)):
            self.end((claim, entry.place), entry.attempt, out)
            self.tell(claim, PlaceGone(claim, entry.attempt, reason), out)

    def of_claim(self, claim: ClaimId) -> Iterator[E]:
        """What is here of a claim, by place."""
        for place in sorted(self.places.get(claim, ())):
            yield self.entries[claim, place]

    # ------------------------------------------------------------ what protocols use

    def admits(
        self, sender: Address, key: Key, attempt: int, epoch: int, out: Effects, *, held_again: bool = True
    ) -> bool:
        """Whether a first message of an attempt makes an entry now; what is said otherwise has been said.

        An attempt that is over is told so; one that is known already is told of its units again, if it has them and
        `held_again`; a newer one ends the one before.
        """
        claim, place = key
        if attempt <= self.buried.get(key, 0):
            # Overtaken by its own End: then nobody listens. Or its lease ran out here, and the word of it was lost.
            out.append(Send(sender, PlaceGone(claim, attempt, "over")))
            return False
        entry = self.entries.get(key)
        if entry is not None and entry.attempt >= attempt:
            if entry.held and entry.attempt == attempt and held_again:
                self.tell_held(entry, out)
            return False
        if entry is not None:
            self.end(key, entry.attempt, out)
        if epoch != self.epoch or not self.book.may_grant():
            out.append(Send(sender, Refused(claim, attempt, place, self.epoch, self.quarantine_ms)))
            return False
        return True

    def put(self, entry: E, out: Effects) -> None:
        """A new entry, or another value of one that does not hold units."""
        key = (entry.claim, entry.place)
        if key in self.entries:
            self.entries[key] = entry
        else:
            self._insert(entry)
        out.append(Save(_entry_key(key), entry))

    def replace(self, entry: E, out: Effects) -> None:
        """Another value of an entry that is here; what it holds stays."""
        key = (entry.claim, entry.place)
        self.entries[key] = entry
        out.append(Save(_entry_key(key), entry))

    def hold(self, entry: E, out: Effects, *, booked: bool = False) -> E:
        """Set its units aside, and save it. `booked`: the claim is granted with that; else see `confirmed`."""
        units = self.wanted(entry)
        entry = msgspec.structs.replace(entry, held=True, units=units)
        self.replace(entry, out)
        self._count(entry.pool, used=units, waiting=-1)
        number = party(entry.attempt, entry.place)
        self.book.set_aside(entry.claim, number, {entry.pool: units}, entry.terms, out)
        if booked:
            self.book.book(entry.claim, number, out)
        return entry

    def gets_ahead(self, pool: str, others: int) -> None:
        """So many wait still that come before the entry whose units are set aside now."""
        if others:
            self.overtakes[pool] = self.overtakes.get(pool, 0) + others

    def book_it(self, entry: E, out: Effects) -> None:
        """Its claim has them for good. Idempotent."""
        self.book.book(entry.claim, party(entry.attempt, entry.place), out)

    def unhold(self, entry: E, out: Effects) -> E:
        """Its units go back, it stays. `settle` is the caller's."""
        entry = msgspec.structs.replace(entry, held=False)
        self.replace(entry, out)
        self._count(entry.pool, used=-entry.units, waiting=1)
        self.book.give_back(entry.claim, party(entry.attempt, entry.place), {}, out)
        return entry

    def end(self, key: Key, attempt: int, out: Effects) -> None:
        """Bury the place up to this attempt, and free what it has."""
        self.bury(key, attempt, out)
        entry = self.entries.get(key)
        if entry is None or entry.attempt > attempt:
            return
        del self.entries[key]
        self.places[key[0]].discard(key[1])
        if not self.places[key[0]]:
            del self.places[key[0]]
        out.append(Forget(_entry_key(key)))
        if entry.held:
            self._count(entry.pool, used=-entry.units)
            self.book.give_back(entry.claim, party(entry.attempt, entry.place), {}, out)
        else:
            self._count(entry.pool, waiting=-1)
        self.left(entry, out)
        self.settle(entry.pool, out)

    def bury(self, key: Key, attempt: int, out: Effects) -> None:
        """Nothing of this attempt or an earlier one makes an entry any more."""
        if attempt <= self.buried.get(key, 0):
            return
        first = not self.buried
        self.buried[key] = attempt
        if first:
            self._arm_sweep(out)
        self._aged -= {key}
        out.append(Save(_buried_key(key), Buried(key[0], key[1], attempt)))

    def forget(self, claim: ClaimId) -> None:
        """Nobody will ever ask for this claim again, and nothing of it is here: its tombstones go."""
        for key in [key for key in self.buried if key[0] == claim]:
            del self.buried[key]

    def free(self, pool: str) -> int:
        """Units that are not set aside."""
        return self.book.capacity(pool) - self.used.get(pool, 0)

    def wanted(self, entry: E) -> int:
        """Units that the entry wants, or has."""
        return max(1, self.book.capacity(entry.pool)) if entry.units == ALL else entry.units

    def units(self, entry: E) -> tuple[Any, ...]:
        """What the entry has, with fences."""
        return self.book.units(entry.claim, party(entry.attempt, entry.place))

    def tell_held(self, entry: E, out: Effects) -> None:
        """Say that all its units are set aside."""
        held = Held(entry.claim, entry.attempt, entry.place, self.units(entry), self.epoch)
        self.tell(entry.claim, held, out)

    def tell(self, claim: ClaimId, message: msgspec.Struct, out: Effects) -> None:
        """To the claimant."""
        out.append(Send(Address(claim.node, CLAIMANT), message))

    # ------------------------------------------------------------ inside

    def _count(self, pool: str, *, used: int = 0, waiting: int = 0) -> None:
        if used:
            self.used[pool] = self.used.get(pool, 0) + used
        if waiting:
            self.waiting[pool] = self.waiting.get(pool, 0) + waiting
        if self.touched is not None:
            self.touched.add(pool)

    def _held(self, claim: ClaimId, attempt: int, place: int) -> E | None:
        entry = self.entries.get((claim, place))
        return entry if entry is not None and entry.held and entry.attempt == attempt else None

    def _insert(self, entry: E) -> None:
        self.entries[entry.claim, entry.place] = entry
        self.places.setdefault(entry.claim, set()).add(entry.place)
        if entry.held:
            self._count(entry.pool, used=entry.units)
        else:
            self._count(entry.pool, waiting=1)
        self.entered(entry)

    def _lessen(self, sender: Address, asked: Lessen, out: Effects) -> None:
        entry = self._held(asked.claim, asked.attempt, asked.place)
        if entry is None:
            return  # it is over; its claimant hears of that by EndAck or PlaceGone
        number = party(entry.attempt, entry.place)
        if asked.units < entry.units:
            self._count(entry.pool, used=asked.units - entry.units)
            entry = msgspec.structs.replace(entry, units=asked.units)
            self.replace(entry, out)
            self.book.give_back(asked.claim, number, {entry.pool: asked.units}, out, asked.named)
            self.settle(entry.pool, out)
        kept = self.book.units(asked.claim, number)
        out.append(Send(sender, Lessened(asked.claim, asked.attempt, asked.place, kept)))

    def _arm_sweep(self, out: Effects) -> None:
        if self._sweep_ms is not None and self.buried:
            out.append(SetTimer(SWEEP_TIMER, self._sweep_ms))


def _entry_key(key: Key) -> str:
    return f"{ENTRY_KEY}{key[0]}/{key[1]}"


def _buried_key(key: Key) -> str:
    return f"{BURIED_KEY}{key[0]}/{key[1]}"

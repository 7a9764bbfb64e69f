"""The ledger: which stretches of holding a turn begins and ends, by what it saves of leases.

A stretch is one unit, or one amount of a capacity, held on unchanged terms by one holder. It ends when the lease ends, is
renewed on other terms, or gives the unit back; only then a row is written, once, in the transaction that says so of the
lease. What is still open stands in a table of its own, so a restart loses and doubles nothing.
Source: lease negotiation, section 8.4.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from holdall.machine.contract import Record

RENEWED, CHANGED, ENDED, LOST = "renewed", "changed", "ended", "lost"
"""Why a stretch is over, where nobody has said more. `lost`: the journal knew nothing of it at a start."""

NOT_SAID: Mapping[str, str] = MappingProxyType({})


class Held(msgspec.Struct, frozen=True):
    """What one lease has of one term."""

    lease: str
    term: str
    kind: str
    """`pool`, `capacity` or `function`."""
    holder: str
    affiliation: str = ""
    amount: int = 1
    """In the term's base unit; 1 for a unit of a pool."""
    unit: str = ""
    fence: int = 0
    revision: int = 0
    """Another one after each renewal."""

    @property
    def part(self) -> str:
        """Names it within its lease: a unit comes back under another fence only."""
        return f"{self.term}/{self.unit}/{self.fence}"


class Use(msgspec.Struct, frozen=True):
    """What was measured of a lease's term since the lease began."""

    used: int = 0
    denied: int = 0
    violated_s: int = 0

    def since(self, earlier: "Use") -> "Use":
        """What came after `earlier`; a meter that began anew counts as a whole."""
        if self.used < earlier.used or self.denied < earlier.denied or self.violated_s < earlier.violated_s:
            return self
        return Use(
            self.used - earlier.used, self.denied - earlier.denied, self.violated_s - earlier.violated_s
        )


NOTHING = Use()


class Stretch(msgspec.Struct, frozen=True):
    """Held since. `key`: that of the lease's record in the journal. Instants are the account's, in ms."""

    key: str
    held: Held
    began_ms: int
    before: Use = NOTHING
    """What had been measured of the lease's term when it began."""

    @property
    def name(self) -> str:
        """Of this stretch among the open ones."""
        return f"{self.key}|{self.held.part}"


class Row(msgspec.Struct, frozen=True):
    """A stretch that is over, or one that is looked at before it is."""

    held: Held
    began_ms: int
    ended_ms: int
    why: str
    use: Use = NOTHING


class Standing(msgspec.Struct, frozen=True):
    """What a lease's record says: what is held by it, and why it is over where nothing is."""

    held: tuple[Held, ...] = ()
    why: str = ENDED
    replaced: str = RENEWED
    """Why a stretch is over whose lease goes on with other terms under the same key."""


Reader: TypeAlias = Callable[[Record | None], Standing]
"""Reads the records of one kind of lease; None: the record is forgotten."""


UseOf: TypeAlias = Callable[[str, str], Use]
"""(lease, term) -> what has been measured of it since the lease began, or since this process did."""


class Entries(msgspec.Struct, frozen=True):
    """What one turn adds to the account."""

    rows: tuple[Row, ...] = ()
    opened: tuple[Stretch, ...] = ()
    closed: tuple[str, ...] = ()
    """Names of the stretches that are over."""

    def __bool__(self) -> bool:
        return bool(self.rows or self.opened or self.closed)


class Ledger:
    """`readers`: beginning of a key in the journal -> what reads the records there."""

    def __init__(self, readers: Mapping[str, Reader], use_of: UseOf, opened: Sequence[Stretch] = ()) -> None:
        self._readers = dict(readers)
        self._open: dict[str, dict[str, Stretch]] = {}
        """Key -> name -> stretch."""
        self._use_of = use_of
        for stretch in opened:
            self._open.setdefault(stretch.key, {})[stretch.name] = stretch

    def open(self) -> list[Stretch]:
        """All that is held, in order of names."""
        return sorted(
            (one for stretches in self._open.values() for one in stretches.values()),
            key=lambda stretch: stretch.name,
        )

    def reconcile(self, records: Mapping[str, Record], now_ms: int, last_ms: int) -> Entries:
        """At a start. What no record knows is over, since `last_ms`; what is not open yet begins now."""
        rows: list[Row] = []
        closed: list[str] = []
        opened: list[Stretch] = []
        for stretch in self.open():
            if stretch.key not in records:
                rows.append(self._row(stretch, max(last_ms, stretch.began_ms), LOST))
                closed.append(stretch.name)
        known = self.entries(records, now_ms)
        opened += known.opened
        return Entries((*rows, *known.rows), tuple(opened), (*closed, *known.closed))

    def entries(
        self, saves: Mapping[str, Record | None], now_ms: int, ends: Mapping[str, str] = NOT_SAID
    ) -> Entries:
        """What a turn with these saves adds; `ends`: why the records of these keys are forgotten.

        Nothing has changed before `committed` is told of it.
        """
        rows: list[Row] = []
        opened: list[Stretch] = []
        closed: list[str] = []
        for key, record in saves.items():
            reader = self._reader(key)
            if reader is None:
                continue
            standing = reader(record)
            before = self._open.get(key, {})
            begun = (Stretch(key, one, now_ms, self._use_of(one.lease, one.term)) for one in standing.held)
            now = {stretch.name: stretch for stretch in begun}
            for name, stretch in before.items():
                follower = now.get(name)
                if follower is not None and follower.held == stretch.held:
                    continue
                gone = CHANGED if now else ends.get(key, standing.why)
                why = gone if follower is None else standing.replaced
                rows.append(self._row(stretch, max(now_ms, stretch.began_ms), why))
                closed.append(name)
            opened += (
                stretch
                for name, stretch in now.items()
                if name not in before or before[name].held != stretch.held
            )
        return Entries(tuple(rows), tuple(opened), tuple(closed))

    def committed(self, entries: Entries) -> None:
        """They are in the journal."""
        for name in entries.closed:
            key = name.rpartition("|")[0]
            del self._open[key][name]
            if not self._open[key]:
                del self._open[key]
        for stretch in entries.opened:
            self._open.setdefault(stretch.key, {})[stretch.name] = stretch

    def so_far(self, now_ms: int) -> list[Row]:
        """Rows of what is still held, as if it were over now."""
        return [self._row(stretch, max(now_ms, stretch.began_ms), "") for stretch in self.open()]

    def _row(self, stretch: Stretch, ended_ms: int, why: str) -> Row:
        use = self._use_of(stretch.held.lease, stretch.held.term)
        return Row(stretch.held, stretch.began_ms, ended_ms, why, use.since(stretch.before))

    def _reader(self, key: str) -> Reader | None:
        for prefix, reader in self._readers.items():
            if key.startswith(prefix):
                return reader
        return None

"""The account's tables in the journal: rows that are only ever added, sums of old ones, and what is open. Statements, no decisions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdall.model.frames import UsageRow
from holdall.node.accounting.clock import Difference
from holdall.node.accounting.intervals import Entries, Held, Row, Stretch, Use
from holdall.node.store import Steps, Store

CLOCK = "account_clock"
SLICE = 5_000
"""Rows of one look; between two of them a node does other things."""
SWEPT_MOST = 1_000
"""Folded rows that are removed at a time."""
_COLUMNS = (
    "lease, term, kind, holder, affiliation, amount, unit, fence, revision, began_ms, ended_ms, why, "
    "used, denied, violated_s"
)
_CREATE = """
CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, lease TEXT NOT NULL, term TEXT NOT NULL, kind TEXT NOT NULL,
  holder TEXT NOT NULL, affiliation TEXT NOT NULL, amount INTEGER NOT NULL, unit TEXT NOT NULL, fence INTEGER NOT NULL,
  revision INTEGER NOT NULL, began_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL, why TEXT NOT NULL,
  used INTEGER NOT NULL, denied INTEGER NOT NULL, violated_s INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS account_open (name TEXT PRIMARY KEY, stretch BLOB NOT NULL) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS account_is_not_changed BEFORE UPDATE ON account
  BEGIN SELECT RAISE(ABORT, 'the account is only ever added to'); END;
CREATE TABLE IF NOT EXISTS account_sum (grouping TEXT NOT NULL, name TEXT NOT NULL, term TEXT NOT NULL, kind TEXT NOT NULL,
  leases INTEGER NOT NULL, stretches INTEGER NOT NULL, held_ms TEXT NOT NULL, amount_ms TEXT NOT NULL, used TEXT NOT NULL,
  denied TEXT NOT NULL, violated_s TEXT NOT NULL, PRIMARY KEY (grouping, name, term)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS account_folded (one INTEGER PRIMARY KEY CHECK (one = 1), upto INTEGER NOT NULL);
DROP TRIGGER IF EXISTS account_is_not_shortened;
CREATE TRIGGER account_is_not_shortened BEFORE DELETE ON account
  WHEN OLD.id > coalesce((SELECT upto FROM account_folded), 0)
  BEGIN SELECT RAISE(ABORT, 'the account is only ever added to'); END;
"""

_stretch: msgspec.msgpack.Decoder[Stretch] = msgspec.msgpack.Decoder(Stretch)
_difference: msgspec.msgpack.Decoder[Difference] = msgspec.msgpack.Decoder(Difference)


class Tables:
    """Of one open journal."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.add_tables(_CREATE)

    def clock(self) -> Difference | None:
        """That of the last start."""
        value = self._store.meta(CLOCK)
        return None if value is None else _difference.decode(value)

    def save_clock(self, kept: Difference) -> None:
        """Of this start."""
        self._store.set_meta(CLOCK, msgspec.msgpack.encode(kept))

    def open(self) -> list[Stretch]:
        """What is held."""
        found = self._store.select("SELECT stretch FROM account_open ORDER BY name")
        return [_stretch.decode(row[0]) for row in found]

    def last(self) -> tuple[int, int]:
        """(number, end) of the latest row; zeros when there is none."""
        for row in self._store.select("SELECT id, ended_ms FROM account ORDER BY id DESC LIMIT 1"):
            return int(row[0]), int(row[1])
        return 0, 0

    def folded(self) -> int:
        """The number of the last row that stands in sums; rows count from the next one on."""
        for row in self._store.select("SELECT upto FROM account_folded"):
            return int(row[0])
        return 0

    def has_swept(self) -> bool:
        """Whether no folded row is left."""
        for row in self._store.select("SELECT min(id) FROM account"):
            return row[0] is None or int(row[0]) > self.folded()
        return True

    def sums(self, by: str) -> list[UsageRow]:
        """What folded rows said together, in this grouping."""
        found = self._store.select(
            "SELECT name, term, kind, leases, stretches, held_ms, amount_ms, used, denied, violated_s "
            "FROM account_sum WHERE grouping = ?",
            by,
        )
        return [
            UsageRow(
                name, term, kind, leases, stretches, int(held), amount, int(used), int(denied), int(short), 0
            )
            for name, term, kind, leases, stretches, held, amount, used, denied, short in found
        ]

    def fold_steps(self, upto: int, sums: Mapping[str, Sequence[UsageRow]]) -> Steps:
        """Rows up to this number stand in these sums, by grouping, from now on."""
        rows: list[tuple[object, ...]] = [
            (
                *(by, one.group, one.term, one.kind, one.leases, one.stretches),
                *(str(one.held_ms), one.amount_ms, str(one.used), str(one.denied), str(one.violated_s)),
            )
            for by, groups in sums.items()
            for one in groups
        ]
        return [
            ("INSERT OR REPLACE INTO account_sum VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows),
            ("INSERT OR REPLACE INTO account_folded VALUES (1, ?)", [(upto,)]),
        ]

    def sweep_steps(self) -> Steps:
        """Some of the rows that stand in sums are removed."""
        folded = self.folded()
        return [
            (
                "DELETE FROM account WHERE id IN (SELECT id FROM account WHERE id <= ? ORDER BY id LIMIT ?)",
                [(folded, SWEPT_MOST)],
            )
        ]

    def ended_ms(self, number: int) -> int:
        """When the row with this number ended."""
        (row,) = self._store.select("SELECT ended_ms FROM account WHERE id = ?", number)
        return int(row[0])

    def rows(self, after: int, upto: int) -> Iterator[tuple[int, Row]]:
        """The next rows by number, at most `SLICE`."""
        found = self._store.select(
            f"SELECT id, {_COLUMNS} FROM account WHERE id > ? AND id <= ? ORDER BY id LIMIT {SLICE}",  # noqa: S608
            after,
            upto,
        )
        for number, *cells in found:
            yield int(number), _row(cells)


def steps_of(entries: Entries) -> Steps:
    """What adds them, within a transaction of the journal."""
    marks = ", ".join("?" for _ in _COLUMNS.split(","))
    opened = [(stretch.name, msgspec.msgpack.encode(stretch)) for stretch in entries.opened]
    return [
        (f"INSERT INTO account ({_COLUMNS}) VALUES ({marks})", [_cells(row) for row in entries.rows]),  # noqa: S608
        ("DELETE FROM account_open WHERE name = ?", [(name,) for name in entries.closed]),
        ("INSERT OR REPLACE INTO account_open VALUES (?, ?)", [*opened]),
    ]


def _cells(row: Row) -> tuple[object, ...]:
    held = row.held
    return (
        *(held.lease, held.term, held.kind, held.holder, held.affiliation, held.amount),
        *(held.unit, held.fence, held.revision, row.began_ms, row.ended_ms, row.why),
        *(row.use.used, row.use.denied, row.use.violated_s),
    )


def _row(cells: Sequence[Any]) -> Row:
    lease, term, kind, holder, affiliation, amount, unit, fence, revision, *rest = cells
    began_ms, ended_ms, why, used, denied, violated_s = rest
    held = Held(lease, term, kind, holder, affiliation, amount, unit, fence, revision)
    return Row(held, began_ms, ended_ms, why, Use(used, denied, violated_s))

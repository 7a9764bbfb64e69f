"""The journal: what the machines saved, in SQLite; the only importer of sqlite3.

One transaction per turn, committed before anything of the turn leaves. Level `process`: the write has reached
the kernel (survives `kill -9`); level `power`: it has reached the disk. Boot record and fence blocks are
always synced to the disk.

A failed commit is never guessed about: `JournalFull` says that the transaction was rolled back and may be tried
again, `JournalBroken` that this process must end, since after a failed sync nobody knows what is on the disk.
"""

import contextlib
import fcntl
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from holdall.machine.codec import CODEC, CodecError
from holdall.machine.contract import Record
from holdall.model.errors import BadConfig
from holdall.node import paths

SCHEMA_VERSION = 2
"""1: nodes stood in claims by their names."""
_TURN = "turn"
_BOOT = "boot"
_MARK_NAME = "holdall.turn"
"""Number of the last committed turn, beside the journal: shows when the journal has lost turns that were answered."""

_CHECKPOINT_PAGES = 4000
"""16 MiB."""

_CREATE = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE record (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""


Steps: TypeAlias = list[tuple[str, list[tuple[object, ...]]]]
"""Statements with the rows that each is run with."""


class JournalFull(Exception):
    """No space for this turn; it was rolled back, nothing of it is in the journal."""


class JournalBroken(Exception):
    """The journal can't be written or read any more; the text says what happened and what to do."""


class BootRecord(msgspec.Struct, frozen=True):
    """What a node knows about its last start. Always synced to the disk."""

    node: str
    boot_id: str
    """The kernel's."""
    incarnation: int
    epoch: int
    durability: str
    """Level at which the journal has been written since."""
    quarantine_end_ms: int = 0
    """CLOCK_BOOTTIME of that boot; 0: none."""
    fence_base: int = 0
    id: str = ""
    """The node's id inside all machines, made from its key; `node` is its name."""


class Store:
    """The open journal of one state folder. Close it, or let the process end: both keep what is committed."""

    def __init__(self, folder: Path, *, durability: str) -> None:
        """Open or create the journal. Raises BadConfig when this release must not or can't use what is there."""
        self.folder = folder
        self._level = "FULL" if durability == "power" else "NORMAL"
        self._lock = _lock_folder(folder)
        self._mark = -1
        self._db: sqlite3.Connection | None = None
        try:
            self._db = _connect(folder / paths.JOURNAL_NAME, self._level)
            self.turn = _prepare(self._db, folder)
            self._mark, self._answered = _open_mark(folder)
        except BaseException:
            self.close()
            raise

    @property
    def db(self) -> sqlite3.Connection:
        """The connection. Raises JournalBroken after `close`."""
        if self._db is None:
            raise JournalBroken("the journal is closed")
        return self._db

    def boot_record(self) -> BootRecord | None:
        """The record of the last start; None in a new journal."""
        row = self.db.execute("SELECT value FROM meta WHERE key = ?", (_BOOT,)).fetchone()
        return None if row is None else msgspec.msgpack.decode(_checked(_BOOT, row[0]), type=BootRecord)

    def check_turns(self, earlier: BootRecord, *, boot_id: str) -> None:
        """Refuse a journal that lacks turns it can't have lost by a power cut. Raises BadConfig.

        Within one kernel boot, and at level power ever, what was committed is there; if it is not, the journal was
        changed or damaged, and going on with it could give a unit twice.
        """
        complete = earlier.boot_id == boot_id or earlier.durability == "power"
        if complete and self._answered > self.turn:
            text = f"it ends with turn {self.turn}, but turn {self._answered} has been answered"
            raise BadConfig(_damaged_text(self.folder, text))

    def save_boot(self, record: BootRecord) -> None:
        """Keep the record of this start, synced. Raises JournalFull or JournalBroken."""
        # From here on the mark counts this journal's turns, not those of one that was lost.
        self._set_mark(self.turn)
        value = _sealed(_BOOT, msgspec.msgpack.encode(record))
        self._transaction([("INSERT OR REPLACE INTO meta VALUES (?, ?)", [(_BOOT, value)])], synced=True)

    def record(self, key: str) -> Record | None:
        """One of `records`, by its key. Raises JournalBroken when it is damaged."""
        try:
            row = self.db.execute("SELECT value FROM record WHERE key = ?", (key,)).fetchone()
            return None if row is None else CODEC.decode(_checked(key, row[0]))
        except CodecError as error:
            raise JournalBroken(f"{self.folder / paths.JOURNAL_NAME}: {error}") from None
        except sqlite3.Error as error:
            raise _broken(self.folder, error) from error

    def records(self) -> dict[str, Record]:
        """Everything the machines saved and have not forgotten. Raises JournalBroken at a damaged record."""
        kept: dict[str, Record] = {}
        try:
            for key, value in self.db.execute("SELECT key, value FROM record ORDER BY key"):
                kept[key] = CODEC.decode(_checked(key, value))
        except CodecError as error:
            raise JournalBroken(f"{self.folder / paths.JOURNAL_NAME}: {error}") from None
        except sqlite3.Error as error:
            raise _broken(self.folder, error) from error
        return kept

    def forget_all(self) -> None:
        """Drop every record: what an earlier node kept here is void."""
        self._transaction([("DELETE FROM record WHERE ?", [(1,)])], synced=True)

    def commit(
        self, saves: Mapping[str, Record | None], *, synced: bool = False, beside: Steps | None = None
    ) -> None:
        """One turn. Returns when it is as durable as the level says (`synced`: on the disk).

        `beside`: what else stands or falls with it. Raises JournalFull (rolled back, may be tried again) or JournalBroken.
        """
        kept: list[tuple[str, bytes]] = []
        gone: list[tuple[str]] = []
        for key, record in saves.items():
            if record is None:
                gone.append((key,))
            else:
                kept.append((key, _sealed(key, CODEC.encode(record))))
        steps: Steps = [
            ("INSERT OR REPLACE INTO record VALUES (?, ?)", [*kept]),
            ("DELETE FROM record WHERE key = ?", [*gone]),
            ("INSERT OR REPLACE INTO meta VALUES (?, ?)", [(_TURN, self.turn + 1)]),
            *(beside or ()),
        ]
        self._transaction(steps, synced=synced)
        self.turn += 1
        self._set_mark(self.turn)

    def add_tables(self, create: str) -> None:
        """Tables of another file of this package, made where they are not there. Raises JournalBroken."""
        try:
            self.db.executescript(f"BEGIN IMMEDIATE; {create} COMMIT;")
        except sqlite3.Error as error:
            raise _broken(self.folder, error) from error

    def select(self, statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Rows of such a table. Raises JournalBroken."""
        try:
            yield from self.db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise _broken(self.folder, error) from error

    def meta(self, key: str) -> bytes | None:
        """A value that stands beside the records. Raises JournalBroken when it is damaged."""
        for row in self.select("SELECT value FROM meta WHERE key = ?", key):
            return _checked(key, row[0])
        return None

    def set_meta(self, key: str, value: bytes) -> None:
        """Keep it. Raises JournalFull or JournalBroken."""
        self._transaction(
            [("INSERT OR REPLACE INTO meta VALUES (?, ?)", [(key, _sealed(key, value))])], synced=False
        )

    def sync(self) -> None:
        """Bring the whole journal into its main file and onto the disk, as at the end of a service."""
        with contextlib.suppress(sqlite3.Error):
            self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def close(self) -> None:
        """Give the state folder free. Idempotent."""
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
            self._db = None
        for descriptor in (self._mark, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._mark = self._lock = -1

    def _set_mark(self, turn: int) -> None:
        try:
            os.pwrite(self._mark, b"%020d\n" % turn, 0)
        except OSError as error:
            raise JournalBroken(
                f"can't write in the state folder {self.folder}: {error.strerror}."
            ) from error

    def _transaction(self, steps: Steps, *, synced: bool) -> None:
        db = self.db
        raised = synced and self._level != "FULL"
        try:
            if raised:
                db.execute("PRAGMA synchronous=FULL")
            db.execute("BEGIN IMMEDIATE")
            for statement, rows in steps:
                if rows:
                    db.executemany(statement, rows)
            db.execute("COMMIT")
            if raised:
                db.execute(f"PRAGMA synchronous={self._level}")
        except sqlite3.Error as error:
            if error.sqlite_errorname == "SQLITE_FULL":
                self._roll_back()
                raise JournalFull(
                    f"no space left for {self.folder / paths.JOURNAL_NAME}. Free some on that file system."
                ) from error
            raise _broken(self.folder, error) from error

    def _roll_back(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            self.db.execute(f"PRAGMA synchronous={self._level}")


def _lock_folder(folder: Path) -> int:
    """Make the folder and take its lock: one node at a time. Raises BadConfig."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder / paths.LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadConfig(
            f"can't use the state folder {folder}: {error.strerror}. "
            "Make it writable for this user, or set [node].state to another folder."
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        by = f" (process {owner})" if owner.isdigit() else ""
        raise BadConfig(
            f"the state folder {folder} is in use by another node{by}. "
            "Stop that one, or give this one its own [node].state."
        ) from None
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _connect(path: Path, level: str) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(path, isolation_level=None, timeout=5)
        path.chmod(0o600)
        # The lock file keeps other nodes out; EXCLUSIVE spares the shared-memory file and its failures.
        db.execute("PRAGMA locking_mode=EXCLUSIVE")
        db.execute("PRAGMA journal_mode=WAL").fetchone()
        db.execute(f"PRAGMA synchronous={level}")
        db.execute("PRAGMA temp_store=MEMORY")
        # Each checkpoint waits for the disk; the same pages are written over and over, so rarer ones are cheaper.
        db.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
    except (sqlite3.Error, OSError) as error:
        raise BadConfig(_open_text(path.parent, error)) from None
    return db


def _prepare(db: sqlite3.Connection, folder: Path) -> int:
    """Create the tables, or check the ones that are there. Returns the number of the last committed turn."""
    try:
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version > SCHEMA_VERSION:
            raise BadConfig(
                f"the state folder {folder} was written by a newer holdall (journal version {version}; this one reads "
                f"up to {SCHEMA_VERSION}). Install that release again, or use another [node].state. Nothing was changed."
            )
        if version == 1:
            raise BadConfig(
                f"the journal {folder / paths.JOURNAL_NAME} was written before nodes had keys, by a release that is not "
                "supported any more. Move it away: the next start then waits until its leases have run out."
            )
        if version == 0:
            db.executescript(f"BEGIN IMMEDIATE; {_CREATE} PRAGMA user_version={SCHEMA_VERSION}; COMMIT;")
            return 0
        problem = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
        if problem != "ok":
            raise BadConfig(_damaged_text(folder, problem))
        row = db.execute("SELECT value FROM meta WHERE key = ?", (_TURN,)).fetchone()
        return 0 if row is None else int(row[0])
    except sqlite3.Error as error:
        raise BadConfig(_open_text(folder, error)) from None


def _open_mark(folder: Path) -> tuple[int, int]:
    """Open the turn mark: descriptor and the turn that it names (0: none)."""
    try:
        descriptor = os.open(folder / _MARK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadConfig(f"can't write in the state folder {folder}: {error.strerror}.") from None
    text = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
    return descriptor, int(text) if text.isdigit() else 0


def _sealed(key: str, body: bytes) -> bytes:
    return zlib.crc32(body, zlib.crc32(key.encode())).to_bytes(4, "big") + body


def _checked(key: str, value: bytes) -> bytes:
    body = value[4:]
    if zlib.crc32(body, zlib.crc32(key.encode())).to_bytes(4, "big") != value[:4]:
        raise JournalBroken(f"record {key!r} of the journal does not match its checksum. {_NEXT_STEP}")
    return body


_NEXT_STEP = (
    "Move the journal out of the state folder and start again: the node then counts as one that lost its journal, "
    "waits until every lease that may be alive has run out, and gives higher fences."
)


def _damaged_text(folder: Path, problem: str) -> str:
    return f"the journal in {folder} is damaged: {problem}. {_NEXT_STEP}"


def _open_text(folder: Path, error: Exception) -> str:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name == "SQLITE_FULL":
        return (
            f"no space left for the journal in {folder}. Free some on that file system, or set [node].state."
        )
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return _damaged_text(folder, str(error))
    return (
        f"can't open the journal in {folder}: {error}. "
        "Make the folder writable for this user, or set [node].state to another folder."
    )


def _broken(folder: Path, error: sqlite3.Error) -> JournalBroken:
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    return JournalBroken(
        f"the journal in {folder} can't be written: {error} ({name}). The node ends; nothing that is not journalled "
        "was told to anybody. Check that disk, then start the node again."
    )

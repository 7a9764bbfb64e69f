"""The journal: what it keeps, what it refuses, and that it never guesses."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdall.leases.records import FenceBlock
from holdall.machine.contract import Record
from holdall.model.errors import BadConfig
from holdall.node import paths
from holdall.node.store import BootRecord, JournalBroken, JournalFull, Store

BOOT = BootRecord("lab-1", "A", incarnation=1, epoch=1, durability="process")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "state", durability="process")
    yield opened
    opened.close()


def reopened(store: Store) -> Store:
    store.close()
    return Store(store.folder, durability="process")


def test_a_turn_is_kept_whole_and_the_last_word_on_a_key_counts(store: Store) -> None:
    store.save_boot(BOOT)
    store.commit({"m!a": FenceBlock(1), "m!b": FenceBlock(2)})
    store.commit({"m!a": FenceBlock(3), "m!b": None, "m!c": None}, synced=True)
    again = reopened(store)
    assert again.records() == {"m!a": FenceBlock(3)}
    assert again.boot_record() == BOOT
    assert again.turn == 2
    again.close()


def test_a_record_of_no_family_changes_nothing(store: Store) -> None:
    class Stranger(msgspec.Struct, tag="stranger"):
        pass

    with pytest.raises(ValueError, match="no registered family"):
        store.commit({"m!a": FenceBlock(1), "m!b": Stranger()})
    assert store.records() == {}
    assert store.turn == 0


def test_two_nodes_cannot_use_one_state_folder(store: Store) -> None:
    with pytest.raises(BadConfig, match=rf"in use by another node \(process {os.getpid()}\)"):
        Store(store.folder, durability="process")


def test_files_are_for_their_owner_only(store: Store) -> None:
    store.commit({"m!a": FenceBlock(1)})
    assert store.folder.stat().st_mode & 0o077 == 0
    for file in store.folder.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file


def test_a_journal_of_a_newer_release_is_refused_and_not_changed(store: Store) -> None:
    store.commit({"m!a": FenceBlock(1)})
    store.close()
    file = store.folder / paths.JOURNAL_NAME
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    before = file.read_bytes()
    with pytest.raises(BadConfig, match=r"newer holdall \(journal version 99.*Nothing was changed"):
        Store(store.folder, durability="process")
    assert file.read_bytes() == before


def test_a_file_that_is_no_journal_is_refused(store: Store) -> None:
    store.close()
    file = store.folder / paths.JOURNAL_NAME
    file.write_bytes(b"this is no database, but it is long enough to be looked at by the reader" * 20)
    with pytest.raises(BadConfig, match="damaged"):
        Store(store.folder, durability="process")


@pytest.mark.parametrize(
    ("durability", "boot_id", "is_refused"),
    [("process", "A", True), ("process", "B", False), ("power", "A", True), ("power", "B", True)],
)
def test_a_journal_that_lacks_answered_turns_is_refused_unless_a_power_cut_may_explain_it(
    tmp_path: Path, durability: str, boot_id: str, is_refused: bool
) -> None:
    folder = tmp_path / "state"
    record = msgspec.structs.replace(BOOT, durability=durability)
    store = Store(folder, durability=durability)
    store.save_boot(record)
    store.commit({"m!a": FenceBlock(1)})
    store.close()
    copy = (folder / paths.JOURNAL_NAME).read_bytes()
    later = Store(folder, durability=durability)
    later.commit({"m!a": FenceBlock(2)})
    later.close()
    (folder / paths.JOURNAL_NAME).write_bytes(copy)
    last = Store(folder, durability=durability)
    if is_refused:
        with pytest.raises(BadConfig, match="ends with turn 1, but turn 2 has been answered"):
            last.check_turns(record, boot_id=boot_id)
    else:
        last.check_turns(record, boot_id=boot_id)
    last.close()


def test_a_new_journal_beside_an_old_mark_counts_from_its_own_first_turn(store: Store) -> None:
    store.commit({"m!a": FenceBlock(1)})
    store.close()
    (store.folder / paths.JOURNAL_NAME).unlink()
    fresh = Store(store.folder, durability="process")
    assert fresh.boot_record() is None
    fresh.save_boot(BOOT)
    again = reopened(fresh)
    again.check_turns(BOOT, boot_id="A")
    again.close()


def test_a_flipped_bit_anywhere_in_the_records_is_noticed_or_harmless(tmp_path: Path) -> None:
    store = Store(tmp_path / "state", durability="process")
    store.save_boot(BOOT)
    for limit in range(1, 6):
        store.commit({"m!a": FenceBlock(limit), f"m!{limit}": FenceBlock(limit * 1000)})
    whole = store.records()
    store.sync()
    store.close()
    file = tmp_path / "state" / paths.JOURNAL_NAME
    good = file.read_bytes()
    at = good.index(b"fence_block")
    outcomes: dict[str, int] = {}
    for offset in range(at - 40, min(at + 200, len(good))):
        file.write_bytes(good[:offset] + bytes([good[offset] ^ 0x10]) + good[offset + 1 :])
        outcome = _opened(tmp_path / "state", whole)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert outcomes["noticed"] > 100
    assert set(outcomes) <= {"noticed", "same"}


def test_a_journal_cut_at_any_place_is_refused_or_whole_or_counts_as_lost(tmp_path: Path) -> None:
    store = Store(tmp_path / "state", durability="process")
    store.save_boot(BOOT)
    for limit in range(1, 4):
        store.commit({f"m!{limit}": FenceBlock(limit)})
    whole = store.records()
    wal = tmp_path / "state" / (paths.JOURNAL_NAME + "-wal")
    good_wal = wal.read_bytes()
    good = (tmp_path / "state" / paths.JOURNAL_NAME).read_bytes()
    mark = (tmp_path / "state" / "holdall.turn").read_bytes()
    store.close()
    outcomes: set[str] = set()
    for size in (*range(0, len(good_wal), 1031), len(good_wal) - 1, len(good_wal)):
        folder = tmp_path / f"cut-{size}"
        folder.mkdir()
        (folder / paths.JOURNAL_NAME).write_bytes(good)
        (folder / (paths.JOURNAL_NAME + "-wal")).write_bytes(good_wal[:size])
        (folder / "holdall.turn").write_bytes(mark)
        outcomes.add(_opened(folder, whole))
    assert outcomes == {"noticed", "same", "lost"}


def _opened(folder: Path, whole: dict[str, Record]) -> str:
    """What the next start in the same kernel boot makes of it."""
    store = None
    try:
        store = Store(folder, durability="process")
        earlier = store.boot_record()
        if earlier is None:
            return "lost"
        store.check_turns(earlier, boot_id="A")
        return "same" if store.records() == whole else "changed"
    except (BadConfig, JournalBroken):
        return "noticed"
    finally:
        if store is not None:
            store.close()


def test_a_full_disk_rolls_the_turn_back_and_it_can_be_tried_again(store: Store) -> None:
    store.commit({"m!a": FenceBlock(1)})
    pages = store.db.execute("PRAGMA page_count").fetchone()[0]
    store.db.execute(f"PRAGMA max_page_count={pages}")
    large: dict[str, Record | None] = {f"m!{'k' * 500}{n}": FenceBlock(n) for n in range(100)}
    with pytest.raises(JournalFull, match="no space left"):
        store.commit(large, synced=True)
    assert store.records() == {"m!a": FenceBlock(1)}
    assert store.turn == 1
    store.db.execute("PRAGMA max_page_count=100000")
    store.commit(large)
    assert len(store.records()) == 101
    assert store.turn == 2


def test_after_close_nothing_is_written(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(JournalBroken):
        store.commit({"m!a": FenceBlock(1)})


def test_level_power_syncs_every_commit(tmp_path: Path) -> None:
    store = Store(tmp_path / "state", durability="power")
    assert store.db.execute("PRAGMA synchronous").fetchone()[0] == 2
    store.commit({"m!a": FenceBlock(1)}, synced=True)
    assert store.db.execute("PRAGMA synchronous").fetchone()[0] == 2
    store.close()


def test_level_process_syncs_only_what_is_asked_for(store: Store) -> None:
    statements: list[str] = []
    store.db.set_trace_callback(statements.append)
    store.commit({"m!a": FenceBlock(1)})
    assert not [one for one in statements if "synchronous" in one]
    store.commit({"m!a": FenceBlock(2)}, synced=True)
    assert [one for one in statements if "synchronous" in one] == [
        "PRAGMA synchronous=FULL",
        "PRAGMA synchronous=NORMAL",
    ]

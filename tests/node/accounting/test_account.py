"""The account of a real node: in the journal with its leases, whatever kills the node; and `holdall usage`."""

import asyncio
import contextlib
import csv
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from node.accounting.books import book_key, units
from node.lab import CONFIG, Lab, lab
from node.waiting import until
from system.web import Http

from holdall.machine.contract import Record
from holdall.model import frames
from holdall.model.frames import Ask, Denied, Listing
from holdall.model.spec import parse_needs
from holdall.node.accounting import account as account_module
from holdall.node.accounting import tables
from holdall.node.accounting.account import Account
from holdall.node.accounting.clock import Difference, difference
from holdall.node.accounting.intervals import Entries, Held, Row
from holdall.node.clock import wall_ms
from holdall.node.failpoint import ENV
from holdall.node.store import JournalBroken, JournalFull, Steps, Store


@pytest.fixture
def host() -> Iterator[Lab]:
    with lab() as made:
        yield made


def usage(host: Lab, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "holdall.cli", "usage", "--url", f"unix://{host.socket}", *arguments],
        env=host.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def rows(host: Lab, *arguments: str) -> list[dict[str, object]]:
    done = usage(host, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["v"], document["node"]) == (1, "lab-1")
    listed: list[dict[str, object]] = document["usage"]
    return listed


@pytest.mark.system
def test_usage_of_a_node_that_is_killed_in_between(host: Lab) -> None:
    host.start("--new")
    assert usage(host).stderr == "nothing has been held\n"
    with host.client(agent="ci") as ci:
        first = ci.lease("board:2", "psu:1")
        ci.release(first.key)
        held = ci.lease("board:1")
        (boards, psus) = rows(host, "--by", "pool")
        assert (boards["group"], boards["leases"], boards["stretches"], boards["now"]) == ("board", 2, 3, 1)
        assert (psus["group"], psus["leases"], psus["stretches"], psus["now"]) == ("psu", 1, 1, 0)
        assert int(str(boards["amount_ms"])) == boards["held_ms"]
        before = usage(host, "--by", "unit", "--csv")
        host.kill()
        host.start()
        parsed = list(csv.DictReader(io.StringIO(usage(host, "--by", "unit", "--csv").stdout)))
        then = list(csv.DictReader(io.StringIO(before.stdout)))
        assert [(row["unit"], row["stretches"]) for row in parsed] == [
            (row["unit"], row["stretches"]) for row in then
        ]
        # What was over is as it was; what is held goes on.
        assert [row["held_ms"] for row in parsed if row["now"] == "0"] == [
            row["held_ms"] for row in then if row["now"] == "0"
        ]
    with host.client(agent="ci", session=ci.welcome.session, secret=ci.welcome.secret) as again:
        again.release(held.key)
        (boards, _) = rows(host, "--by", "pool")
        assert (boards["leases"], boards["stretches"], boards["now"]) == (2, 3, 0)
    (line, *_) = usage(host, "--by", "end").stdout.splitlines()
    assert line.split() == ["END", "TERM", "LEASES", "HELD", "AMOUNT", "x", "TIME", "USED", "DENIED", "NOW"]
    assert {row["group"] for row in rows(host, "--by", "end")} == {"released"}
    refused = usage(host, "--by", "colour")
    assert (refused.returncode, "none of holder, affiliation" in refused.stderr) == (64, True)


LEFT_BY_ITS_PROCESS = """
import os, sys, holdall
hub = holdall.sync.connect(sys.argv[1], agent="gone").__enter__()
hub.lease("board:1")
os._exit(0)
"""


@pytest.mark.system
def test_each_end_of_a_lease_of_units_has_its_name_in_every_form_and_after_a_restart(host: Lab) -> None:
    host.start("--new")
    url = f"unix://{host.socket}"
    with host.client(agent="op") as op, host.client(agent="ci") as ci:
        ci.release(ci.lease("board:1").key)
        by_force, asked = ci.lease("board:1"), ci.lease("board:1")
        op.send(frames.Kick(op.n(), by_force.lease.lease, reason="maintenance", unsafe=True))
        op.wait(frames.Released)
        op.send(frames.Kick(op.n(), asked.lease.lease, reason="maintenance", unsafe=False))
        while not ci.wait(frames.Lost).stop:
            pass
        ci.release(asked.key)
        op.wait(frames.Released)
        ci.send(frames.Claim(ci.n(), parse_needs(["psu:1"]), ttl_ms=20_000, for_ms=300))
        ci.wait(frames.Granted)
        ci.wait(frames.Lost)
        done = subprocess.run(
            [sys.executable, "-c", LEFT_BY_ITS_PROCESS, url], env=host.environment, check=False, timeout=60
        )
        assert done.returncode == 0
        wanted = {
            ("released", "board"): 1,
            ("kicked", "board"): 2,
            ("expired", "psu"): 1,
            ("lost", "board"): 1,
        }

        def counted() -> dict[tuple[object, object], int]:
            return {
                (row["group"], row["term"]): int(str(row["stretches"])) for row in rows(host, "--by", "end")
            }

        until(lambda: counted() == wanted, "all five are over")
    host.kill()
    host.start()
    assert counted() == wanted
    table = [line.split()[:2] for line in usage(host, "--by", "end").stdout.splitlines()[1:]]
    listed = list(csv.DictReader(io.StringIO(usage(host, "--by", "end", "--csv").stdout)))
    site = Http(host.state / "http.sock")
    told = site.get("/v1/usage?by=end")["usage"]
    assert (
        {tuple(row) for row in table}
        == {(row["end"], row["term"]) for row in listed}
        == {(row["group"], row["term"]) for row in told}
        == set(wanted)
    )


@pytest.mark.system
def test_a_node_that_serves_folds_what_is_older_than_it_keeps(host: Lab) -> None:
    host.configure(CONFIG.replace("[node]\n", "[node]\naccount_days = 500\n"))
    host.start("--new")
    host.kill()
    store = Store(host.state, durability="process")
    now_ms, day_ms = wall_ms(), 86_400_000
    old = [
        Row(
            Held(f"lease-{days}", "board", "pool", "ann@lab-1", "lab", unit="b1", fence=1000 - days),
            now_ms - (days + 1) * day_ms,
            now_ms - days * day_ms,
            "released",
        )
        for days in (700, 600, 450, 10)
    ]
    store.commit({}, beside=tables.steps_of(Entries(tuple(old))))
    store.close()
    host.start()
    until(lambda: "account folded" in host.errors.read_text(), "old rows are sums")
    until(lambda: "earlier" in {row["group"] for row in rows(host, "--by", "lease")}, "they are told so")
    (sums,) = rows(host, "--by", "holder")
    assert (sums["leases"], sums["stretches"], sums["held_ms"]) == (4, 4, 4 * day_ms)
    groups = {row["group"]: row["leases"] for row in rows(host, "--by", "lease")}
    assert groups == {"earlier": 2, "lease-450": 1, "lease-10": 1}
    (month,) = rows(host, "--by", "holder", "--since", "30d")
    assert (month["leases"], month["held_ms"]) == (1, day_ms)
    host.kill()
    host.start()
    assert rows(host, "--by", "holder") == [sums]


@pytest.mark.system
@pytest.mark.parametrize("point", ["turn-before-commit", "turn-after-commit"])
@pytest.mark.parametrize("visit", [2, 5])
def test_whenever_a_node_is_killed_its_account_is_what_its_leases_say(
    host: Lab, point: str, visit: int
) -> None:
    with contextlib.suppress(OSError, AssertionError):
        host.start("--new", environment={ENV: f"{point}:kill:{visit}"})
        with host.client() as ci:
            for _ in range(visit):
                ci.release(ci.lease("board:1").key)
    assert host.ended() == -signal.SIGKILL
    host.start()
    with host.client() as ci:
        held = sum(unit.state != "free" for unit in ci.listing("pools").pools[0].units)
        sums = [row for row in rows(host, "--by", "end") if row["term"] == "board"]
        assert sum(int(str(row["now"])) for row in sums) == held
        over = [row for row in sums if row["group"] == "released"]
        assert {row["group"] for row in sums} <= {"released", "still held"}
        listed = sum(row.kind == "released" for row in ci.listing("log").log)
        assert sum(int(str(row["stretches"])) for row in over) in {listed, listed + 1}


def test_what_a_full_disk_rolls_back_is_in_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "state", durability="process")
    account = Account(store, boot_id="b", affiliation_of=lambda node: node)
    saves: dict[str, Record | None] = {book_key(1): units(1, 10)}
    whole = Store._transaction

    def fails(store: Store, steps: Steps, *, synced: bool) -> None:
        del store, steps, synced
        raise JournalFull("no space")

    monkeypatch.setattr(Store, "_transaction", fails)
    entries = account.entries(saves)
    with pytest.raises(JournalFull):
        store.commit(saves, beside=account.steps(entries))
    assert tables.Tables(store).open() == []
    monkeypatch.setattr(Store, "_transaction", whole)
    entries = account.entries(saves)
    store.commit(saves, beside=account.steps(entries))
    account.committed(entries)
    assert [one.held.unit for one in tables.Tables(store).open()] == ["u0"]
    ending = account.entries({book_key(1): None})
    store.commit({book_key(1): None}, beside=account.steps(ending))
    account.committed(ending)
    assert (tables.Tables(store).open(), tables.Tables(store).last()[0]) == ([], 1)
    store.close()


@pytest.mark.parametrize("statement", ["UPDATE account SET amount = 2", "DELETE FROM account"])
def test_rows_are_only_ever_added(tmp_path: Path, statement: str) -> None:
    store = Store(tmp_path / "state", durability="process")
    account = Account(store, boot_id="b", affiliation_of=lambda node: node)
    for saves in ({book_key(1): units(1, 10)}, {book_key(1): None}):
        entries = account.entries(saves)
        store.commit(saves, beside=account.steps(entries))
        account.committed(entries)
    before = list(tables.Tables(store).rows(0, 1))
    with pytest.raises(JournalBroken, match="only ever added to"):
        list(store.select(statement))
    assert list(tables.Tables(store).rows(0, 1)) == before
    # An account that is opened again goes on where it was.
    again = Account(store, boot_id="other", affiliation_of=lambda node: node)
    assert again.now_ms() >= before[0][1].ended_ms
    assert not again.begin({})
    store.close()


def test_what_a_start_finds_open_and_in_no_record_is_lost(tmp_path: Path) -> None:
    store = Store(tmp_path / "state", durability="process")
    account = Account(store, boot_id="b", affiliation_of=lambda node: node)
    saves = {book_key(1): units(1, 10)}
    entries = account.entries(saves)
    store.commit(saves, beside=account.steps(entries))
    account.committed(entries)
    store.forget_all()
    again = Account(store, boot_id="b", affiliation_of=lambda node: node)
    entries = again.begin({})
    store.commit({}, beside=again.steps(entries))
    ((_, row),) = tables.Tables(store).rows(0, 1)
    assert (row.why, row.held.unit, tables.Tables(store).open()) == ("lost", "u0", [])
    store.close()


def test_a_long_account_is_told_in_frames_and_only_some_are_told_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SLICE", 7)
    monkeypatch.setattr(account_module, "ROWS_PER_FRAME", 10)
    store = Store(tmp_path / "state", durability="process")
    account = Account(store, boot_id="b", affiliation_of=lambda node: node)
    for number in range(1, 26):
        for saves in ({book_key(number): units(number, number * 10)}, {book_key(number): None}):
            entries = account.entries(saves)
            store.commit(saves, beside=account.steps(entries))
            account.committed(entries)

    async def ask() -> list[tuple[Listing | Denied, ...]]:
        asked = (account.answer(Ask(1, "usage", "lease")) for _ in range(account_module.ASKED_MAX + 1))
        return await asyncio.gather(*asked)

    *told, refused = asyncio.run(ask())
    assert isinstance(refused[0], Denied)
    for answer in told:
        listings = [one for one in answer if isinstance(one, Listing)]
        assert [(len(one.usage), one.more) for one in listings] == [(10, True), (10, True), (5, False)]
        assert sum(row.stretches for one in listings for row in one.usage) == 25
    # Only rows that ended within the time are looked at.
    recent = asyncio.run(account.answer(Ask(1, "usage", "pool", since_ms=0)))[0]
    assert isinstance(recent, Listing)
    assert recent.usage == ()
    store.close()


def test_the_accounts_clock_never_goes_back() -> None:
    first = difference(None, boot_id="a", wall_ms=5_000_000, boot_ms=1_000, last_ms=0)
    assert first == Difference("a", 4_999_000)
    # Somebody has set the wall clock back: within this boot nothing changes, in the next one the account goes on.
    assert difference(first, boot_id="a", wall_ms=1_000, boot_ms=9_000, last_ms=5_003_000) == first
    later = difference(first, boot_id="b", wall_ms=1_000, boot_ms=500, last_ms=5_003_000)
    assert 500 + later.ms == 5_003_000

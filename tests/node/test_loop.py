"""One turn: what arrived -> machines -> one commit -> timers -> sends; and what happens when the commit fails."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import msgspec
import pytest
from node.waiting import until_async

from holdall.leases.records import FenceBlock
from holdall.machine.contract import (
    Address,
    Boot,
    ClockRead,
    Effect,
    Event,
    ProtocolViolation,
    Received,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.machine.host import Host
from holdall.node import loop as loop_module
from holdall.node.failpoint import Failpoint
from holdall.node.log import make_log
from holdall.node.loop import Loop
from holdall.node.store import JournalFull, Store
from holdall.parties.messages import AGENT, DrainNode, ProcessGone

OUTSIDE = Address("lab-1", "session/x")
BOOT = Boot("same", 1, 1)


class Counter:
    """Counts what it is asked, saves the count, answers with it; sets a timer when asked to drain."""

    def __init__(self) -> None:
        self.count = 0
        self.clocks = 0

    def start(self) -> Sequence[Effect]:
        return []

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        saved = records.get("count")
        self.count = saved.limit if isinstance(saved, FenceBlock) else 0
        return [Send(OUTSIDE, FenceBlock(self.count))]

    def handle(self, event: Event) -> Sequence[Effect]:
        match event:
            case Received(_, ClockRead()):
                self.clocks += 1
                return []
            case Received(_, DrainNode(on)):
                return [SetTimer("later", 1 if on else 600_000)]
            case Received(_, ProcessGone("violation")):
                raise ProtocolViolation("not now")
            case Received(_, ProcessGone("bug")):
                raise KeyError("bug")
            case Received(_, ProcessGone("stranger")):
                return [Save("x", Stranger()), Send(OUTSIDE, FenceBlock(-2))]
            case Received():
                self.count += 1
                return [Save("count", FenceBlock(self.count)), Send(OUTSIDE, FenceBlock(self.count))]
            case TimerFired(timer):
                return [Send(OUTSIDE, ProcessGone(timer))]

    def key(self) -> Hashable:
        return self.count

    def copy(self) -> Self:
        raise NotImplementedError


class Stranger(msgspec.Struct, frozen=True, tag="stranger"):
    pass


class Outside:
    """Takes what is sent, and notes what the journal had at that moment."""

    def __init__(self, store: Store) -> None:
        self.got: list[msgspec.Struct] = []
        self.journalled: list[int] = []
        self.turns = 0
        self._store = store

    def deliver(self, sender: Address, to: Address, message: msgspec.Struct) -> None:
        assert (sender, to) == (Address("lab-1", AGENT), OUTSIDE)
        self.got.append(message)
        saved = self._store.records().get("agent!count")
        self.journalled.append(saved.limit if isinstance(saved, FenceBlock) else 0)

    def turn_done(self) -> None:
        self.turns += 1


class Bench:
    """A loop over one Counter."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.machine = Counter()
        self.outside = Outside(store)
        self.failures: list[str] = []
        self.loop = Loop(
            Host("lab-1", {AGENT: self.machine}),
            store,
            self.outside,
            make_log(),
            failed=self.failures.append,
            failpoint=Failpoint(""),
        )

    def ask(self, what: str = "x") -> None:
        self.loop.put(AGENT, OUTSIDE, ProcessGone(what))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "state", durability="process")
    yield opened
    opened.close()


def drive(store: Store, script: Callable[[Bench], Awaitable[None]]) -> Bench:
    async def run() -> Bench:
        bench = Bench(store)
        bench.loop.begin(BOOT)
        await script(bench)
        bench.loop.stop()
        return bench

    return asyncio.run(run())


def numbers(messages: Sequence[msgspec.Struct]) -> list[int]:
    return [message.limit for message in messages if isinstance(message, FenceBlock)]


def test_everything_that_arrived_is_one_turn_and_its_answers_leave_after_its_commit(store: Store) -> None:
    async def script(bench: Bench) -> None:
        await until_async(lambda: bench.machine.clocks, "the clock is told after the start")
        for _ in range(3):
            bench.ask()
        await until_async(lambda: len(bench.outside.got) == 4, "three answers")

    bench = drive(store, script)
    assert numbers(bench.outside.got) == [0, 1, 2, 3]
    assert bench.outside.journalled == [0, 3, 3, 3]
    assert store.turn == 1


def test_a_timer_fires_and_a_far_one_does_not(store: Store) -> None:
    async def script(bench: Bench) -> None:
        bench.loop.put(AGENT, OUTSIDE, DrainNode(on=True))
        await until_async(lambda: len(bench.outside.got) == 2, "the timer has fired")
        bench.loop.put(AGENT, OUTSIDE, DrainNode(on=False))
        bench.ask()
        await until_async(lambda: len(bench.outside.got) == 3, "an answer")
        assert len(bench.loop.timers) == 1

    assert drive(store, script).outside.got[1] == ProcessGone("later")


def test_what_was_committed_is_there_after_a_restart(store: Store) -> None:
    async def script(bench: Bench) -> None:
        bench.ask()
        await until_async(lambda: len(bench.outside.got) >= 2, "an answer")

    drive(store, script)
    assert numbers(drive(store, script).outside.got) == [1, 2]


def test_a_message_that_cannot_be_is_refused_counted_and_the_rest_of_the_turn_counts(store: Store) -> None:
    async def script(bench: Bench) -> None:
        for what in ("x", "violation", "x"):
            bench.ask(what)
        await until_async(lambda: len(bench.outside.got) == 3, "two answers")

    bench = drive(store, script)
    assert bench.loop.refused == 1
    assert numbers(bench.outside.got) == [0, 1, 2]


@pytest.mark.parametrize("what", ["bug", "stranger"])
def test_a_failing_machine_ends_the_node_and_nothing_of_the_turn_is_kept_or_told(
    store: Store, what: str
) -> None:
    async def script(bench: Bench) -> None:
        bench.ask()
        bench.ask(what)
        await until_async(lambda: bench.failures, "the failure is told")
        bench.ask()
        await asyncio.sleep(0)

    bench = drive(store, script)
    assert numbers(bench.outside.got) == [0]
    assert store.records() == {}
    assert len(bench.failures) == 1


class FullDisk:
    """A journal for which there is space from its `until`th try on."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch, *, until: int) -> None:
        self.tries = 0
        self._until, self._commit = until, store.commit
        monkeypatch.setattr(store, "commit", self.commit)

    def commit(self, saves: Mapping[str, Record | None], *, synced: bool = False) -> None:
        self.tries += 1
        if self.tries < self._until:
            raise JournalFull("no space left.")
        self._commit(saves, synced=synced)


def test_on_a_full_disk_the_turn_waits_and_goes_on_when_there_is_space(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "FULL_RETRY_S", 0.01)
    disk = FullDisk(store, monkeypatch, until=5)

    async def script(bench: Bench) -> None:
        bench.ask()
        await until_async(lambda: disk.tries == 2, "a second try")
        assert numbers(bench.outside.got) == [0]
        bench.ask()
        await until_async(lambda: len(bench.outside.got) == 3, "two answers")

    bench = drive(store, script)
    assert numbers(bench.outside.got) == [0, 1, 2]
    assert bench.outside.journalled == [0, 1, 2]
    assert bench.failures == []


def test_what_arrives_while_the_disk_is_full_makes_nobody_try_it_more_often(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "FULL_RETRY_S", 0.02)
    disk = FullDisk(store, monkeypatch, until=6)

    async def script(bench: Bench) -> None:
        bench.ask()
        await until_async(lambda: disk.tries == 1, "a first try")
        for _ in range(100):
            bench.ask()
            await asyncio.sleep(0)
        await until_async(lambda: len(bench.outside.got) == 102, "all answers")

    bench = drive(store, script)
    assert numbers(bench.outside.got) == list(range(102))
    # the sixth try is the held turn's last, the seventh is of all that has waited
    assert disk.tries == 7


def test_on_a_disk_that_stays_full_the_node_ends_with_a_text(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "FULL_RETRY_S", 0.01)
    monkeypatch.setattr(loop_module, "FULL_GIVE_UP_MS", 50)
    pages = store.db.execute("PRAGMA page_count").fetchone()[0]
    store.db.execute(f"PRAGMA max_page_count={pages}")

    def full(saves: Mapping[str, Record | None], *, synced: bool = False) -> None:
        Store.commit(store, {**saves, **large}, synced=synced)

    large: dict[str, Record | None] = {f"m!{'k' * 500}{number}": FenceBlock(number) for number in range(100)}

    async def script(bench: Bench) -> None:
        bench.ask()
        monkeypatch.setattr(store, "commit", full)
        await until_async(lambda: bench.failures, "the node gives up")

    bench = drive(store, script)
    assert "no space left" in bench.failures[0]
    assert numbers(bench.outside.got) == [0]


def test_a_journal_that_cannot_be_written_ends_the_node_at_once(store: Store) -> None:
    async def script(bench: Bench) -> None:
        await until_async(lambda: bench.machine.clocks, "the start is over")
        store.db.execute("DROP TABLE record")
        bench.ask()
        await until_async(lambda: bench.failures, "the failure is told")

    bench = drive(store, script)
    assert "can't be written" in bench.failures[0]
    assert numbers(bench.outside.got) == [0]

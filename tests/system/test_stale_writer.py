"""A holder that was stopped too long and writes once more: the store refuses it by its fences, the history shows it."""

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from node.lab import Lab, lab
from node.waiting import until
from system.runs import all_free, environment
from system.store_writer import Orders, Report, Write, write, writes_of
from system.test_stress import check, lines_of

import holdall
from holdall.client.history import HistoryWriter, UnitNames

pytestmark = [pytest.mark.system, pytest.mark.requires("linux")]

POOLS = {"board": ("board-1", "board-2", "board-3"), "psu": ("psu-1", "psu-2")}


class Store(threading.Thread):
    """Keeps a value for each unit, and the highest fence it was written with: a lower one changes nothing.

    A store that is not `guarded` takes everything: what happens then must be found.
    """

    def __init__(self, path: Path, history: Path, *, guarded: bool) -> None:
        super().__init__(daemon=True)
        self.path, self.guarded = str(path), guarded
        self.kept: dict[tuple[str, str], Write] = {}
        self._history = history
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(self.path)
        self._socket.listen()

    def run(self) -> None:
        """One write a connection, one after the other, until one is empty."""
        with self._socket, HistoryWriter(self._history, "store") as history:
            while True:
                connection, _ = self._socket.accept()
                with connection:
                    body = connection.recv(4096)
                    if not body:
                        return
                    taken = self._write(msgspec.json.decode(body, type=Write), history)
                    connection.send(b"taken" if taken else b"refused")

    def _write(self, one: Write, history: HistoryWriter) -> bool:
        start = history.now()
        known = self.kept.get((one.pool, one.unit))
        taken = known is None or one.fence >= known.fence or not self.guarded
        if taken:
            self.kept[one.pool, one.unit] = one
        history.use(one.pool, one.unit, fence=one.fence, start=start, accepted=taken)
        return taken

    def stop(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as last:
            last.connect(self.path)
        self.join()


@dataclass
class Bench:
    """A node, a store, and a folder with all histories."""

    node: Lab
    folder: Path
    store: Store

    @property
    def url(self) -> str:
        return f"unix://{self.node.socket}"

    @property
    def steps(self) -> int:
        path = self.folder / "steps"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def history(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def histories(self) -> list[Path]:
        return sorted(self.folder.glob("*.jsonl"))


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="hd"))
    store = Store(folder / "store.sock", folder / "store.jsonl", guarded=getattr(request, "param", True))
    store.start()
    try:
        with lab() as node:
            node.start("--new")
            yield Bench(node, folder, store)
    finally:
        store.stop()
        shutil.rmtree(folder)


def first_writer(bench: Bench, style: str) -> "subprocess.Popen[str]":
    """Holds both power supplies and a board; writes once for each word that it gets."""
    orders = Orders(
        bench.url, str(bench.history("first")), bench.store.path, str(bench.folder / "steps"), style
    )
    script = Path(__file__).with_name("store_writer.py")
    return subprocess.Popen(
        [sys.executable, str(script), msgspec.json.encode(orders).decode()],
        env=environment(bench.node),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def say(process: "subprocess.Popen[str]", word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def audit(bench: Bench, driver: HistoryWriter, *, quiesced: bool) -> None:
    call = driver.now()
    with holdall.sync.connect(bench.url, agent="driver") as hub:
        for row in hub.pools():
            driver.audit(
                row.pool,
                call=call,
                total=row.total,
                free=row.free,
                held=row.held + row.unusable,
                fences={f"{unit.unit}@{row.node}": unit.fence for unit in row.units},
                quiesced=quiesced,
            )


def paused_over_its_lease(bench: Bench, style: str) -> tuple[Report, list[Write], list[Write]]:
    """The first writer is stopped in its third step, the second gets the units and writes, the first goes on.

    Returns the first's report, what the store had of the first, and the writes of the second.
    """
    with HistoryWriter(bench.history("driver"), "driver") as driver:
        driver.meta(
            {pool: UnitNames([f"{unit}@lab-1" for unit in units]) for pool, units in POOLS.items()},
            max_wait="60s",
        )
        process = first_writer(bench, style)
        try:
            until(lambda: bench.steps == 1, "it is in the middle of a step")
            say(process, "go")
            until(lambda: bench.steps == 2, "it is in the middle of another one")
            say(process, "go")
            until(lambda: bench.steps == 3, "it is in the middle of its third step")
            before = list(bench.store.kept.values())
            stopped = driver.now()
            process.send_signal(signal.SIGSTOP)
            with (
                holdall.sync.connect(bench.url, agent="second", history=bench.history("second")) as hub,
                hub.lease("psu:2", "board:3", wait=60) as lease,
            ):
                audit(bench, driver, quiesced=False)
                second = writes_of(lease, "second")
                taken = [write(bench.store.path, one) for one in second]
                assert all(taken)
                say(process, "go")
                process.send_signal(signal.SIGCONT)
                driver.fault("pause", start=stopped, end=driver.now(), excuse=True, client="first")
                out, _ = process.communicate(timeout=60)
                lease.check()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            process.communicate()
        assert process.returncode == 0
        until(lambda: all_free(bench.node), "everything is free")
        audit(bench, driver, quiesced=True)
        driver.end()
    return msgspec.json.decode(out, type=Report), before, second


@pytest.mark.parametrize("style", ["asyncio", "threads"])
def test_c8_the_late_write_of_a_stopped_holder_is_refused_and_it_learns_of_its_loss_before_its_next_step(
    bench: Bench, style: str
) -> None:
    report, first, second = paused_over_its_lease(bench, style)

    old = {(one.pool, one.unit): one.fence for one in first}
    new = {(one.pool, one.unit): one.fence for one in second}
    assert len(old) == 3
    assert all(new[unit] > old[unit] for unit in old), "a higher fence for every unit"
    assert (report.accepted, report.refused) == (6, 3), "two steps, and then the late one"
    assert bench.steps == 3, "no step was begun after the loss"
    assert report.lost.count("lost: no renewal") == 1, report.lost
    assert sorted(bench.store.kept.values(), key=str) == sorted(second, key=str)
    uses = [line for line in lines_of(bench.histories()) if line["t"] == "use"]
    refused = {(use["pool"], use["unit"]): use["fence"] for use in uses if not use.get("accepted", True)}
    assert refused == old
    status, verdict = check(bench.histories(), "--min-grants", "2", "--min-contended", "1")
    assert (status, verdict["violations"], verdict["damage"], verdict["shortfalls"]) == (0, [], [], [])


@pytest.mark.parametrize("bench", [False], indirect=True)
def test_c8_a_store_that_does_not_look_at_fences_takes_the_late_write_and_is_found(bench: Bench) -> None:
    report, first, _ = paused_over_its_lease(bench, "threads")
    assert (report.accepted, report.refused) == (9, 0)
    status, verdict = check(bench.histories())
    assert status != 0
    assert {one["rule"] for one in verdict["violations"]} == {"stale-use"}
    assert len(verdict["violations"]) == len(first)

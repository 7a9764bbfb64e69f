"""Words to a service manager: a real datagram socket, and a real node that is started as systemd starts one."""

import asyncio
import contextlib
import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from node.lab import CONFIG, lab
from node.waiting import until

from holdall.node.service_manager import MORE_TIME_S, ROUND_S, ServiceManager, status_text


class Manager:
    """What systemd does: a bound socket, datagrams of `NAME=value` lines."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.settimeout(30)

    def word(self) -> dict[str, str]:
        lines = self.socket.recv(4096).decode().split("\n")
        return dict(line.split("=", 1) for line in lines)

    def word_with(self, name: str) -> dict[str, str]:
        while True:
            word = self.word()
            if name in word:
                return word


@pytest.fixture
def address() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="hd") as folder:
        yield f"{folder}/notify"


def test_the_environment_is_read_once_and_passed_to_no_child() -> None:
    environment = {
        "NOTIFY_SOCKET": "/nowhere/notify",
        "WATCHDOG_USEC": "30000000",
        "WATCHDOG_PID": str(os.getpid()),
        "LANG": "C",
    }
    manager = ServiceManager.from_environment(environment)
    assert (manager.listens, manager.watchdog_us, manager.round_s) == (True, 30_000_000, 10.0)
    assert environment == {"LANG": "C"}
    manager.tell(READY=1)  # nobody is there, and that is no error
    manager.close()
    assert not ServiceManager.from_environment(environment).listens


@pytest.mark.parametrize(
    ("interval", "pid", "read"),
    [("6000000", "", 6_000_000), ("6000000", "1", 0), ("soon", "", 0), ("-5", "", 0), ("", "", 0)],
)
def test_a_watchdog_counts_only_for_the_process_that_is_meant(interval: str, pid: str, read: int) -> None:
    manager = ServiceManager.from_environment({"WATCHDOG_USEC": interval, "WATCHDOG_PID": pid})
    assert manager.watchdog_us == read
    assert manager.round_s == (2.0 if read else ROUND_S)


@pytest.mark.parametrize("address", ["vsock:2:1234", "relative", ""])
def test_addresses_of_other_kinds_are_nobody(address: str) -> None:
    manager = ServiceManager(address)
    assert not manager.listens
    manager.tell(READY=1)
    asyncio.run(manager.keep_told(lambda: {"ok": True}))


def test_words_arrive_by_path_and_by_abstract_name(address: str) -> None:
    for where in (address, f"@holdall-test-{os.getpid()}"):
        heard = Manager(where)
        manager = ServiceManager(where)
        manager.ready("lab-1: serving\nREADY=0")
        assert heard.word() == {"READY": "1", "STATUS": "lab-1: serving READY=0"}
        before_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        manager.reloading()
        word = heard.word()
        assert word["RELOADING"] == "1"
        assert before_us <= int(word["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        manager.stopping()
        assert heard.word() == {"STOPPING": "1"}
        manager.close()
        heard.socket.close()


def test_a_full_socket_keeps_nobody_waiting(address: str) -> None:
    heard = Manager(address)
    manager = ServiceManager(address)
    for _ in range(2000):  # far more than the kernel keeps for a reader that does not read
        manager.tell(WATCHDOG=1)
    manager.close()
    heard.socket.close()


def test_a_start_that_waits_asks_for_time_and_only_a_node_that_serves_feeds_the_watchdog(
    address: str,
) -> None:
    heard = Manager(address)
    manager = ServiceManager(address, watchdog_us=30_000)
    states: list[Mapping[str, object]] = [
        {"ok": False, "state": "starting", "node": "lab-1"},
        {"ok": True, "state": "serving", "node": "lab-1"},
        {"ok": False, "state": "failed", "node": "lab-1"},
    ]
    asked = iter(states)

    # StopIteration may not leave a coroutine: Python makes a RuntimeError of it.
    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(manager.keep_told(lambda: next(asked)))
    assert heard.word() == {
        "EXTEND_TIMEOUT_USEC": str(int(MORE_TIME_S * 1_000_000)),
        "STATUS": "lab-1: starting",
    }
    assert heard.word() == {"STATUS": "lab-1: serving", "WATCHDOG": "1"}
    heard.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        heard.word()
    manager.close()
    heard.socket.close()


def test_the_status_says_when_a_quarantine_ends() -> None:
    health = {"state": "quarantine", "node": "lab-1", "quarantine_ms": 90_000}
    assert status_text(health) == "lab-1: quarantine, grants in 90 s"


@pytest.mark.system
@pytest.mark.requires("linux")
def test_a_node_tells_its_manager_that_it_is_ready_alive_reloading_and_stopping(address: str) -> None:
    heard = Manager(address)
    with lab() as made:
        seen = made.folder / "environment"
        hook = f"sh -c 'env > {seen}; mv {seen} {seen}.whole'"
        made.configure(
            CONFIG.replace('units = ["psu-1", "psu-2"]', f'units = ["psu-1"]\non_release = "{hook}"')
        )
        made.start("--new", environment={"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "300000"})
        assert heard.word()["STATUS"] == "lab-1: starting"
        assert heard.word_with("READY") == {"READY": "1", "STATUS": "lab-1: serving"}
        for _ in range(3):
            assert heard.word_with("WATCHDOG") == {"STATUS": "lab-1: serving", "WATCHDOG": "1"}
        with made.client() as client:
            client.release(client.lease("psu:1").key)
        whole = seen.with_suffix(".whole")
        until(whole.exists, "the hook has run")
        assert "HOLDALL_RUN_DIR" in whole.read_text()
        assert "NOTIFY_SOCKET" not in whole.read_text()
        assert "WATCHDOG_USEC" not in whole.read_text()
        assert made.process is not None
        made.process.send_signal(signal.SIGHUP)
        assert "MONOTONIC_USEC" in heard.word_with("RELOADING")
        assert heard.word_with("READY")["READY"] == "1"
        assert made.stop() == 0
        assert heard.word_with("STOPPING") == {"STOPPING": "1"}
    heard.socket.close()


@pytest.mark.system
@pytest.mark.requires("linux")
def test_a_node_that_stands_still_is_silent(address: str) -> None:
    """What a watchdog needs: no thread of its own goes on saying that all is well."""
    heard = Manager(address)
    with lab() as made:
        made.start("--new", environment={"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "300000"})
        heard.word_with("READY")
        assert made.process is not None
        made.process.send_signal(signal.SIGSTOP)
        until(lambda: " T " in Path(f"/proc/{made.process.pid}/stat").read_text(), "it is stopped")  # type: ignore[union-attr]
        heard.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while heard.word():
                pass  # what it had said before
        heard.socket.settimeout(1.0)  # ten times the round
        with pytest.raises(TimeoutError):
            heard.word()
        made.process.send_signal(signal.SIGCONT)
        assert heard.word_with("WATCHDOG")
    heard.socket.close()

"""Processes: gone, alive, or another one with the same number."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdall.node.boot import process_start_ticks
from holdall.node.processes import Processes, is_gone


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def test_a_living_process_is_not_gone_and_one_with_another_start_is(child: "subprocess.Popen[bytes]") -> None:
    started = process_start_ticks(child.pid)
    assert not is_gone(child.pid, started)
    assert not is_gone(child.pid, 0)
    assert is_gone(child.pid, started + 1)
    assert is_gone(0, 0)


def test_a_zombie_counts_as_gone(child: "subprocess.Popen[bytes]") -> None:
    started = process_start_ticks(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(child.pid, started)


def test_the_end_of_a_process_is_told_to_everybody_who_waits_for_it(child: "subprocess.Popen[bytes]") -> None:
    started = process_start_ticks(child.pid)

    async def watch() -> list[str]:
        told: list[str] = []
        over = asyncio.Event()
        processes = Processes()
        processes.when_gone(child.pid, started, "a", lambda: told.append("first a"))
        processes.when_gone(child.pid, started, "a", lambda: told.append("a"))

        def last() -> None:
            told.append("b")
            over.set()

        processes.when_gone(child.pid, started, "b", last)
        processes.when_gone(child.pid, started + 1, "c", lambda: told.append("c"))
        assert told == ["c"]
        child.kill()
        async with asyncio.timeout(20):
            await over.wait()
        processes.close()
        return told

    assert asyncio.run(watch()) == ["c", "a", "b"]


def test_a_closed_watch_keeps_no_descriptor(child: "subprocess.Popen[bytes]") -> None:
    async def watch() -> int:
        before = descriptors()
        processes = Processes()
        for name in range(2000):
            processes.when_gone(child.pid, 0, str(name), lambda: None)
        assert descriptors() == before + 1
        processes.close()
        return descriptors() - before

    assert asyncio.run(watch()) == 0

"""A gate, and a clock that leaps."""

import asyncio
import time
from collections.abc import Callable, Coroutine

from holdall.leases.capacity import CapacityBook
from holdall.leases.shares import Shares
from holdall.node.gate.gate import Change, Gate

CAPACITY = 1_000_000


class Clock:
    """Real time, and leaps on demand: a test that waits for an end need not wait for it."""

    def __init__(self) -> None:
        self.leapt_ns = 0
        self.changes: list[Change] = []

    def __call__(self) -> int:
        return time.monotonic_ns() + self.leapt_ns

    def leap(self, seconds: float) -> None:
        self.leapt_ns += int(seconds * 1e9)


def gate_of(clock: Clock, *, linger_ms: int | None = None) -> Gate:
    return Gate(
        CapacityBook(Shares(CAPACITY), linger_ms=linger_ms), clock_ns=clock, changed=clock.changes.append
    )


def run(story: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 60))

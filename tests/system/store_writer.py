"""A program that writes to a store with the fences of its lease, in steps; a process of its own, so that it can be stopped.

It looks at its lease before each step, as one should. In the middle of a step it waits for a word from its standard
input: who is stopped there goes on with a write that was allowed when it began.
"""

import asyncio
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

import holdall


class Orders(msgspec.Struct, frozen=True):
    """Its only argument, as JSON."""

    url: str
    history: str
    store: str
    """The store's socket."""
    steps: str
    """A file that gets a line when a step begins."""
    style: str
    """`asyncio` (the block is left on loss) or `threads` (only the look before each step tells)."""


class Write(msgspec.Struct, frozen=True):
    """One write to a unit."""

    pool: str
    unit: str
    fence: int
    value: str


class Report(msgspec.Struct):
    """What it prints at its end, as JSON."""

    accepted: int = 0
    refused: int = 0
    lost: str = ""


def write(store: str, one: Write) -> bool:
    """Whether the store took it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(store)
        connection.send(msgspec.json.encode(one))
        return connection.recv(16) == b"taken"


def writes_of(lease: holdall.Lease | holdall.sync.Lease, value: str) -> list[Write]:
    return [
        Write(pool, str(unit), unit.fence, value) for pool, units in lease.units.items() for unit in units
    ]


def step(orders: Orders, report: Report, lease: holdall.Lease | holdall.sync.Lease) -> None:
    """Nothing interrupts it once it has begun."""
    lease.check()
    prepared = writes_of(lease, "first")
    with Path(orders.steps).open("a") as file:
        file.write("begun\n")
    sys.stdin.readline()
    for one in prepared:
        if write(orders.store, one):
            report.accepted += 1
        else:
            report.refused += 1


async def with_asyncio(orders: Orders, one_step: Callable[[holdall.Lease], None]) -> None:
    async with (
        holdall.connect(orders.url, agent="first", history=orders.history) as hub,
        hub.lease("psu:2", "board:1", ttl=2) as lease,
    ):
        while True:
            one_step(lease)
            await asyncio.sleep(0)


def with_threads(orders: Orders, one_step: Callable[[holdall.sync.Lease], None]) -> None:
    with (
        holdall.sync.connect(orders.url, agent="first", history=orders.history) as hub,
        hub.lease("psu:2", "board:1", ttl=2, on_loss="event") as lease,
    ):
        while True:
            one_step(lease)


def work(orders: Orders) -> Report:
    report = Report()
    try:
        if orders.style == "asyncio":
            asyncio.run(with_asyncio(orders, lambda lease: step(orders, report, lease)))
        else:
            with_threads(orders, lambda lease: step(orders, report, lease))
    except holdall.LeaseLost as loss:
        report.lost = str(loss)
    return report


if __name__ == "__main__":
    print(msgspec.json.encode(work(msgspec.json.decode(sys.argv[1], type=Orders))).decode())

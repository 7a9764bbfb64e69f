"""A gate as a process of its own: `python -m holdall.node.gate`, told what to do by one line on standard input.

It answers with one line, where its message ports listen, works until standard input ends, and says then what it did.
"""

import asyncio
import sys
from typing import Annotated

import msgspec

from holdall.leases.capacity import CapacityBook
from holdall.leases.divisions import Rule
from holdall.leases.shares import Shares
from holdall.model.decoding import decoded
from holdall.model.quantities import AMOUNT_MAX
from holdall.node.gate.gate import Change, Gate
from holdall.node.gate.messages import MessagePort

USAGE = 64


class Told(msgspec.Struct, frozen=True):
    """The first line."""

    capacity: Annotated[int, msgspec.Meta(ge=1, le=AMOUNT_MAX)]
    """Bytes a second."""
    holders: dict[str, tuple[str, int]]
    """Each has a port of its own, and a counterpart at this address."""
    rule: Rule = "fair"
    linger_ms: int | None = None
    """How long a message may go on after the end of its lease; None: for the lease's duration, 30 s at most."""


class Opened(msgspec.Struct, frozen=True):
    """The answer."""

    ports: dict[str, tuple[str, int]]
    """By holder."""


class Done(msgspec.Struct, frozen=True):
    """What the gate did, by its own count at the instants at which bytes were let go."""

    capacity: int
    depth: int
    """Of the root bucket."""
    sent: int
    """Bytes in all."""
    busiest_1s: int
    """Bytes in the busiest window of one second."""
    denied: dict[str, int]
    """By holder: messages without a lease."""
    changes: list[Change]
    """Of what holders had, in order."""


async def work() -> int:
    """Until standard input ends; the exit status, 64 for a first line that can't be read."""
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    try:
        told = decoded(msgspec.json.Decoder(Told).decode, await commands.readline())
    except msgspec.DecodeError as wrong:
        sys.stderr.write(
            f'holdall: {wrong}. Write one line such as {{"capacity":100000,"holders":{{"a":["127.0.0.1",9000]}}}}\n'
        )
        return USAGE
    # Only this process counts here: its clock is the manager's, so no margin for two clocks is needed.
    book = CapacityBook(Shares(told.capacity, rule=told.rule), linger_ms=told.linger_ms)
    changes: list[Change] = []
    gate = Gate(book, changed=changes.append)
    ports = {holder: MessagePort(gate, holder=holder, to=to) for holder, to in told.holders.items()}
    say(Opened({holder: await port.open() for holder, port in ports.items()}))
    await commands.read()
    for port in ports.values():
        await port.close()
    gate.close()
    say(
        Done(
            capacity=told.capacity,
            depth=gate.root.depth,
            sent=gate.busiest.total,
            busiest_1s=gate.busiest.most,
            denied=book.denied,
            changes=changes,
        )
    )
    return 0


def say(value: Opened | Done) -> None:
    """As one line."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()

"""One repetition: a gate in a process of its own, senders and counterparts here, all on loopback TCP."""

import asyncio
import sys
from collections.abc import Mapping
from statistics import fmean
from typing import TypeVar

import msgspec

from holdall.lab.bandwidth.agents import Broken, Sender, counterpart
from holdall.lab.bandwidth.expected import CAPACITY, LEASE_MS
from holdall.leases.divisions import Rule
from holdall.node.gate.process import Done, Opened, Told

LINE_BYTES_MAX = 1 << 26
"""What a gate did may be a long line."""
END_S = 30.0
LINGER_MS = 600_000
"""A message is finished, however little its sender was granted: with some rules that may be next to nothing."""
Line = TypeVar("Line")


class Run(msgspec.Struct, frozen=True):
    """What one repetition was and showed. Times are of the experiment: measured ones times the speed."""

    times_ms: dict[str, list[float]]
    """By agent, in order of sending."""
    did: Done
    """As the gate counted; its times and rates are not scaled back."""

    def means_ms(self) -> dict[str, float]:
        """By agent."""
        return {agent: fmean(times) for agent, times in self.times_ms.items()}


async def repeat(senders: Mapping[str, int], *, rule: Rule | None, messages: int, speed: int) -> Run:
    """All senders at once, each until its last message has arrived, then it leaves. `rule` None: without leases.

    At speed s the link is s times as fast, agents ask for s times as much, and leases last 1 / s. Raises Broken.
    """
    async with await asyncio.start_server(counterpart, "127.0.0.1") as server:
        to: tuple[str, int] = server.sockets[0].getsockname()[:2]
        told = Told(
            capacity=CAPACITY * speed,
            holders=dict.fromkeys(senders, to),
            rule=rule or "fair",
            linger_ms=LINGER_MS // speed,
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "holdall.node.gate",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES_MAX,
        )  # fmt: skip
        try:
            times_s = await _send_all(
                process, told, senders, leased=rule is not None, messages=messages, speed=speed
            )
            did = await _closed(process)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    scale = 1_000 * speed
    return Run({agent: [one * scale for one in times] for agent, times in times_s.items()}, did)


async def _send_all(
    process: asyncio.subprocess.Process,
    told: Told,
    senders: Mapping[str, int],
    *,
    leased: bool,
    messages: int,
    speed: int,
) -> dict[str, list[float]]:
    if process.stdin is None or process.stdout is None:
        raise Broken("the gate's process has no pipes")
    process.stdin.write(msgspec.json.encode(told) + b"\n")
    opened = _said(await process.stdout.readline(), Opened)
    agents = [
        Sender(
            agent,
            payload,
            amount=payload * speed,
            lease_ms=max(1, LEASE_MS // speed) if leased else None,
            at=opened.ports[agent],
        )
        for agent, payload in senders.items()
    ]
    for agent in agents:
        await agent.begin()
    try:
        async with asyncio.TaskGroup() as all_:
            sending = {agent.agent: all_.create_task(_send_and_leave(agent, messages)) for agent in agents}
    except* Broken as broken:
        raise Broken(str(broken.exceptions[0])) from broken
    return {agent: task.result() for agent, task in sending.items()}


async def _send_and_leave(agent: Sender, messages: int) -> list[float]:
    times_s = await agent.send(messages)
    await agent.end()
    return times_s


async def _closed(process: asyncio.subprocess.Process) -> Done:
    """What the gate did; it ends."""
    try:
        async with asyncio.timeout(END_S):
            said, _ = await process.communicate(b"")
    except TimeoutError:
        raise Broken(f"the gate's process has not ended within {END_S:g} s") from None
    return _said(said, Done)


def _said(line: bytes, kind: type[Line]) -> Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError as wrong:
        raise Broken(f"the gate's process has ended early, or says {line[:200]!r}: {wrong}") from wrong

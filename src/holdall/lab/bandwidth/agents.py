"""The two ends: a sender that waits for each message's answer, and the counterpart that gives it."""

import asyncio
import time
from contextlib import suppress

import msgspec

from holdall.leases.capacity import Declined, Leased
from holdall.model.frames import LENGTH_BYTES
from holdall.node.gate.messages import ACK, Answer, Arrived, Ask, Post, Posted, Refused, Release, packed

_DECODER: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


class Broken(Exception):
    """The gate has said what it may not say in this experiment."""


class Sender:
    """One agent: posts a message, waits for its arrival, posts the next. Asks for a lease when a message is denied."""

    def __init__(
        self, agent: str, payload: int, *, amount: int, lease_ms: int | None, at: tuple[str, int]
    ) -> None:
        self.agent = agent
        self._payload = bytes(payload)
        self._ask = None if lease_ms is None else Ask(amount, lease_ms)
        self._at = at
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def begin(self) -> None:
        """Connect, and ask for a first lease; whether there is one the first message will tell."""
        self._reader, self._writer = await asyncio.open_connection(*self._at)
        if self._ask is not None:
            await self._says(self._ask)

    async def send(self, messages: int) -> list[float]:
        """Response times in seconds, each from the first try to the arrival, the waits for leases included.

        Raises Broken.
        """
        times_s: list[float] = []
        for _ in range(messages):
            began_s = time.monotonic()
            await self._send_one()
            times_s.append(time.monotonic() - began_s)
        return times_s

    async def end(self) -> None:
        """Give the lease back, and go. Raises Broken."""
        if self._ask is not None:
            await self._says(Release())
        await self.abandon()

    async def abandon(self) -> None:
        """Go without a word."""
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()

    async def _send_one(self) -> None:
        while True:
            match await self._says(Post(self._payload, leased=self._ask is not None)):
                case Arrived():
                    return
                case Refused(why, broken):
                    if broken or self._ask is None:
                        raise Broken(f"{self.agent}: {why}")
                    await self._until_leased(self._ask)
                case other:
                    raise Broken(f"{self.agent}: an answer to something else: {other}")

    async def _until_leased(self, ask: Ask) -> None:
        while True:
            match await self._says(ask):
                case Leased():
                    return
                case Declined(retry_after_ms=pause_ms):
                    await asyncio.sleep(pause_ms / 1_000)
                case other:
                    raise Broken(f"{self.agent}: {other}")

    async def _says(self, posted: Posted) -> Answer:
        if self._reader is None or self._writer is None:
            raise Broken(f"{self.agent} has not begun")
        try:
            self._writer.write(packed(posted))
            await self._writer.drain()
            size = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
            return _DECODER.decode(await self._reader.readexactly(size))
        except (OSError, EOFError) as gone:
            raise Broken(f"{self.agent}: the gate is gone ({gone})") from gone


async def counterpart(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Four bytes of length, the payload; four bytes back when all of it is there. Until the gate closes."""
    try:
        while True:
            size = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
            await reader.readexactly(size)
            writer.write(ACK)
            await writer.drain()
    except (OSError, EOFError):
        # The gate closes when the run is over.
        pass
    finally:
        writer.close()

"""A forwarding port: bytes of any protocol, from connections here to one address, at a holder's leased rate.

A new connection needs a lease at that instant, else it is refused. When the lease is over, not one byte more goes out on
open connections: nothing is read, so the sender's own socket fills. A new lease lets them go on; after the linger they are
reset. What comes back from the other side is not paced: it is not this host that sends it.
"""

import asyncio
import struct
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from socket import SO_LINGER, SOL_SOCKET
from typing import Protocol

from holdall.node.gate.listening import Listener, cancelled
from holdall.node.gate.way import Cut

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on with no time: closing sends a reset, so that the other side sees no orderly end."""


class Paced(Protocol):
    """A way out, as `Way`: of a gate in this process, or of the node's."""

    @property
    def turn(self) -> AbstractAsyncContextManager[object, bool | None]:
        """Held while one piece is let go and sent."""
        ...

    @property
    def quantum(self) -> int:
        """The most bytes of one piece."""
        ...

    def offer(self, size: int) -> None:
        """So many bytes wait."""
        ...

    def give_up(self, size: int) -> None:
        """So many of them will not leave."""
        ...

    async def leave(self, most: int, *, may: Callable[[], bool]) -> int:
        """How many bytes may leave now. Raises Cut."""
        ...

    async def stirred(self, seconds: float | None = None) -> None:
        """Return when the way has changed, or after so long."""
        ...


class Opens(Protocol):
    """Who knows whether a holder has a lease now, as `Gate`."""

    def way(self, holder: str) -> Paced:
        """The holder's."""
        ...

    def is_open(self, holder: str) -> bool:
        """Whether it has a lease at this instant."""
        ...

    def try_open(self, holder: str) -> bool:
        """The same, for something new that comes: a no is counted."""
        ...


class StreamPort(Listener):
    """Listens for one holder and forwards to one address. Whoever may connect is that holder."""

    def __init__(self, gate: Opens, *, holder: str, to: tuple[str, int], linger_s: float = 30.0) -> None:
        super().__init__()
        self.gate, self.holder, self.to, self.linger_s = gate, holder, to, linger_s
        self.refused = 0
        """Connections that came without a lease."""
        self.reset = 0
        """Connections that were open when the lease had been over for too long."""
        self._watch: asyncio.Task[None] | None = None

    async def open(self, host: str = "127.0.0.1", port: int = 0) -> tuple[str, int]:
        """Where it listens from now on."""
        self._watch = asyncio.create_task(self._reset_what_lingers())
        return await super().open(host, port)

    async def close(self) -> None:
        """Nobody is listened to any more, and open connections are reset."""
        if self._watch is not None:
            await cancelled([self._watch])
        await super().close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward until both sides have said all, or one breaks off."""
        if not self.gate.try_open(self.holder):
            self.refused += 1
            _reset(writer)
            return
        streams = [writer]
        try:
            back, out = await asyncio.open_connection(*self.to)
            streams.append(out)
            await _both(_copy(back, writer), self._send(reader, out))
        except (OSError, asyncio.CancelledError):
            # One side has broken off, the lease was over for too long, or the port closes: the other side learns it.
            for stream in streams:
                _reset(stream)
        finally:
            for stream in streams:
                stream.close()

    async def _reset_what_lingers(self) -> None:
        """Waits for the end of the lease, then for another one, but not longer than the linger."""
        way = self.gate.way(self.holder)
        while True:
            while not self.serving or self.gate.is_open(self.holder):
                await way.stirred()
            try:
                async with asyncio.timeout(self.linger_s):
                    await self._until_open()
            except TimeoutError:
                self.reset += len(self.serving)
                await cancelled(self.serving)

    async def _send(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        """Until the sender has no more; then the other side is told so, and may go on answering."""
        way = self.gate.way(self.holder)
        while True:
            await self._until_open()
            piece = await reader.read(way.quantum)
            if not piece:
                break
            start = 0
            way.offer(len(piece))
            try:
                while start < len(piece):
                    async with way.turn:
                        size = await self._leave(len(piece) - start)
                        out.write(piece[start : start + size])
                    start += size
                    await out.drain()
            finally:
                way.give_up(len(piece) - start)
        out.write_eof()

    async def _leave(self, most: int) -> int:
        """How many bytes may leave, under a lease that lives in that instant."""
        way = self.gate.way(self.holder)
        while True:
            try:
                return await way.leave(most, may=lambda: self.gate.is_open(self.holder))
            except Cut:
                await self._until_open()

    async def _until_open(self) -> None:
        while not self.gate.is_open(self.holder):
            await self.gate.way(self.holder).stirred()


async def _both(*directions: Coroutine[object, object, None]) -> None:
    """Return when both have ended; when one breaks, the other is ended, too."""
    tasks = [asyncio.create_task(direction) for direction in directions]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancelled(tasks)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Back to the sender, as it comes."""
    while piece := await source.read(65_536):
        sink.write(piece)
        await sink.drain()
    sink.write_eof()


def _reset(stream: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        stream.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, RESET)
    stream.transport.abort()

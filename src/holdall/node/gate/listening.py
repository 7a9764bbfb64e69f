"""What listens, serves each connection in a task of its own, and leaves nothing behind when it closes."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable


class Listener(ABC):
    """A TCP port on this host. One that serves must end when it is cancelled."""

    def __init__(self) -> None:
        self.serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @abstractmethod
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until its end; closes it."""

    async def open(self, host: str = "127.0.0.1", port: int = 0) -> tuple[str, int]:
        """Where it listens from now on."""
        self._server = await asyncio.start_server(self._begin, host, port)
        address: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return address

    async def close(self) -> None:
        """Nobody is listened to any more; what is being served is broken off."""
        if self._server is not None:
            self._server.close()
        await cancelled(self.serving)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self.serve(reader, writer))
        self.serving.add(task)
        task.add_done_callback(self.serving.discard)


async def cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Return when all of them have ended, by cancelling."""
    ending = tuple(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)

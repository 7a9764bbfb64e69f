"""Where HTTP reaches the node: its port and `http.sock`, and the process of the HTTP server behind them.

That process (`python -m holdall.http`) starts when the first connection comes, and again should it end. It speaks frames
to the node's socket like any client, so a flood of requests stays with it, and it can end without the node noticing.
As it is this node's child, it alone may say for which user it asks; who that is, it has from the kernel or from a token.
"""

import asyncio
import contextlib
import errno
import os
import socket
import sys
from pathlib import Path
from typing import Protocol

import msgspec

from holdall.model.errors import BadConfig
from holdall.node import paths
from holdall.node.clock import boottime_ms
from holdall.node.configured import Settings
from holdall.node.http_settings import HttpSettings
from holdall.node.sockets import bind

MODULE = "holdall.http"
BACKLOG = 128
AGAIN_AFTER_S = 0.5
AGAIN_AFTER_S_MAX = 60.0
"""A server that ends at once is not started again and again without a pause: each is twice as long as the one before."""
LIVED_S = 30.0
"""One that has lived so long is started again after the shortest pause."""
END_WITHIN_S = 5.0


class Log(Protocol):
    """What this file needs of a logger."""

    def warning(self, event: str, **values: object) -> object:
        """Something a person may want to look at."""
        ...


class FrontOrders(msgspec.Struct, frozen=True):
    """The one line that the HTTP server reads from its standard input, which stays open as long as the node lives."""

    node: str
    socket: str
    """`holdall.sock`"""
    health: str
    """Unix socket where the node itself answers `/healthz`."""
    state: str
    config: str
    uid: int
    """Whose node it is."""
    tcp: int | None
    """Inherited descriptor of the listening TCP socket."""
    unix: int
    """Inherited descriptor of the listening `http.sock`."""
    http: HttpSettings


class Front:
    """Listens from `bind` on; connections wait until `open`."""

    def __init__(self, settings: Settings, log: Log, fronts: set[int]) -> None:
        """`fronts` gets the process id of the HTTP server while it runs."""
        self.address: tuple[str, int] | None = None
        """Where TCP listens."""
        self._settings = settings
        self._log = log
        self._fronts = fronts
        self._tcp: socket.socket | None = None
        self._unix: socket.socket | None = None
        self._is_waiting = False
        self._is_over = False
        self._pause_s = AGAIN_AFTER_S
        self._again: asyncio.TimerHandle | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def path(self) -> Path:
        """`http.sock`."""
        return self._settings.socket.parent / paths.HTTP_SOCKET_NAME

    def bind(self, *, mode: int) -> None:
        """Take port and socket. Raises BadConfig when they are in use."""
        if self._settings.node.listen is not None:
            self._tcp = _listen(*self._settings.node.listen)
            name = self._tcp.getsockname()
            self.address = (str(name[0]), int(name[1]))
        self._unix = bind(self.path, mode=mode)
        self._unix.listen(BACKLOG)

    def open(self) -> None:
        """Start the server when somebody comes."""
        self._again = None
        if self._is_over or self._is_waiting:
            return
        self._is_waiting = True
        for listener in self._listeners():
            asyncio.get_running_loop().add_reader(listener, self._knocked)

    async def close(self) -> None:
        """End the server, stop listening."""
        self._is_over = True
        self._deafen()
        if self._again is not None:
            self._again.cancel()
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
        for listener in self._listeners():
            listener.close()
        if self._unix is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()

    def _listeners(self) -> list[socket.socket]:
        return [one for one in (self._tcp, self._unix) if one is not None]

    def _deafen(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            for listener in self._listeners():
                asyncio.get_running_loop().remove_reader(listener)

    def _knocked(self) -> None:
        self._deafen()
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        """One life of the server; whoever knocks later begins the next."""
        try:
            process = await self._start()
        except OSError as problem:
            self._log.warning("the HTTP server could not be started", why=str(problem))
            self._come_back()
            return
        self._fronts.add(process.pid)
        began_ms = boottime_ms()
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise
        finally:
            self._fronts.discard(process.pid)
        if boottime_ms() - began_ms > LIVED_S * 1000:
            self._pause_s = AGAIN_AFTER_S
        self._log.warning("the HTTP server has ended; the next connection starts it again", status=status)
        self._come_back()

    def _come_back(self) -> None:
        if not self._is_over:
            self._again = asyncio.get_running_loop().call_later(self._pause_s, self.open)
            self._pause_s = min(self._pause_s * 2, AGAIN_AFTER_S_MAX)

    async def _start(self) -> asyncio.subprocess.Process:
        kept = [listener.fileno() for listener in self._listeners()]
        environment = {name: text for name, text in os.environ.items() if not name.startswith("HOLDALL_")}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            pass_fds=kept,
            env=environment,
            start_new_session=True,
        )
        if process.stdin is not None:
            process.stdin.write(msgspec.json.encode(self._orders()) + b"\n")
        return process

    def _orders(self) -> FrontOrders:
        settings = self._settings
        return FrontOrders(
            node=settings.name,
            socket=str(settings.socket),
            health=str(settings.state / paths.HEALTH_SOCKET_NAME),
            state=str(settings.state),
            config=settings.file,
            uid=os.geteuid(),
            tcp=None if self._tcp is None else self._tcp.fileno(),
            unix=-1 if self._unix is None else self._unix.fileno(),
            http=settings.http,
        )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            text = f'{host}:{port} is in use by another program. Choose another [node].listen (or "off").'
        else:
            text = f"can't listen on {host}:{port}: {error.strerror or error}. Choose another [node].listen."
        raise BadConfig(text) from None
    return listener


async def _end(process: asyncio.subprocess.Process) -> None:
    """The end of its standard input tells it to end; a hung one is killed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(END_WITHIN_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()

"""What a client leaves unread: a connection that takes nothing for 30 s is ended, and the log says whose it was.

One place for all connections of clients, those of the node's socket and those of the HTTP server. How much lies here for one
client is bounded where it is written: the node's socket ends a connection beyond its bound, HTTP waits until it is taken.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping

from holdall.bus.log import Seldom

UNREAD_WITHIN_S = 30


class Unread:
    """Watches one connection. Its protocol passes on `pause_writing`, `resume_writing` and `connection_lost`.

    Over TCP the kernel watches, which knows what the other host has confirmed; it also finds that a host is gone. On a unix
    socket asyncio's own buffer tells: it is not empty only while the kernel's is full.
    """

    def __init__(
        self, transport: asyncio.Transport, tell: Seldom, who: Callable[[], Mapping[str, object]]
    ) -> None:
        """`who` gives the values of the log's line that say whose connection it is."""
        self._transport = transport
        self._warn = tell
        self._who = who
        self._left = 0
        self._due: asyncio.TimerHandle | None = None
        peer: socket.socket = transport.get_extra_info("socket")
        self._is_tcp = peer.family != socket.AF_UNIX
        if self._is_tcp:
            _let_kernel_watch(peer)
        else:
            transport.set_write_buffer_limits(high=0)
            if transport.get_write_buffer_size():
                self.pause_writing()

    @property
    def waits(self) -> bool:
        """Whether something lies here that the client has not taken yet. While it does, nothing may be written besides."""
        return self._due is not None

    def pause_writing(self) -> None:
        """The client's side is full."""
        if not self._is_tcp:
            self._left = self._transport.get_write_buffer_size()
            self._due = asyncio.get_running_loop().call_later(UNREAD_WITHIN_S, self._look)

    def resume_writing(self) -> None:
        """It has taken all of it."""
        self.stop()

    def connection_lost(self, problem: Exception | None) -> None:
        """The connection is over; `problem` as asyncio gives it."""
        self.stop()
        if self._is_tcp and isinstance(problem, TimeoutError):
            self._say(f"it has taken nothing for {UNREAD_WITHIN_S} s, or its host is gone")

    def stop(self) -> None:
        """Watch no more."""
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def end(self, why: str) -> None:
        """End the connection now, and say so."""
        self.stop()
        self._say(why)
        self._transport.abort()

    def _look(self) -> None:
        if self._transport.get_write_buffer_size() < self._left:
            self.pause_writing()
        else:
            self.end(f"it has taken nothing for {UNREAD_WITHIN_S} s")

    def _say(self, why: str) -> None:
        self._warn("a client does not read its answers; its connection is ended", why=why, **self._who())


def _let_kernel_watch(peer: socket.socket) -> None:
    """It ends a connection on which nothing is confirmed, not even that there is room, for so long."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, UNREAD_WITHIN_S)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, UNREAD_WITHIN_S)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_WITHIN_S * 1000)

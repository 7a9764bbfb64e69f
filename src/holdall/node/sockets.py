"""The clients' socket: length-prefixed frames from peers that the kernel names, in bounded buffers.

Nothing of a connection reaches the machines before its first frame is a Hello of our version, so noise makes no
state. A peer that sends nonsense is told once and cut off; one that does not read what it asked for, too.
"""

import asyncio
import contextlib
import functools
import grp
import os
import pwd
import secrets
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec

from holdall.bus.log import Seldom
from holdall.model import frames
from holdall.model.errors import BadConfig
from holdall.model.names import FRAME_BYTES_MAX
from holdall.node.boot import process_start_ticks
from holdall.node.processes import Processes
from holdall.node.unread import Unread
from holdall.parties.messages import Asked, SessionClosed, SessionOpened

CONNECTIONS_MAX = 10_000
FRAMES_PER_TURN_MAX = 64
"""Frames of one connection that one turn takes; reading pauses meanwhile, so a flood slows down its sender only."""
HELLO_WITHIN_S = 10.0
UNREAD_BYTES_MAX = 16 * 1024 * 1024
"""So much lies here at most for one client."""
RETRY_AFTER_MS = 1000

Deliver = Callable[[str, SessionOpened | Asked | SessionClosed], None]
"""Called with a connection's id and what has happened on it."""


class Connections:
    """All connections of one node's socket."""

    def __init__(self, deliver: Deliver, processes: Processes, warn: Callable[..., object]) -> None:
        """`warn` writes a line of the log: an event and its values."""
        self.deliver = deliver
        self.processes = processes
        self.tell_unread = Seldom(warn)
        self.refused = 0
        """Frames and connections that were not let in."""
        self.turns = 0
        self.fronts: set[int] = set()
        """Process ids of the node's own HTTP server: it may say for which user it asks."""
        self.open: dict[str, Connection] = {}
        self._paused: set[Connection] = set()
        self._unsent: set[Connection] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, listener: socket.socket) -> None:
        """Let clients in through a socket that `bind` made."""
        self._server = await asyncio.get_running_loop().create_unix_server(
            lambda: Connection(self), sock=listener, backlog=512
        )

    def send(self, connection: str, frame: frames.FromNode) -> bool:
        """Put a frame into the connection's next write; False when there is no such connection."""
        found = self.open.get(connection)
        if found is None:
            return False
        found.put(frames.pack(frame))
        self._unsent.add(found)
        return True

    def turn_done(self) -> None:
        """Write what the turn sent, one write a connection, and let paused ones be read again."""
        self.turns += 1
        unsent, self._unsent = self._unsent, set()
        for connection in unsent:
            connection.flush()
        paused, self._paused = self._paused, set()
        for connection in paused:
            connection.go_on()

    def pause(self, connection: "Connection") -> None:
        """Remember to go on with it after the turn."""
        self._paused.add(connection)

    async def close(self) -> None:
        """Stop listening, write what is left, end all connections. Nothing is delivered any more."""
        self.deliver = _ignore
        if self._server is not None:
            self._server.close()
        for connection in list(self.open.values()):
            connection.end()
        self.open.clear()
        await asyncio.sleep(0)


class Connection(asyncio.Protocol):
    """One peer."""

    def __init__(self, owner: Connections) -> None:
        self.id = secrets.token_hex(16)
        self._owner = owner
        self._unsent: list[bytes] = []
        """Packed frames of the running turn, and of earlier ones while the peer has not taken what was written."""
        self._unsent_bytes = 0
        self._buffer = bytearray()
        self._taken = 0
        self._taken_in_turn = 0
        self._is_paused = False
        self._is_known = False
        self._is_over = False
        self._pid = self._uid = -1
        self._started = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._unread: Unread | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Learn from the kernel who it is; refuse when there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        peer = cast("socket.socket", transport.get_extra_info("socket"))
        credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self._pid, self._uid, _ = struct.unpack("3i", credentials)
        self._started = process_start_ticks(self._pid)
        self._unread = Unread(self._transport, self._owner.tell_unread, self._who)
        if len(self._owner.open) >= CONNECTIONS_MAX:
            self._refuse("the node is busy: too many connections. Try again in a second.")
            return
        self._owner.open[self.id] = self
        self._deadline = asyncio.get_running_loop().call_later(HELLO_WITHIN_S, self._cut)

    def data_received(self, data: bytes) -> None:
        """Take whole frames out of what has come."""
        if not self._is_over:
            self._buffer += data
            self._take_frames()

    def go_on(self) -> None:
        """A turn is over: take the frames that had to wait."""
        if self._is_over or not self._is_paused:
            return
        self._is_paused = False
        self._take_frames()
        if not self._is_paused and self._transport is not None:
            self._transport.resume_reading()

    def put(self, data: bytes) -> None:
        """To be written by the next `flush`."""
        self._unsent.append(data)
        self._unsent_bytes += len(data)

    def flush(self) -> None:
        """One write for all frames of the turn; cut a peer that leaves too much unread."""
        if self._transport is None or self._unread is None or self._is_over:
            return
        if self._transport.get_write_buffer_size() + self._unsent_bytes > UNREAD_BYTES_MAX:
            self._owner.refused += 1
            self._is_over = True
            self._unread.end(f"it has left more than {UNREAD_BYTES_MAX >> 20} MiB")
        elif not self._unread.waits:
            self._write()

    def pause_writing(self) -> None:
        """The peer reads slowly: it has a bounded time to catch up."""
        if self._unread is not None:
            self._unread.pause_writing()

    def resume_writing(self) -> None:
        """It has caught up."""
        if self._unread is not None:
            self._unread.resume_writing()
        self.flush()

    def eof_received(self) -> bool:
        """A half-closed connection is a closed one."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the machines, and once more when the process ends later."""
        if self._unread is not None:
            self._unread.connection_lost(exc)
        self._is_over = True
        self._unsent.clear()
        self._cancel_deadline()
        self._buffer.clear()
        self._owner.open.pop(self.id, None)
        if not self._is_known:
            return
        gone = False

        def process_gone() -> None:
            nonlocal gone
            gone = True
            self._owner.deliver(self.id, SessionClosed(process_gone=True))

        if self._pid > 0:
            self._owner.processes.when_gone(self._pid, self._started, self.id, process_gone)
        if not gone:
            self._owner.deliver(self.id, SessionClosed(process_gone=False))

    def end(self) -> None:
        """Write what is left and close; for the end of the node."""
        if not self._is_over:
            self._write()
        self._is_over = True
        if self._transport is not None:
            self._transport.close()

    def _write(self) -> None:
        if self._transport is not None and self._unsent:
            data = b"".join(self._unsent)
            self._unsent.clear()
            self._unsent_bytes = 0
            self._transport.write(data)

    def _who(self) -> dict[str, object]:
        return {"user": user_name(self._uid), "pid": self._pid}

    def _take_frames(self) -> None:
        start = 0
        view = self._buffer
        if self._taken_in_turn != self._owner.turns:
            self._taken_in_turn = self._owner.turns
            self._taken = 0
        while not self._is_over:
            if self._taken >= FRAMES_PER_TURN_MAX:
                self._pause()
                break
            body_at = start + frames.LENGTH_BYTES
            if len(view) < body_at:
                break
            size = int.from_bytes(view[start:body_at], "big")
            if size > FRAME_BYTES_MAX:
                self._refuse(f"a frame of {size} bytes; at most {FRAME_BYTES_MAX} are allowed.")
                return
            if len(view) < body_at + size:
                break
            start = body_at + size
            self._taken += 1
            self._frame(bytes(view[body_at:start]))
        del self._buffer[:start]

    def _pause(self) -> None:
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._owner.pause(self)

    def _frame(self, body: bytes) -> None:
        try:
            frame = frames.read_request(body)
        except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
            self._refuse(f"not a frame of this protocol: {error}. Install the same release on both sides.")
            return
        user = user_name(self._uid)
        if not self._is_known:
            if not isinstance(frame, frames.Hello):
                self._refuse("the first frame must be a Hello.")
                return
            if frame.v != frames.VERSION:
                self._refuse(
                    f"this node speaks frame version {frames.VERSION}, the client {frame.v}. "
                    "Install the same release on both sides."
                )
                return
            if frame.for_uid is not None:
                if self._pid not in self._owner.fronts:
                    self._refuse("only the node's own HTTP server asks for other users.")
                    return
                self._uid = frame.for_uid
                if not frame.pid:
                    self._pid = self._started = 0  # on another host: the end of our own server is not its end
                user = user_name(self._uid)
            self._is_known = True
            self._cancel_deadline()
            opened = SessionOpened(uid=self._uid, user=user, pid=max(0, self._pid), started=self._started)
            self._owner.deliver(self.id, opened)
        self._owner.deliver(self.id, Asked(frame=frame, uid=self._uid, user=user, lot=secrets.token_hex(16)))

    def _refuse(self, text: str) -> None:
        self._owner.refused += 1
        self._is_over = True
        if self._transport is not None:
            denied = frames.Denied(n=0, code="refused", text=text, retry_after_ms=RETRY_AFTER_MS)
            self._transport.write(frames.pack(denied))
            self._transport.close()

    def _cut(self) -> None:
        self._owner.refused += 1
        if self._transport is not None:
            self._transport.abort()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def bind(path: Path, *, mode: int) -> socket.socket:
    """A bound socket with these permissions. A file that nobody answers on is a dead node's: it is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.exists() or path.is_symlink():
            _replace(path)
        # Nobody may connect before the permissions are as they shall be.
        earlier = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(earlier)
        path.chmod(mode)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise BadConfig(
            f"can't open the socket {path}: {error.strerror or error}. Check [node].state."
        ) from None
    except BadConfig:
        listener.close()
        raise
    return listener


def _replace(path: Path) -> None:
    if answers(path):
        raise BadConfig(f"another node answers on {path}. Stop it, or give this one its own [node].state.")
    path.unlink()


def answers(path: Path) -> bool:
    """Whether somebody accepts connections there."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.settimeout(2)
    try:
        probe.connect(str(path))
    except OSError:
        return False
    finally:
        probe.close()
    return True


@functools.lru_cache(maxsize=1024)
def user_name(uid: int) -> str:
    """The user's name, or the number as text."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


@functools.lru_cache(maxsize=1024)
def groups_of(uid: int) -> tuple[str, ...]:
    """The names of the user's groups, in order; empty for a user that this host does not know."""
    try:
        user = pwd.getpwuid(uid)
        ids = os.getgrouplist(user.pw_name, user.pw_gid)
    except (KeyError, OSError):
        return ()
    names: set[str] = set()
    for gid in ids:
        with contextlib.suppress(KeyError):
            names.add(grp.getgrgid(gid).gr_name)
    return tuple(sorted(names))


def _ignore(connection: str, message: SessionOpened | Asked | SessionClosed) -> None:
    del connection, message

"""One connection to a node, as a link's thread uses it: greet, send, wait, connect again. Never blocks but in `wait`."""

import contextlib
import os
import select
import socket

import msgspec

from holdall.client.address import no_answer
from holdall.guardian import reaching
from holdall.guardian.clock import BootTimer, boottime_ms
from holdall.model import frames
from holdall.model.errors import HoldallError, Unreachable
from holdall.model.framing import FrameBuffer, FrameTooLong

GREETING_SECONDS_MAX = 10.0
RETRY_FIRST_MS = 20
RETRY_MAX_MS = 1_000
READ_BYTES_MAX = 1 << 18


class Wire:
    """`connected`: there is a socket; `ready`: the node has welcomed us on it."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.ready = False
        self.session: frames.Welcome | None = None
        self.retry_at_ms = 0
        self._retry_ms = RETRY_FIRST_MS
        self._socket: socket.socket | None = None
        self._buffer = FrameBuffer()
        self._unsent = bytearray()
        self._timer = BootTimer()
        self._wake_reading, self._wake_writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._closed = False

    @property
    def connected(self) -> bool:
        return self._socket is not None

    def greet(self, hello: frames.Hello) -> frames.Welcome:
        """First connection, waiting for the answer (10 s at most). Raises Unreachable, Refused."""
        fresh: socket.socket | None = None
        try:
            fresh = reaching.connect(self.where, within_s=GREETING_SECONDS_MAX)
            fresh.sendall(frames.pack(hello))
            answer = self._first_answer(fresh)
        except BaseException as problem:
            if fresh is not None:
                fresh.close()
            self.close()
            if isinstance(problem, HoldallError):
                raise
            if isinstance(problem, (OSError, FrameTooLong, msgspec.DecodeError)):
                raise no_answer(self.where, problem) from problem
            raise
        if not isinstance(answer, frames.Welcome):
            fresh.close()
            self.close()
            text = (
                answer.text if isinstance(answer, frames.Denied) else "it is not the socket of a holdall node"
            )
            raise Unreachable(f"the node at {self.where} refuses the connection: {text}")
        fresh.setblocking(False)
        self._socket = fresh
        self.accept(answer)
        return answer

    def _first_answer(self, fresh: socket.socket) -> frames.FromNode:
        bodies: list[bytes] = []
        while not bodies:
            data = fresh.recv(READ_BYTES_MAX)
            if not data:
                raise ConnectionResetError("it closed the connection")
            bodies = self._buffer.feed(data)
        return frames.read_answer(bodies[0])

    def accept(self, welcome: frames.Welcome) -> None:
        """We are welcome: requests may go out."""
        self.session = welcome
        self.ready = True
        self._retry_ms = RETRY_FIRST_MS

    def forget_session(self) -> None:
        """The next greeting asks for a new session."""
        self.session = None

    def reconnect(self, hello: frames.Hello) -> None:
        """Try once; `wait` gives the Welcome when it comes."""
        self.retry_at_ms = boottime_ms() + self._retry_ms
        self._retry_ms = min(self._retry_ms * 2, RETRY_MAX_MS)
        try:
            self._socket = reaching.begin(self.where)
        except OSError:
            return
        self._buffer = FrameBuffer()
        self._unsent.clear()
        self.send(hello)

    def send(self, frame: frames.ToNode) -> None:
        """As much as goes at once; the rest when the node reads again."""
        self._unsent += frames.pack(frame)
        self._flush()

    def wait(self, until_ms: int | None) -> list[bytes]:
        """The bodies that arrive before that moment of CLOCK_BOOTTIME; empty when it comes, or somebody calls `wake`."""
        poll = select.poll()
        poll.register(self._wake_reading, select.POLLIN)
        poll.register(self._timer, select.POLLIN)
        node = -1
        if self._socket is not None:
            node = self._socket.fileno()
            poll.register(node, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        self._timer.arm(until_ms)
        bodies: list[bytes] = []
        for file, events in poll.poll():
            if file == self._wake_reading:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_reading, 512)
            elif file == node:
                self._flush()
                if events & ~select.POLLOUT:
                    bodies += self._receive()
        return bodies

    def wake(self) -> None:
        """From any thread: let `wait` return."""
        if not self._closed:
            with contextlib.suppress(OSError):
                os.write(self._wake_writing, b"w")

    def drop(self) -> None:
        """Break the connection off."""
        self.ready = False
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self.retry_at_ms = boottime_ms() + self._retry_ms

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.drop()
        self._timer.close()
        os.close(self._wake_reading)
        os.close(self._wake_writing)

    def _flush(self) -> None:
        if self._socket is None or not self._unsent:
            return
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:
            self.drop()
            return
        del self._unsent[:sent]

    def _receive(self) -> list[bytes]:
        if self._socket is None:
            return []
        try:
            data = self._socket.recv(READ_BYTES_MAX)
            if data:
                return self._buffer.feed(data)
        except BlockingIOError:
            return []
        except (OSError, FrameTooLong):
            pass
        self.drop()
        return []

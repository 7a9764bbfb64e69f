"""A connection to the node for commands that run elsewhere: never waits but while it greets, so that a loop can own it."""

import os

import msgspec

from holdall.client.address import no_answer
from holdall.client.conversation import error_of
from holdall.guardian import reaching
from holdall.model import frames
from holdall.model.errors import HoldallError, Unreachable
from holdall.model.framing import FrameBuffer, FrameTooLong

GREETING_SECONDS_MAX = 10.0
READ_BYTES_MAX = 1 << 18


class RunLink:
    """Raises Unreachable when nobody is at `where`, and from `receive` when the node has ended."""

    def __init__(self, where: str, *, agent: str = "") -> None:
        self.where = where
        self._buffer = FrameBuffer()
        self._early: list[frames.FromNode] = []
        self._unsent = bytearray()
        try:
            self._socket = reaching.connect(where, within_s=GREETING_SECONDS_MAX)
        except HoldallError:
            raise
        except OSError as problem:
            raise no_answer(where, problem) from problem
        try:
            hello = frames.Hello(v=frames.VERSION, role="cli", agent=agent, pid=os.getpid())
            self._socket.sendall(frames.pack(hello))
            while not self._early:
                self._early = self._read()
        except (OSError, FrameTooLong, msgspec.DecodeError) as problem:
            self._socket.close()
            raise no_answer(where, problem) from problem
        answer = self._early.pop(0)
        if not isinstance(answer, frames.Welcome):
            self._socket.close()
            if isinstance(answer, frames.Denied):
                raise error_of(answer)
            raise Unreachable(f"{where} is not the socket of a holdall node. Start one: holdall serve")
        self.welcome = answer
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """To be polled: for reading always, for writing while `wants_to_write`."""
        return self._socket.fileno()

    @property
    def wants_to_write(self) -> bool:
        """Something could not be written yet."""
        return bool(self._unsent)

    def send(self, frame: frames.ToNode) -> None:
        """As much as goes now; the rest at `flush`."""
        self._unsent += frames.pack(frame)
        self.flush()

    def flush(self) -> None:
        """Write what is left, as far as it goes. That the node has ended is told by `receive`."""
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except OSError:
            return

    def receive(self) -> list[frames.FromNode]:
        """What has come; empty when nothing has."""
        try:
            return self._read()
        except BlockingIOError:
            return []
        except (OSError, FrameTooLong, msgspec.DecodeError) as problem:
            raise Unreachable(
                f"the node at {self.where} does not answer any more ({problem}). Look: holdall doctor",
                definite=False,
            ) from problem

    def close(self) -> None:
        """The node hears of it."""
        self._socket.close()

    def _read(self) -> list[frames.FromNode]:
        data = self._socket.recv(READ_BYTES_MAX)
        if not data:
            raise ConnectionResetError("it closed the connection")
        return [frames.read_answer(body) for body in self._buffer.feed(data)]

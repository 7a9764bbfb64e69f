"""One question after the other to a node, over a blocking socket: what listings and one-shot commands need.

Leases that must be kept alive belong to the session of `holdall.client`, not here.
"""

import contextlib
import itertools
import os
import select
import socket
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import msgspec

from holdall.client.address import no_answer
from holdall.guardian import reaching
from holdall.model import frames
from holdall.model.errors import BY_CODE, HoldallError, Unreachable

ANSWER_SECONDS_MAX = 30.0
"""A node that is silent for so long is not there."""


class Conversation:
    """A connection to the node at the path of a socket, or at https://HOST:PORT; use it as a context manager.

    Raises Unreachable when nobody listens there, when the node ends in the middle, or is silent for 30 s.
    """

    def __init__(self, where: str, *, agent: str = "") -> None:
        self.where = where
        self._numbers = itertools.count(1)
        self._beaten_s = time.monotonic()
        try:
            self._socket = reaching.connect(where, within_s=ANSWER_SECONDS_MAX)
        except HoldallError:
            raise
        except OSError as problem:
            raise no_answer(where, problem) from problem
        try:
            self._write(frames.Hello(v=frames.VERSION, role="cli", agent=agent, pid=os.getpid()))
            answer = self._read()
        except BaseException as problem:
            self._socket.close()
            if isinstance(problem, (OSError, ValueError)) and not isinstance(problem, HoldallError):
                raise no_answer(where, problem) from problem
            raise
        if isinstance(answer, frames.Denied):
            self._socket.close()
            raise error_of(answer)
        if not isinstance(answer, frames.Welcome):
            self._socket.close()
            raise Unreachable(f"{where} is not the socket of a holdall node. Start one: holdall serve")
        self.welcome = answer

    def number(self) -> int:
        """A fresh request number."""
        return next(self._numbers)

    def answers(
        self, request: frames.ToNode, *, patient: bool = False, ttl_ms: int | None = None
    ) -> Iterator[frames.FromNode]:
        """Send `request` and give its answers as they come; the caller knows which one is the last.

        A Denied is raised as its error. `patient`: wait without limit between answers. `ttl_ms`: say every third of
        it that we are still here, which is what keeps a place in a queue.
        """
        self._socket.settimeout(None if patient else ANSWER_SECONDS_MAX)
        self._write(request)
        number = getattr(request, "n", None)
        while True:
            if ttl_ms is not None:
                self._beat_until_readable(min(max(ttl_ms / 3000, 0.1), 60.0))
            answer = self._read()
            if getattr(answer, "n", None) != number:
                continue  # a notice, e.g. Lost, that this caller did not ask for
            if isinstance(answer, frames.Denied):
                raise error_of(answer)
            yield answer

    def ask(self, request: frames.ToNode, *, patient: bool = False) -> frames.FromNode:
        """The first answer."""
        return next(self.answers(request, patient=patient))

    def listing(self, request: frames.Ask) -> frames.Listing:
        """The whole listing, its parts joined."""
        whole = frames.Listing(n=request.n)
        for part in self.answers(request):
            if not isinstance(part, frames.Listing):
                raise Unreachable(
                    f"{self.where} gave an unexpected answer; do client and node have one version?"
                )
            whole = msgspec.structs.replace(
                whole,
                pools=whole.pools + part.pools,
                leases=whole.leases + part.leases,
                waits=whole.waits + part.waits,
                log=whole.log + part.log,
                nodes=whole.nodes + part.nodes,
                known=whole.known + part.known,
                usage=whole.usage + part.usage,
                not_asked=whole.not_asked + part.not_asked,
            )
            if not part.more:
                break
        return whole

    def close(self) -> None:
        """End the connection; what its session holds ends with it."""
        with contextlib.suppress(OSError):
            self._socket.close()

    def break_off(self) -> None:
        """As `close`, from any thread: who waits for an answer in another one hears at once that none comes."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _beat_until_readable(self, every_s: float) -> None:
        """Every answer is awaited here, so the next beat is due by the time since the last one, not since an answer."""
        while True:
            left_s = self._beaten_s + every_s - time.monotonic()
            if left_s <= 0:
                self._beaten_s = time.monotonic()
                self._write(frames.Beat(n=self.number()))
            elif self._readable(left_s):
                return

    def _readable(self, within_s: float) -> bool:
        poll = select.poll()  # select() knows no descriptors from 1024 on
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(within_s * 1000))

    def _write(self, frame: frames.ToNode) -> None:
        try:
            self._socket.sendall(frames.pack(frame))
        except OSError as problem:
            raise self._broken(problem) from problem

    def _read(self) -> frames.FromNode:
        try:
            size = int.from_bytes(self._exactly(frames.LENGTH_BYTES), "big")
            return frames.read_answer(self._exactly(size))
        except (OSError, msgspec.DecodeError) as problem:
            raise self._broken(problem) from problem

    def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = self._socket.recv(min(size, 1 << 16))
            if not part:
                raise OSError("it closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _broken(self, problem: Exception) -> Unreachable:
        return Unreachable(
            f"the node at {self.where} does not answer ({_plainly(problem)}). Look: holdall doctor",
            definite=False,
        )


def _plainly(problem: Exception) -> str:
    """What the system says, without its number."""
    return getattr(problem, "strerror", None) or str(problem)


def error_of(denied: frames.Denied) -> HoldallError:
    """The exception for a node's refusal."""
    kind = BY_CODE.get(denied.code, HoldallError)
    return kind(denied.text, why=denied.why, definite=denied.definite)

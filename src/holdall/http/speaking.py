"""Frames to the node over its socket, for a loop: many requests at once on one connection, each with its answers."""

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Callable
from typing import Self

import msgspec

from holdall.client.conversation import error_of
from holdall.model import frames
from holdall.model.errors import HoldallError, Unreachable
from holdall.model.names import FRAME_BYTES_MAX

ANSWER_SECONDS_MAX = 30.0
"""A node that is silent for so long is not there."""
GREETING_SECONDS_MAX = 10.0


class Talk:
    """One connection; made by `open`. `on_notice` gets what is no answer, e.g. Lost; `on_end` is called once."""

    def __init__(
        self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, first: int = 1
    ) -> None:
        self.path = path
        self.welcome: frames.Welcome
        self.is_over = False
        self.on_notice: Callable[[frames.FromNode], None] = _ignore
        self.on_end: Callable[[], None] = _nothing
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(first)
        self._calls: dict[int, asyncio.Queue[frames.FromNode | None]] = {}
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        path: str,
        *,
        for_uid: int | None = None,
        agent: str = "",
        session: str = "",
        secret: str = "",
        first: int = 1,
    ) -> Self:
        """Connect and greet. Raises Unreachable when no node answers, or its refusal.

        `first`: its first request number, for a session that goes on.
        """
        try:
            async with asyncio.timeout(GREETING_SECONDS_MAX):
                reader, writer = await asyncio.open_unix_connection(path)
                talk = cls(path, reader, writer, first=first)
                try:
                    await talk._greet(for_uid, agent, session, secret)
                except BaseException:
                    writer.close()
                    raise
        except (OSError, EOFError, msgspec.DecodeError) as problem:
            raise Unreachable(f"the node does not answer ({str(problem) or 'no answer'})") from problem
        talk._reading = asyncio.get_running_loop().create_task(talk._read())
        return talk

    async def _greet(self, for_uid: int | None, agent: str, session: str, secret: str) -> None:
        hello = frames.Hello(
            v=frames.VERSION, agent=agent, pid=os.getpid(), session=session, secret=secret, for_uid=for_uid
        )
        self._writer.write(frames.pack(hello))
        answer = await self._frame()
        if isinstance(answer, frames.Denied):
            raise error_of(answer)
        if not isinstance(answer, frames.Welcome):
            raise Unreachable("what listens there is no node")
        self.welcome = answer

    def number(self) -> int:
        """A fresh request number."""
        return next(self._numbers)

    async def answers(
        self, request: frames.ToNode, *, within_s: float | None
    ) -> AsyncIterator[frames.FromNode]:
        """Send it and give its answers as they come; a Denied is raised. `within_s` for each; None: without limit."""
        number = getattr(request, "n", 0)
        queue = self.call(request)
        try:
            while True:
                try:
                    async with asyncio.timeout(within_s):
                        answer = await queue.get()
                except TimeoutError:
                    raise Unreachable("the node does not answer in time", definite=False) from None
                if answer is None:
                    raise Unreachable("the node broke the connection off", definite=False)
                if isinstance(answer, frames.Denied):
                    raise error_of(answer)
                yield answer
        finally:
            self._calls.pop(number, None)

    def call(self, request: frames.ToNode) -> asyncio.Queue[frames.FromNode | None]:
        """Send it; its answers come into the queue, then None when the connection ends."""
        queue: asyncio.Queue[frames.FromNode | None] = asyncio.Queue()
        if self.is_over:
            queue.put_nowait(None)
        else:
            self._calls[getattr(request, "n", 0)] = queue
            self._writer.write(frames.pack(request))
        return queue

    async def ask(
        self, request: frames.ToNode, *, within_s: float | None = ANSWER_SECONDS_MAX
    ) -> frames.FromNode:
        """The first answer."""
        answers = self.answers(request, within_s=within_s)
        try:
            return await anext(answers)
        finally:
            await answers.aclose()  # type: ignore[attr-defined]

    async def listing(self, request: frames.Ask) -> list[frames.Listing]:
        """The parts of a listing."""
        parts: list[frames.Listing] = []
        async for part in self.answers(request, within_s=ANSWER_SECONDS_MAX):
            if not isinstance(part, frames.Listing):
                raise Unreachable("the node gave an unexpected answer", definite=False)
            parts.append(part)
            if not part.more:
                break
        return parts

    def close(self) -> None:
        """End the connection. More than once is once."""
        self.is_over = True
        if self._reading is not None:
            self._reading.cancel()
        self._writer.close()

    async def _frame(self) -> frames.FromNode:
        size = int.from_bytes(await self._reader.readexactly(frames.LENGTH_BYTES), "big")
        if size > FRAME_BYTES_MAX:
            raise ConnectionResetError(f"a frame of {size} bytes")
        return frames.read_answer(await self._reader.readexactly(size))

    async def _read(self) -> None:
        try:
            with contextlib.suppress(OSError, EOFError, msgspec.DecodeError):
                while True:
                    answer = await self._frame()
                    queue = self._calls.get(getattr(answer, "n", 0))
                    if queue is None:
                        self.on_notice(answer)
                    else:
                        queue.put_nowait(answer)
        finally:
            self.is_over = True
            self._writer.close()
            for queue in self._calls.values():
                queue.put_nowait(None)
            self.on_end()


async def once(
    path: str, make: Callable[[int], frames.ToNode], *, for_uid: int | None, agent: str = ""
) -> frames.FromNode:
    """One request on a connection of its own: its first answer. Raises HoldallError."""
    talk = await Talk.open(path, for_uid=for_uid, agent=agent)
    try:
        return await talk.ask(make(talk.number()))
    finally:
        talk.close()


def problem_of(error: BaseException) -> HoldallError:
    """What went wrong, as an error of ours."""
    return (
        error
        if isinstance(error, HoldallError)
        else HoldallError(f"internal error: {error!r}", definite=False)
    )


def _ignore(frame: frames.FromNode) -> None:
    del frame


def _nothing() -> None:
    pass

"""What the node tells about the system, shared by all who ask at the same time.

A request is answered by a question that was put after the request came, so nobody sees what was before his own
change; requests that come while a question is under way share the next one. Between two questions of one kind lies
a pause in proportion to how long the last one took: a flood of requests costs the node a fixed share of its time.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Generic, Literal, TypeAlias, TypeVar

from holdall.http.speaking import Talk
from holdall.model import frames
from holdall.model.errors import HoldallError, Unreachable

What: TypeAlias = Literal["pools", "who", "queue", "log", "node", "usage"]
PAUSE_SHARE = 1.0
"""The pause after a question, in times its duration."""
PAUSE_S_MAX = 1.0
KINDS_MAX = 64
"""Questions that are remembered; `log` has one for each `since`."""
Told = TypeVar("Told")


class Reading:
    """All questions of the server, on one connection that is opened again when it breaks."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._talk: Talk | None = None
        self._opening = asyncio.Lock()
        self._shared: dict[tuple[What, int | None, bool, str], Shared[list[frames.Listing]]] = {}
        self.asked: Callable[[str, float], None] = _unheard
        """Told how many seconds each answer took, for the metrics."""

    async def get(
        self, what: What, since_ms: int | None = None, *, local: bool = False, arg: str = ""
    ) -> list[frames.Listing]:
        """The parts of the listing; `local`: only what the node knows by itself. Raises HoldallError."""
        key = (what, since_ms, local, arg)
        shared = self._shared.get(key)
        if shared is None:
            while len(self._shared) >= KINDS_MAX:
                self._shared.pop(next(iter(self._shared)))
            shared = self._shared[key] = Shared(lambda: self._ask(what, since_ms, local=local, arg=arg))
        return await shared.get()

    async def single(self, what: Literal["why", "show"], arg: str) -> frames.Listing:
        """About one claim or lease. Raises NotHolder when there is none."""
        talk = await self.talk()
        return (await talk.listing(frames.Ask(n=talk.number(), what=what, arg=arg)))[0]

    async def talk(self) -> Talk:
        """The connection. Raises Unreachable."""
        async with self._opening:
            if self._talk is None or self._talk.is_over:
                self._talk = await Talk.open(self._path)
            return self._talk

    def close(self) -> None:
        """End the connection."""
        if self._talk is not None:
            self._talk.close()

    async def _ask(self, what: What, since_ms: int | None, *, local: bool, arg: str) -> list[frames.Listing]:
        began = time.monotonic()
        talk = await self.talk()
        parts = await talk.listing(
            frames.Ask(n=talk.number(), what=what, arg=arg, since_ms=since_ms, local=local)
        )
        self.asked(what, time.monotonic() - began)
        return parts


class Shared(Generic[Told]):
    """One kind of question."""

    def __init__(self, ask: Callable[[], Awaitable[Told]]) -> None:
        self._ask = ask
        self._running: asyncio.Task[Told] | None = None
        self._next: asyncio.Task[Told] | None = None
        self._took_s = 0.0
        self._ended_s = 0.0

    async def get(self) -> Told:
        """The answer to a question that is put from now on."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._put(self._running))
            self._next.add_done_callback(_seen)
        return await asyncio.shield(self._next)

    async def _put(self, before: "asyncio.Task[Told] | None") -> Told:
        if before is not None:
            await asyncio.wait([before])
            pause_s = self._ended_s + min(self._took_s * PAUSE_SHARE, PAUSE_S_MAX) - time.monotonic()
            if pause_s > 0:
                await asyncio.sleep(pause_s)
        self._running, self._next = self._next, None
        began = time.monotonic()
        try:
            return await self._ask()
        except HoldallError:
            raise
        except OSError as problem:
            raise Unreachable(f"the node does not answer ({problem})", definite=False) from problem
        finally:
            self._ended_s = time.monotonic()
            self._took_s = self._ended_s - began


def _seen(task: "asyncio.Task[Told]") -> None:
    """Nobody may be left to hear of its failure."""
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()


def _unheard(what: str, seconds: float) -> None:
    del what, seconds

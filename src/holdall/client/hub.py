"""The asyncio face: `async with holdall.connect() as hub, hub.lease("gpu:2") as lease: …`."""

import asyncio
import os
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from holdall.client.lease import Lease, granted
from holdall.client.link import Link
from holdall.client.opening import open_link
from holdall.client.wishes import Duration, NeedLike, OnLoss, build_claim, default_agent
from holdall.model import frames
from holdall.model.durations import parse_duration
from holdall.model.errors import NotGranted, Unreachable
from holdall.model.why import Why

if TYPE_CHECKING:
    from holdall.client.location import Location


def connect(
    url: str | None = None, *, agent: str | None = None, history: str | os.PathLike[str] | None = None
) -> "Hub":
    """A hub for `async with` (or `await hub.open()`).

    `url`: `unix:///…/holdall.sock`; default HOLDALL_URL, else a system node, else this user's node. `agent`: who this
    is, for people. `history`: a file that records what happens, for `holdall check` (default HOLDALL_HISTORY).
    """
    return Hub(url, agent=default_agent() if agent is None else agent, history=history)


class Hub:
    """A session with a node. Its leases are renewed by a thread of its own and end with it."""

    def __init__(self, url: str | None, *, agent: str, history: str | os.PathLike[str] | None) -> None:
        self._url = url
        self._agent = agent
        self._history = history
        self._opened: Link | None = None
        self.not_asked: tuple[frames.NotAsked, ...] = ()
        """Nodes that have no part in the latest answer to a question, each with why."""

    async def open(self) -> Self:
        """Connect. Raises Unreachable when no node answers, BadSpec for a bad URL."""
        opening = asyncio.ensure_future(asyncio.to_thread(self._open))
        try:
            self._opened = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_opened)
            raise
        return self

    def _open(self) -> Link:
        return open_link(self._url, agent=self._agent, history=self._history)

    async def close(self) -> None:
        """Give every lease of this hub back, end its waiting claims, disconnect. Idempotent."""
        link, self._opened = self._opened, None
        if link is not None:
            await asyncio.shield(asyncio.to_thread(link.close))

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # ------------------------------------------------------------ leases

    def lease(
        self,
        *needs: NeedLike,
        wait: Duration | None = None,
        ttl: Duration | None = None,
        hold_for: Duration | None = None,
        reason: str = "",
        on_loss: OnLoss = "cancel",
        independent: bool = False,
        allow_future: bool = False,
        on_wait: Callable[[Why], None] | None = None,
    ) -> "LeaseRequest":
        """All needs or none: `async with hub.lease(…) as lease`, or `lease = await hub.lease(…)`.

        Raises NotGranted after `wait` (default: the node's; `"inf"`: no limit), NeverSatisfiable, Refused, WouldDeadlock,
        BadSpec, Unreachable. On loss the body is cancelled and LeaseLost raised (`on_loss="cancel"`), or only
        `lease.lost` is set (`"event"`), or nothing is done (`"ignore"`). `hold_for` is the hard end, the command line's
        `--for`. `on_wait` is called in the loop when the claim has to wait, and when that has changed; what it raises ends
        the claim.
        """
        claim = build_claim(
            needs,
            welcome=self._link.welcome,
            wait=wait,
            now=False,
            ttl=ttl,
            hold_for=hold_for,
            reason=reason,
            independent=independent,
            allow_future=allow_future,
        )
        return LeaseRequest(self._link, claim, on_loss, on_wait)

    async def try_lease(
        self,
        *needs: NeedLike,
        ttl: Duration | None = None,
        hold_for: Duration | None = None,
        reason: str = "",
        on_loss: OnLoss = "cancel",
        independent: bool = False,
    ) -> Lease | None:
        """All needs if they are free now and nobody who waits is delayed by it; else None."""
        claim = build_claim(
            needs,
            welcome=self._link.welcome,
            wait=None,
            now=True,
            ttl=ttl,
            hold_for=hold_for,
            reason=reason,
            independent=independent,
            allow_future=False,
        )
        try:
            return await LeaseRequest(self._link, claim, on_loss)
        except NotGranted:
            return None

    # ------------------------------------------------------------ locations

    def location(self, name: str) -> "Location":
        """Leases on negotiated terms, of the hosts of this location."""
        from holdall.client.location import Location

        return Location(self._link, name)

    # ------------------------------------------------------------ questions

    async def pools(self) -> tuple[frames.PoolRow, ...]:
        """All pools of the system, with their units."""
        return (await self._ask("pools")).pools

    async def who(self) -> tuple[frames.LeaseView, ...]:
        """All leases of the system."""
        return (await self._ask("who")).leases

    async def queue(self) -> tuple[Why, ...]:
        """All waiting claims, each with why it waits."""
        return (await self._ask("queue")).waits

    async def why(self, claim: str) -> Why | None:
        """Why one claim waits (its printed id); None when it does not wait any more."""
        waits = (await self._ask("why", claim)).waits
        return waits[0] if waits else None

    async def log(self, since: Duration | None = None) -> tuple[frames.LogRow, ...]:
        """What happened on all nodes, oldest first; `since`: only the last so much time."""
        since_ms = None if since is None else parse_duration(since, what="since")
        return (await self._ask("log", since_ms=since_ms)).log

    async def _ask(self, what: Any, arg: str = "", since_ms: int | None = None) -> frames.Listing:
        listing = await asyncio.wrap_future(self._link.ask(what, arg, since_ms).future)
        self.not_asked = listing.not_asked
        return listing

    @property
    def node(self) -> str:
        """Name of the node that this hub talks to."""
        return self._link.welcome.node

    @property
    def _link(self) -> Link:
        if self._opened is None:
            raise Unreachable("this hub is not open. Use: async with holdall.connect() as hub")
        return self._opened

    def __reduce__(self) -> NoReturn:
        raise TypeError("a hub is not pickled: open one where it is needed, with holdall.connect()")


class LeaseRequest:
    """A claim that is sent when it is awaited or its `async with` begins."""

    def __init__(
        self,
        link: Link,
        claim: frames.Claim,
        on_loss: OnLoss,
        on_wait: Callable[[Why], None] | None = None,
    ) -> None:
        self._link = link
        self._claim = claim
        self._on_wait = on_wait
        self._on_loss: OnLoss = on_loss
        self._lease: Lease | None = None

    def __await__(self) -> Generator[Any, None, Lease]:
        return self._acquire().__await__()

    async def _acquire(self) -> Lease:
        return Lease(self._link, await granted(self._link, self._claim, self._on_wait), self._on_loss)

    async def __aenter__(self) -> Lease:
        self._lease = await self._acquire()
        return await self._lease.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            await self._lease.__aexit__(kind, value, trace)


def _close_opened(opening: "asyncio.Future[Link]") -> None:
    """The opener was cancelled: what it opened is closed without anybody waiting for it."""
    if not opening.cancelled() and opening.exception() is None:
        asyncio.get_running_loop().run_in_executor(None, opening.result().close)

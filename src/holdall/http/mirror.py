"""The state of the system as the live stream tells it: a snapshot, then what has changed, with numbers to resume by.

It looks at the node only while somebody listens: soon after each line of the history that the node tells, and
otherwise now and then, as a claim that begins to wait makes no line. All listeners share one look. Why thousands of
claims wait takes a node long to tell: no grant waits for that to be shown, it comes when it comes.
"""

import asyncio
import contextlib
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from holdall.http.reading import Reading
from holdall.http.rows import nodes_of, not_asked, pools_of, totals_of
from holdall.http.waits import Waits
from holdall.http.words import NodeShown, PoolSummary, Snapshot, Totals
from holdall.model import frames
from holdall.model.errors import HoldallError, Unreachable
from holdall.model.why import Why
from holdall.node.clock import wall_ms

LEASES_SHOWN_MAX = 500
WAITING_SHOWN_MAX = 200
LOG_SHOWN_MAX = 100
LOG_SINCE_MS = 24 * 3600 * 1000
KEPT_MAX = 1000
"""Changes that a listener who comes back can still be told."""
UNREAD_MAX = 100
LISTENERS_MAX = 64
SOON_S = 0.05
"""After a line of the history: several come together."""
LOOK_S = 0.5
LOOK_SHARE = 4.0
"""Without a line: the pause is so many times what a look takes, and LOOK_S at least."""
AWAY_S = 1.0

Item = TypeVar("Item")


class Moment(msgspec.Struct, frozen=True):
    """What one look saw."""

    nodes: dict[str, NodeShown]
    pools: dict[str, PoolSummary]
    leases: dict[str, frames.LeaseView]
    waiting: dict[str, Why]
    totals: Totals
    not_asked: tuple[frames.NotAsked, ...]


class Difference(msgspec.Struct, Generic[Item], frozen=True):
    """Rows to put in place of those of the same name, and names of rows that are gone."""

    put: tuple[Item, ...]
    drop: tuple[str, ...]


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is different from the event before."""

    v: int
    at_ms: int
    totals: Totals | None = None
    nodes: Difference[NodeShown] | None = None
    pools: Difference[PoolSummary] | None = None
    leases: Difference[frames.LeaseView] | None = None
    waiting: Difference[Why] | None = None
    log: tuple[frames.LogRow, ...] = ()
    not_asked: tuple[frames.NotAsked, ...] | None = None


class Event(msgspec.Struct, frozen=True):
    """One of the stream. `data` is JSON."""

    name: str
    data: bytes
    id: str = ""


class Full(Exception):
    """Too many listeners."""


class Mirror:
    """Shared by all listeners of the server."""

    def __init__(self, reading: Reading, node: str) -> None:
        self._reading = reading
        self._node = node
        self._life = secrets.token_hex(4)
        self._number = 0
        self._seen: Moment | None = None
        self._kept: deque[tuple[int, Event]] = deque(maxlen=KEPT_MAX)
        self._listeners: set[asyncio.Queue[Event | None]] = set()
        self._log: deque[frames.LogRow] = deque(maxlen=LOG_SHOWN_MAX)
        self._fresh: list[frames.LogRow] = []
        self._stirred = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._is_away = False
        self._waits = Waits(reading, self._stirred.set)

    @property
    def listeners(self) -> int:
        """How many there are."""
        return len(self._listeners)

    def knows(self, last: str) -> bool:
        """Whether the stream can go on after that event."""
        return self._after(last) is not None

    async def snapshot(self) -> Snapshot:
        """The state now. Raises HoldallError."""
        seen = await self._look(self._reading.get("queue"))
        parts = await self._reading.get("log", LOG_SINCE_MS)
        rows = sorted((row for part in parts for row in part.log), key=_age, reverse=True)
        return self._shown(seen, tuple(rows[:LOG_SHOWN_MAX]))

    async def events(self, last: str) -> AsyncIterator[Event]:
        """Events from `last` on, or from a snapshot on; ends when the listener reads too slowly. Raises Full."""
        if len(self._listeners) >= LISTENERS_MAX:
            raise Full
        queue: asyncio.Queue[Event | None] = asyncio.Queue(UNREAD_MAX + 1)
        try:
            for event in await self._first(last, queue):
                yield event
            while (later := await queue.get()) is not None:
                yield later
        finally:
            self._listeners.discard(queue)

    def close(self) -> None:
        """End the looking and all listeners."""
        if self._looking is not None:
            self._looking.cancel()
        self._waits.close()
        for queue in list(self._listeners):
            _cut(queue)

    async def _first(self, last: str, queue: asyncio.Queue[Event | None]) -> list[Event]:
        missed = self._after(last)
        if missed is not None:
            self._listeners.add(queue)
            self._begin()
            return missed
        if self._seen is None or self._looking is None or self._looking.done():
            # Nobody listened: what was seen then is old.
            parts = await self._reading.get("log", LOG_SINCE_MS)
            seen = await self._look()
            if self._seen is None or self._looking is None or self._looking.done():
                rows = sorted((row for part in parts for row in part.log), key=_age)
                self._log = deque(rows, LOG_SHOWN_MAX)
                self._seen = seen
                self._number += 1
                self._kept.clear()
        self._listeners.add(queue)
        self._begin()
        return [self._snapshot_event(self._seen)]

    def _snapshot_event(self, seen: Moment) -> Event:
        shown = self._shown(seen, tuple(reversed(self._log)))
        return Event("snapshot", msgspec.json.encode(shown), self._id(self._number))

    def _shown(self, seen: Moment, log: tuple[frames.LogRow, ...]) -> Snapshot:
        return Snapshot(
            at_ms=wall_ms(),
            node=self._node,
            totals=seen.totals,
            nodes=tuple(seen.nodes.values()),
            pools=tuple(seen.pools.values()),
            leases=tuple(seen.leases.values()),
            waiting=tuple(seen.waiting.values()),
            log=log,
            not_asked=seen.not_asked,
        )

    def _id(self, number: int) -> str:
        return f"{self._life}-{number}"

    def _after(self, last: str) -> list[Event] | None:
        """What came after that event; None when that is not known any more."""
        life, _, number = last.rpartition("-")
        is_looked = self._looking is not None and not self._looking.done()
        if (
            life != self._life
            or not is_looked
            or not (number.isascii() and number.isdigit() and len(number) < 16)
        ):
            return None
        mark = int(number)
        oldest = self._kept[0][0] if self._kept else self._number + 1
        if mark > self._number or mark < oldest - 1:
            return None
        return [event for at, event in self._kept if at > mark]

    # ------------------------------------------------------------ looking

    def _begin(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        watching = asyncio.get_running_loop().create_task(self._watch())
        try:
            while self._listeners:
                began = time.monotonic()
                try:
                    seen = await self._look()
                except HoldallError as problem:
                    self._away(problem)
                    await asyncio.sleep(AWAY_S)
                    continue
                self._saw(seen)
                took_s = time.monotonic() - began
                await self._pause(max(LOOK_S, LOOK_SHARE * took_s))
        finally:
            watching.cancel()
            self._waits.forget()
            self._fresh.clear()

    async def _pause(self, at_most_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await self._stirred.wait()
            await asyncio.sleep(SOON_S)
        self._stirred.clear()

    async def _watch(self) -> None:
        """Lines of the history, as the node tells them."""
        while True:
            with contextlib.suppress(HoldallError):
                talk = await self._reading.talk()
                async for answer in talk.answers(frames.Watch(n=talk.number()), within_s=None):
                    if isinstance(answer, frames.Happened):
                        self._fresh.append(answer.row)
                        self._stirred.set()
            await asyncio.sleep(AWAY_S)

    async def _look(self, asked: Awaitable[list[frames.Listing]] | None = None) -> Moment:
        pools, who, node, queue = await asyncio.gather(
            self._reading.get("pools"),
            self._reading.get("who"),
            self._reading.get("node"),
            asked or self._waits.soon(),
        )
        leases = sorted(
            (view for part in who for view in part.leases), key=lambda view: (view.since_ms, view.lease)
        )
        granted_ms = {view.lease: view.since_ms for view in leases}
        waits = sorted(
            (why for part in queue for why in part.waits if granted_ms.get(why.claim, -1) < why.since_ms),
            key=lambda why: (why.since_ms, why.claim),
        )
        pool_rows, node_rows = pools_of(pools), nodes_of(node)
        return Moment(
            nodes=node_rows,
            pools=pool_rows,
            leases={view.lease: view for view in leases[:LEASES_SHOWN_MAX]},
            waiting={why.claim: why for why in waits[:WAITING_SHOWN_MAX]},
            totals=totals_of(pool_rows.values(), leases, waits, node_rows.values(), now_ms=wall_ms()),
            not_asked=not_asked(pools, who, queue),
        )

    def _saw(self, seen: Moment) -> None:
        before, self._seen = self._seen, seen
        fresh, self._fresh = tuple(sorted(self._fresh, key=_age, reverse=True)), []
        self._log.extend(reversed(fresh))
        if before is None or self._is_away:
            self._is_away = False
            self._number += 1
            self._kept.clear()
            self._tell(self._snapshot_event(seen))
            return
        change = _change(before, seen, fresh)
        if change is None:
            return
        self._number += 1
        event = Event("change", msgspec.json.encode(change), self._id(self._number))
        self._kept.append((self._number, event))
        self._tell(event)

    def _away(self, problem: HoldallError) -> None:
        if not self._is_away:
            self._is_away = True
            text = problem.text if isinstance(problem, Unreachable) else f"the node refuses: {problem.text}"
            self._tell(Event("unreachable", msgspec.json.encode({"v": 1, "text": text})))

    def _tell(self, event: Event) -> None:
        for queue in list(self._listeners):
            if queue.qsize() >= UNREAD_MAX:
                self._listeners.discard(queue)
                _cut(queue)
            else:
                queue.put_nowait(event)


def _cut(queue: asyncio.Queue[Event | None]) -> None:
    with contextlib.suppress(asyncio.QueueFull):
        queue.put_nowait(None)


def _age(row: frames.LogRow) -> tuple[int, str, int]:
    return row.at_ms, row.node, row.seq


def _change(before: Moment, now: Moment, fresh: tuple[frames.LogRow, ...]) -> Change | None:
    """None: nothing that anybody would see has changed."""
    nodes = _difference(before.nodes, now.nodes, _node_key)
    pools = _difference(before.pools, now.pools, _itself)
    leases = _difference(before.leases, now.leases, _lease_key)
    waiting = _difference(before.waiting, now.waiting, _itself)
    totals = now.totals if _steady(before.totals) != _steady(now.totals) else None
    unasked = now.not_asked if before.not_asked != now.not_asked else None
    if all(one is None for one in (nodes, pools, leases, waiting, totals, unasked)) and not fresh:
        return None
    # The longest wait grows by itself; it is told with whatever else is.
    return Change(1, wall_ms(), now.totals, nodes, pools, leases, waiting, fresh, unasked)


def _difference(
    before: dict[str, Item], now: dict[str, Item], key: Callable[[Item], Hashable | object]
) -> "Difference[Item] | None":
    put: Iterable[Item] = [
        row for name, row in now.items() if name not in before or key(before[name]) != key(row)
    ]
    drop = tuple(name for name in before if name not in now)
    listed = tuple(put)
    return Difference(listed, drop) if listed or drop else None


def _itself(row: Any) -> object:
    return row


def _steady(totals: Totals) -> Totals:
    return msgspec.structs.replace(totals, longest_wait_ms=0)


def _node_key(node: NodeShown) -> object:
    """Its silence and its quarantine count by themselves."""
    return msgspec.structs.replace(node, silent_ms=0, quarantine_ms=None if not node.quarantine_ms else 1)


def _lease_key(view: frames.LeaseView) -> object:
    """A renewal moves the end of a lease at each third of its ttl; while it is renewed that is no news."""
    return msgspec.structs.replace(view, expires_ms=0) if view.renewing else view

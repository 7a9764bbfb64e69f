"""Leadership by an entry in a JetStream bucket: one task that looks, writes, and begins anew when the table is lost.

Where the table can't be reached, whoever led goes on: it may have a successor by then whom hosts obey, which is harmless.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Sequence
from time import time
from typing import Protocol

from holdall.bus.connection import Login
from holdall.bus.leadership import (
    BEAT_MS,
    TAKEOVER_MS,
    Election,
    Entry,
    Leading,
    Told,
    Word,
    first_epoch,
)
from holdall.bus.leadership_table import Outrun, Table, TableLost
from holdall.bus.log import Log, Seldom
from holdall.model.errors import BadConfig

CLOSE_S = 5.0
LOST_BEATS_MAX = 10
"""A table that stays out of reach is looked for so seldom."""


class AnyTable(Protocol):
    """See `leadership_table.Table`."""

    async def open(self, url: str, login: Login, node: str) -> None:
        """Raises TableLost."""
        ...

    async def look(self) -> Entry | None:
        """Raises TableLost."""
        ...

    async def write(self, word: Word, revision: int | None) -> int:
        """Raises Outrun, TableLost."""
        ...

    async def close(self) -> None:
        """Idempotent."""
        ...


class KvLeadership:
    """One candidate's part in the election of one location's manager."""

    def __init__(
        self,
        system: str,
        location: str,
        me: str,
        *,
        servers: Callable[[], Sequence[str]],
        login: Callable[[], Login],
        log: Log,
        beat_ms: int = BEAT_MS,
        takeover_ms: int = TAKEOVER_MS,
        table: Callable[[int], AnyTable] | None = None,
    ) -> None:
        """`servers` and `login` are asked at each new connection; of three servers all three keep the table."""
        self.connections = 0
        self.problem = ""
        """Why the table can't be reached now, for people."""
        self._me = me
        self._servers, self._login = servers, login
        self._log, self._warn = log, Seldom(log.warning)
        self._beat_s = self._pause_s = beat_ms / 1000
        self._election = Election(
            me, secrets.token_hex(8), first_epoch=first_epoch(int(time())), takeover_ms=takeover_ms
        )
        self._make = table or _tables(system, location)
        self._table: AnyTable | None = None
        self._told: Told | None = None
        self._said: Leading | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._closing = False
        self._turn = 0

    @property
    def now(self) -> Leading:
        """Who leads, as far as is known here."""
        return self._election.now

    async def open(self, told: Told) -> None:
        """Begin, as a candidate. Returns at once; `told` hears whoever is known to lead."""
        if self._task is not None:
            raise RuntimeError("a candidate is opened once")
        self._told = told
        self._task = asyncio.create_task(self._run(), name="leadership")

    def seen(self, epoch: int) -> None:
        """A host has heard of this epoch: this candidate leads with a higher one from now on, if it leads at all."""
        self._election.heard(epoch)
        if self._election.must_rise():
            self._wake.set()

    async def close(self) -> None:
        """Stop being a candidate; a leader says so, that others need not wait. Idempotent."""
        task, self._task = self._task, None
        if task is None:
            return
        # Never cancelled while it asks: nats-py does not take that well. Each question has a bound of its own.
        self._told, self._closing = None, True
        self._wake.set()
        await asyncio.wait((task,), timeout=CLOSE_S)
        task.cancel()

    async def _run(self) -> None:
        try:
            while not self._closing:
                await self._beat()
            await self._say_farewell()
        finally:
            await self._drop()

    async def _beat(self) -> None:
        try:
            await self._round()
            self.problem, self._pause_s = "", self._beat_s
        except Outrun:
            return  # somebody was first: look again at once
        except TableLost as problem:
            self.problem = str(problem)
            self._warn("the table of the location's leader can't be reached", why=self.problem)
            await self._drop()
            self._pause_s = min(2 * self._pause_s, LOST_BEATS_MAX * self._beat_s)
        self._tell()
        await self._pause()

    async def _say_farewell(self) -> None:
        """So that nobody need wait. If it does not get through, others find out by themselves."""
        farewell = self._election.farewell()
        if farewell is not None and self._table is not None:
            with contextlib.suppress(Outrun, TableLost):
                await self._table.write(farewell.word, farewell.revision)

    async def _round(self) -> None:
        table = await self._connected()
        # A leader looks, too: what it wrote last may be lost, and another's word in a bucket that was made anew.
        written = self._election.step(await table.look(), self._now_ms())
        if written is not None:
            revision = await table.write(written.word, written.revision)
            self._election.wrote(written, revision, self._now_ms())

    async def _connected(self) -> AnyTable:
        if self._table is not None:
            return self._table
        urls = list(self._servers())
        if not urls:
            raise TableLost("no server is known")
        self._turn += 1
        url = urls[self._turn % len(urls)]
        table = self._make(3 if len(urls) > 2 else 1)
        self._table = table
        try:
            login = self._login()
        except BadConfig as problem:
            raise TableLost(problem.text) from None
        await table.open(url, login, self._me)
        self.connections += 1
        return table

    async def _drop(self) -> None:
        table, self._table = self._table, None
        if table is not None:
            await table.close()

    async def _pause(self) -> None:
        if self._closing:
            return
        self._wake.clear()
        waits = asyncio.ensure_future(self._wake.wait())
        await asyncio.wait((waits,), timeout=self._pause_s)
        waits.cancel()

    def _tell(self) -> None:
        now = self._election.now
        if now.leader is None or self._told is None or self._said == now:
            return
        if self._said is None or self._said.leader != now.leader:
            self._log.info("the location has another leader", leader=now.leader, epoch=now.epoch)
        self._said = now
        self._told(now.leader, now.epoch)

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


def _tables(system: str, location: str) -> Callable[[int], AnyTable]:
    def make(replicas: int) -> AnyTable:
        return Table(system, location, replicas=replicas)

    return make

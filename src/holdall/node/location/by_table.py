"""Leadership by a common table where it can be reached, and by the first node that is heard where it can't.

A table whose server is gone with the leader would leave a location without a manager until that server is back. So when
the table has been out of reach for a while and its leader is not heard, or leaves heartbeats unanswered, the first node leads; the table's word counts
again as soon as it can be read. That may make two leaders, which harms nothing.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Protocol

from holdall.node.clock import boottime_ms
from holdall.node.location.leadership import LOOK_EVERY_S, Leadership, Told

PATIENCE_MS = 5000
"""A table is waited for so long before its leader is believed gone."""


def _nobody(node: str) -> bool:
    del node
    return False


class TableLeadership(Leadership, Protocol):
    """An election over a table that may be out of reach."""

    @property
    def problem(self) -> str:
        """Why it can't be reached now; empty when it can."""
        ...


class TableOrFirst:
    """See `Leadership`."""

    def __init__(
        self,
        own: str,
        table: TableLeadership,
        first: Leadership,
        *,
        heard: Callable[[], Sequence[str]],
        doubts: Callable[[str], bool] = _nobody,
        patience_ms: int = PATIENCE_MS,
        clock_ms: Callable[[], int] = boottime_ms,
    ) -> None:
        """`heard`: the ids of the location's other nodes that are heard now. `doubts`: those who do not answer all the same."""
        self.by_first = False
        """The table is out of reach, and so is its leader."""
        self._own = own
        self._table, self._first = table, first
        self._heard, self._doubts = heard, doubts
        self._patience_ms = patience_ms
        self._clock_ms = clock_ms
        self._lost_ms: int | None = None
        self._said_by_table, self._said_by_first = ("", 0), ("", 0)
        self._said = ("", 0)
        self._told: Told | None = None
        self._looking: asyncio.Task[None] | None = None

    async def open(self, told: Told) -> None:
        """Both begin; the table's word counts first."""
        self._told = told
        await self._first.open(self._of_first)
        await self._table.open(self._of_table)
        self._looking = asyncio.get_running_loop().create_task(self._look_on())

    def look(self) -> None:
        """Decide whose word counts now."""
        now_ms = self._clock_ms()
        if not self._table.problem:
            self._lost_ms, self.by_first = None, False
        else:
            self._lost_ms = now_ms if self._lost_ms is None else self._lost_ms
            leader = self._said_by_table[0]
            is_there = leader == self._own or (leader in self._heard() and not self._doubts(leader))
            self.by_first = not is_there and now_ms - self._lost_ms >= self._patience_ms
        self._tell()

    def seen(self, epoch: int) -> None:
        """As `Leadership.seen`."""
        self._table.seen(epoch)
        self._first.seen(epoch)

    async def close(self) -> None:
        """As `Leadership.close`."""
        self._told = None
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking
        await self._first.close()
        await self._table.close()

    def _of_table(self, node: str, epoch: int) -> None:
        self._said_by_table = node, epoch
        # What hosts have heard by the table, the first node must exceed.
        self._first.seen(epoch)
        self._tell()

    def _of_first(self, node: str, epoch: int) -> None:
        self._said_by_first = node, epoch
        self._tell()

    def _tell(self) -> None:
        said = self._said_by_first if self.by_first else self._said_by_table
        if said != self._said and self._told is not None:
            self._said = said
            self._told(*said)

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look()

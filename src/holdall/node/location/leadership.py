"""Who leads among the nodes that could manage a location, and with which epoch.

Leadership only spares work: each host obeys the highest epoch that it has heard, so two leaders at once can grant
nothing twice. Whoever implements `Leadership` need not import this file.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from holdall.node.clock import boottime_ms, wall_ms

LOOK_EVERY_S = 1.0
DOUBT_MS = 30_000
"""Who does not answer is passed over for so long. By then the directory knows whether it is silent."""

Told: TypeAlias = Callable[[str, int], None]
"""(node id of the leader, its epoch), on each change. No node (empty) and epoch 0: nobody is known to lead."""


class Leadership(Protocol):
    """Elects one of the nodes of a location. `told` is called on the running loop."""

    async def open(self, told: Told) -> None:
        """Begin, as a candidate."""
        ...

    def seen(self, epoch: int) -> None:
        """A host obeys a manager with this epoch, which is larger than ours: lead with a larger one, or not at all."""
        ...

    async def close(self) -> None:
        """Lead no more; nothing is told any more."""
        ...


class FirstNode:
    """The node with the smallest id of those that are heard leads. Its epoch is the wall clock in ms when it began to.

    That a node is gone gets about in some ten seconds. A manager that leaves its hosts' heartbeats unanswered is passed over
    sooner, by each host for itself. Two nodes that do not hear each other both lead; their hosts obey the later one.
    """

    def __init__(
        self,
        own: str,
        heard: Callable[[], Sequence[str]],
        *,
        silent: Callable[[], str] = str,
        clock_ms: Callable[[], int] = boottime_ms,
    ) -> None:
        """`heard`: the ids of the location's other nodes that are heard now.

        `silent`: the manager that does not answer this node's host; empty: none.
        """
        self._own = own
        self._heard = heard
        self._silent = silent
        self._clock_ms = clock_ms
        self._doubted: dict[str, int] = {}
        """Node -> until when it is passed over."""
        self._leader, self._epoch = "", 0
        self._told: Told = _nobody
        self._looking: asyncio.Task[None] | None = None

    async def open(self, told: Told) -> None:
        """Look now, and again every second."""
        self._told = told
        self.look()
        self._looking = asyncio.get_running_loop().create_task(self._look_on())

    def look(self) -> None:
        """Find out who is the first now, and tell a change."""
        now_ms, silent = self._clock_ms(), self._silent()
        if silent:
            self._doubted[silent] = now_ms + DOUBT_MS
        leader = min((self._own, *(one for one in self._heard() if not self.doubts(one))))
        if leader == self._leader:
            return
        self._leader = leader
        # Of another leader the epoch is its own affair: its orders carry it.
        self._epoch = max(wall_ms(), self._epoch + 1) if leader == self._own else self._epoch
        self._told(leader, self._epoch if leader == self._own else 0)

    def doubts(self, node: str) -> bool:
        """Whether a node is passed over now, as it has left heartbeats of this node's host unanswered."""
        return self._doubted.get(node, 0) > self._clock_ms()

    def seen(self, epoch: int) -> None:
        """As `Leadership.seen`."""
        if epoch > self._epoch:
            self._epoch = epoch
            if self._leader == self._own:
                self._epoch += 1
                self._told(self._own, self._epoch)

    async def close(self) -> None:
        """As `Leadership.close`."""
        self._told = _nobody
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look()


def _nobody(node: str, epoch: int) -> None:
    del node, epoch

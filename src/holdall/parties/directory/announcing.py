"""The own entry of a directory: what this node says of itself, kept up to date once a round.

Its pools are read when they were touched since the last round, never all of them: the pools' side tells which.
"""

from collections.abc import Collection
from itertools import islice
from typing import Protocol, Self

import msgspec

from holdall.parties.directory.messages import (
    POOLS_PER_NODE_MAX,
    REBUTTALS_MAX,
    TEXT_MAX,
    AnnouncedState,
    DirectorySettings,
    Header,
    Row,
)
from holdall.parties.directory.pool_log import PoolLog
from holdall.parties.neighbours import PoolNews
from holdall.parties.reading import AnySide, view_of

READ_MAX = 10_000
"""Pools that are read for the first time in one turn; more come in the next rounds."""


class OwnPools(Protocol):
    """What an own entry reads of its node's pools."""

    @property
    def epoch(self) -> int:
        """The manager's."""
        ...

    @property
    def state(self) -> AnnouncedState:
        """Serving, in quarantine or draining."""
        ...

    def all(self) -> Collection[str]:
        """Ids of the configured pools, ascending."""
        ...

    def take_touched(self) -> Collection[str]:
        """Pools that may have changed since this was asked last, ascending."""
        ...

    def news(self, pool: str) -> PoolNews | None:
        """The pool as of now; None: it is not configured (any more)."""
        ...


class PoolSideNews:
    """Implements `OwnPools` over a pool's side."""

    def __init__(self, side: AnySide) -> None:
        self._side = side
        self._view = view_of(side)

    @property
    def epoch(self) -> int:
        """As `OwnPools.epoch`."""
        return self._view.epoch

    @property
    def state(self) -> AnnouncedState:
        """As `OwnPools.state`."""
        book = self._side.book
        if book.service.draining:
            return "draining"
        return "serving" if book.may_grant() else "quarantine"

    def all(self) -> Collection[str]:
        """As `OwnPools.all`."""
        return sorted(self._side.book.service.configured)

    def take_touched(self) -> Collection[str]:
        """As `OwnPools.take_touched`."""
        return self._side.take_touched()

    def news(self, pool: str) -> PoolNews | None:
        """As `OwnPools.news`."""
        service = self._side.book.service
        if pool not in service.configured:
            return None
        known = service.pools[pool]
        spec = known.spec
        return PoolNews(
            pool=pool,
            name=spec.name,
            labels=spec.labels,
            reach=spec.reach,
            total=len(spec.units),
            free=known.free_count(),
            waiting=self._view.waiting_at(pool),
            max_for_ms=spec.max_for_ms,
            prepares=bool(spec.on_grant),
        )


class OwnEntry:
    """This node in the directory. `header` is None until it serves and somebody could read it."""

    def __init__(self, settings: DirectorySettings, pools: OwnPools, incarnation: int) -> None:
        self.settings = settings
        self.pools = pools
        self.incarnation = incarnation
        self.rebuttal = 0
        self.beat = 0
        self.header: Header | None = None
        self.log = PoolLog()
        self._initial = 0
        self._unread: list[str] = []
        """Pools that the log of this life has no line of yet, last one first."""
        self.since_ms = 0
        self.aside = False
        """Left out of planning: another node had the name first."""
        self.quarantine_ms = 0
        """Of this start; what has passed of it is taken off when it is told."""

    @property
    def life(self) -> tuple[int, int]:
        """As in `Row.life`."""
        return (self.rebuttal, self.incarnation)

    def begin(self, passed_ms: int) -> None:
        """Say all: at the start, and in a new life after a rebuttal. What is beyond `READ_MAX` is read in later rounds."""
        self.pools.take_touched()
        self.log.begin_again()
        self._unread = list(islice(self.pools.all(), POOLS_PER_NODE_MAX))
        self._initial = len(self._unread)
        self._unread.reverse()
        self._read()
        self.beat += 1
        self.header = self._header(passed_ms)

    def refresh(self, passed_ms: int) -> bool:
        """Read what was touched, and the node's state. Returns whether the state is another."""
        if self.header is None:
            return False
        self.beat += 1
        if self._unread:
            self._read()
        else:
            for pool in self.pools.take_touched():
                news = self.pools.news(pool)
                if news != self.log.news.get(pool):
                    self.log.put(self.log.have + 1, pool, news)
        header = self._header(passed_ms)
        same = msgspec.structs.replace(header, said=self.header.said, quarantine_ms=self.header.quarantine_ms)
        if same == self.header:
            return False
        changed = header.state != self.header.state
        self.header = header
        return changed

    def _read(self) -> None:
        # One line for each, in order, so that a log of `initial` lines has them all; what changes meanwhile waits.
        for _ in range(min(READ_MAX, len(self._unread))):
            pool = self._unread.pop()
            self.log.put(self.log.have + 1, pool, self.pools.news(pool))
        if not self._unread:
            self.log.drop_unlisted()

    def stop(self) -> None:
        """The last word of this start."""
        if self.header is not None:
            self.beat += 1
            self.header = msgspec.structs.replace(self.header, said=self.beat, state="stopped")

    def rebut(self, told: Row, passed_ms: int) -> None:
        """Others tell of this node what it has not said: begin a life that is above it."""
        self.rebuttal = min(told.rebuttal + 1, REBUTTALS_MAX)
        if self.header is not None:
            self.begin(passed_ms)

    def is_foretold(self, told: Row) -> bool:
        """Whether somebody knows more of this node than it has said."""
        if told.life != self.life:
            return told.life > self.life
        if self.header is None:
            return told.beat > self.beat
        return told.beat > self.beat or told.said > self.header.said or told.have > self.log.have

    def row(self) -> Row | None:
        """The own line of a summary."""
        if self.header is None:
            return None
        return Row(
            self.settings.node, self.rebuttal, self.incarnation, self.beat, self.header.said, self.log.have
        )

    def copy(self) -> Self:
        """An independent twin, which reads the same pools."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.log, twin._unread = self.log.copy(), list(self._unread)
        return twin

    def _header(self, passed_ms: int) -> Header:
        settings = self.settings
        state = self.pools.state
        left = max(self.quarantine_ms - passed_ms, 0) if state == "quarantine" else 0
        return Header(
            node=settings.node,
            name=settings.name,
            instance=settings.instance,
            incarnation=self.incarnation,
            said=self.beat,
            rebuttal=self.rebuttal,
            epoch=self.pools.epoch,
            state="draining" if self.aside else state,
            quarantine_ms=left,
            since_ms=self.since_ms,
            address=settings.address[:TEXT_MAX],
            location=settings.location[:TEXT_MAX],
            version=settings.version[:TEXT_MAX],
            initial=self._initial,
            offers=settings.offers,
        )

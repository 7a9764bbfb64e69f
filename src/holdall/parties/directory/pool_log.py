"""The pools of one node as its directory entry has them: a log in which a later line replaces an earlier one.

The node numbers its lines. Whoever knows the log up to a number asks for what comes after it, so what goes over
the wire is what has changed, however many pools there are; a log that was read in part goes on where it stopped.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Self

import msgspec

from holdall.model.names import pool_id
from holdall.parties.directory.messages import Line
from holdall.parties.neighbours import PoolNews

_encode = msgspec.msgpack.Encoder().encode


class PoolLog:
    """Lines by number, and the pools that they make."""

    def __init__(self) -> None:
        self.news: dict[str, PoolNews] = {}
        """The pools. In a new life those of the one before stay until all of the new ones are known."""
        self.seqs: dict[str, int] = {}
        """Pool -> number of its latest line, those included that are gone."""
        self.have = 0
        self._order: list[tuple[int, str]] = []
        """(number, pool), ascending; lines that have been replaced stay until there are as many as others."""

    def put(self, seq: int, pool: str, news: PoolNews | None) -> PoolNews | None:
        """A line that is later than all so far; None: the pool is gone. Returns what was known before."""
        self.seqs[pool] = seq
        self._order.append((seq, pool))
        self.have = seq
        if len(self._order) > 2 * len(self.seqs) + 64:
            self._order = [(number, name) for number, name in self._order if self.seqs[name] == number]
        return self.news.pop(pool, None) if news is None else self._replace(pool, news)

    def _replace(self, pool: str, news: PoolNews) -> PoolNews | None:
        before = self.news.get(pool)
        self.news[pool] = news
        return before

    def begin_again(self) -> None:
        """A new life: lines are numbered from 1 again."""
        self.seqs, self._order, self.have = {}, [], 0

    def drop_unlisted(self) -> list[PoolNews]:
        """All of the new life is known: pools of which it does not tell are gone."""
        lost = [pool for pool in self.news if pool not in self.seqs]
        return [self.news.pop(pool) for pool in lost]

    def page(self, after: int, room: int) -> tuple[int, tuple[Line, ...], bool, int]:
        """(upto, lines, more, bytes): what follows `after`, about `room` bytes of it, at least one line."""
        lines: list[Line] = []
        used, upto = 0, after
        for place in range(bisect_right(self._order, after, key=_number), len(self._order)):
            seq, pool = self._order[place]
            if self.seqs[pool] != seq:
                continue
            if lines and used >= room:
                return upto, tuple(lines), True, used
            line = line_of(seq, pool, self.news.get(pool))
            used += len(_encode(line))
            lines.append(line)
            upto = seq
        return self.have, tuple(lines), False, used

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.news, twin.seqs, twin.have = dict(self.news), dict(self.seqs), self.have
        twin._order = list(self._order)
        return twin


def _number(line: tuple[int, str]) -> int:
    return line[0]


def line_of(seq: int, pool: str, news: PoolNews | None) -> Line:
    """How a pool is written in the log."""
    if news is None:
        return Line(seq, "", gone=True, pool=pool)
    return Line(
        seq,
        news.name,
        news.labels,
        total=news.total,
        free=news.free,
        waiting=news.waiting,
        host=news.reach == "host",
        prepares=news.prepares,
        max_for_ms=news.max_for_ms,
        pool="" if pool == derived_id(news.name, news.labels) else pool,
    )


def news_of(line: Line) -> tuple[str, PoolNews | None]:
    """The pool that a line is about, and what it says of it."""
    pool = line.pool or derived_id(line.name, line.labels)
    if line.gone:
        return pool, None
    return pool, PoolNews(
        pool=pool,
        name=line.name,
        labels=line.labels,
        reach="host" if line.host else "system",
        total=line.total,
        free=line.free,
        waiting=line.waiting,
        max_for_ms=line.max_for_ms,
        prepares=line.prepares,
    )


def derived_id(name: str, labels: Iterable[tuple[str, str]]) -> str:
    """The id of a pool of this name with these labels."""
    return pool_id(name, dict(labels))

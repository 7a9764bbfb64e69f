"""The line of one pool: who has no units there, in order of (index, claim), and how many units they want."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Self

from holdall.protocols.by_pool.manager import Key
from holdall.protocols.lanes.messages import LaneEntry, Status
from holdall.protocols.vocabulary import ALL


class Line:
    """Open and queued entries; sums are kept, so that nothing walks the line."""

    def __init__(self) -> None:
        self._order: list[tuple[int, Key]] = []
        self._units = 0
        self._alls = 0

    def __iter__(self) -> Iterator[Key]:
        return (key for _, key in self._order)

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, entry: LaneEntry) -> bool:
        return self._at(entry) is not None

    def enter(self, entry: LaneEntry) -> None:
        """At the place of its index."""
        insort(self._order, _order_of(entry))
        self._sum(entry, 1)

    def leave(self, entry: LaneEntry) -> None:
        """If it is in."""
        at = self._at(entry)
        if at is not None:
            del self._order[at]
            self._sum(entry, -1)

    def before(self, entry: LaneEntry) -> int:
        """How many in the line come before this entry, in it or not."""
        return bisect_left(self._order, _order_of(entry))

    def wanted(self, capacity: int) -> int:
        """Units that all in the line want but those that lend; who wants all of the pool counts its capacity."""
        return self._units + self._alls * max(1, capacity)

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin._order = self._order.copy()
        twin._units, twin._alls = self._units, self._alls
        return twin

    def _at(self, entry: LaneEntry) -> int | None:
        order = _order_of(entry)
        at = bisect_left(self._order, order)
        return at if at < len(self._order) and self._order[at] == order else None

    def _sum(self, entry: LaneEntry, sign: int) -> None:
        if entry.status is Status.LENT:
            return
        if entry.units == ALL:
            self._alls += sign
        else:
            self._units += sign * entry.units


def _order_of(entry: LaneEntry) -> tuple[int, Key]:
    return (entry.index, (entry.claim, entry.place))

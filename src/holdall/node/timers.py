"""All timers of a node in one heap of CLOCK_BOOTTIME deadlines.

Nothing here waits: the loop asks when to wake and, at every wake for whatever reason, what is due. So a loop
timer that comes late or early (a suspended machine) can't make a deadline pass unseen.
"""

import heapq
import secrets
from collections.abc import Mapping

from holdall.machine.contract import CancelTimer, SetTimer

_STALE_MIN = 64


class Timers:
    """Name -> deadline in milliseconds of CLOCK_BOOTTIME."""

    def __init__(self) -> None:
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, int, str]] = []
        self._order = 0

    def __len__(self) -> int:
        return len(self._due)

    def apply(self, orders: Mapping[str, SetTimer | CancelTimer], now_ms: int) -> None:
        """Set and cancel timers of one turn; `now_ms` must be read after the turn's commit."""
        for name, order in orders.items():
            if isinstance(order, CancelTimer):
                self._due.pop(name, None)
                continue
            spread = secrets.randbelow(order.spread_ms + 1) if order.spread_ms > 0 else 0
            deadline = now_ms + order.after_ms + spread
            self._due[name] = deadline
            self._order += 1
            heapq.heappush(self._heap, (deadline, self._order, name))
        if len(self._heap) > 2 * len(self._due) + _STALE_MIN:
            self._compact()

    def take_due(self, now_ms: int, *, most: int) -> list[str]:
        """Names of at most `most` timers whose deadline has come, earliest first; they are unset."""
        names: list[str] = []
        while self._heap and self._heap[0][0] <= now_ms and len(names) < most:
            deadline, _, name = heapq.heappop(self._heap)
            if self._due.get(name) == deadline:
                del self._due[name]
                names.append(name)
        return names

    def next_ms(self) -> int | None:
        """The earliest deadline; None when no timer is set."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _compact(self) -> None:
        # Renewals replace deadlines all the time; without this the heap would keep each old one until it is due.
        self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
        heapq.heapify(self._heap)

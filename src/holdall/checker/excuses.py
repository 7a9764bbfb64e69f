"""Time that counts in no wait and no reclaim: the faults that the driver excused."""

from bisect import bisect_right
from collections.abc import Iterable

from holdall.checker.reading import Line
from holdall.checker.records import Fault


class Excuses:
    """The union of all excused faults. One without an end lasts until the end of the history."""

    def __init__(self, faults: Iterable[Line[Fault]], horizon: int) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._before: list[int] = []  # excused time before each start
        excused = sorted(
            (line.record.start, horizon if line.record.end is None else line.record.end)
            for line in faults
            if line.record.excuse
        )
        total = 0
        for start, end in excused:
            if self._ends and start <= self._ends[-1]:
                total += max(0, end - self._ends[-1])
                self._ends[-1] = max(end, self._ends[-1])
            elif end > start:
                self._starts.append(start)
                self._ends.append(end)
                self._before.append(total)
                total += end - start

    def counted_at(self, at: int) -> int:
        """A clock that stands still while a fault is excused: differences of it are counted time."""
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return at
        return at - self._before[index] - (min(at, self._ends[index]) - self._starts[index])

"""Time that counts in no wait and no reclaim: the faults that the driver excused."""

from bisect import bisect_right
from collections.abc import Iterable

from holdall.checker.reading import Line
from holdall.checker.records import Fault


class StoppedClock:
    """A clock that stands still in each of the intervals (start, end)."""

    def __init__(self, intervals: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._before: list[int] = []  # time stood still before each start
        total = 0
        for start, end in sorted(intervals):
            if self._ends and start <= self._ends[-1]:
                total += max(0, end - self._ends[-1])
                self._ends[-1] = max(end, self._ends[-1])
            elif end > start:
                self._starts.append(start)
                self._ends.append(end)
                self._before.append(total)
                total += end - start

    def at(self, time: int) -> int:
        """What the clock shows; it never goes back."""
        index = bisect_right(self._starts, time) - 1
        if index < 0:
            return time
        return time - self._before[index] - (min(time, self._ends[index]) - self._starts[index])


class Excuses:
    """Counts time without excused faults; a fault without an end lasts until the end of the history."""

    def __init__(self, faults: Iterable[Line[Fault]], horizon: int) -> None:
        everybodys: list[tuple[int, int]] = []
        of_client: dict[str, list[tuple[int, int]]] = {}
        for line in faults:
            fault = line.record
            if fault.excuse:
                interval = (fault.start, horizon if fault.end is None else fault.end)
                (everybodys if fault.client is None else of_client.setdefault(fault.client, [])).append(
                    interval
                )
        self.clock = StoppedClock(everybodys)
        """Stands still while something was excused for everybody."""
        # One clock stops within the other, so that time which both excuse is taken away once.
        self._of_client = {
            client: StoppedClock((self.clock.at(start), self.clock.at(end)) for start, end in intervals)
            for client, intervals in of_client.items()
        }

    def counted(self, client: str, start: int, end: int) -> int:
        """The time from start to end that counts for a wait of the client."""
        own = self._of_client.get(client)
        first, last = self.clock.at(start), self.clock.at(end)
        return last - first if own is None else own.at(last) - own.at(first)

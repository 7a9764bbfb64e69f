"""Small trees over places 0…n-1 that keep every sweep within O(n log n)."""

from collections.abc import Sequence


class CountTree:
    """Adds up marks (a Fenwick tree): how many lie at or after a place."""

    def __init__(self, size: int) -> None:
        self._marks = [0] * (size + 1)
        self._total = 0

    def mark(self, place: int) -> None:
        """One more mark at the place."""
        self._total += 1
        index = place + 1
        while index < len(self._marks):
            self._marks[index] += 1
            index += index & -index

    def marked_from(self, place: int) -> int:
        """Marks at `place` and after it."""
        index, before = place, 0
        while index > 0:
            before += self._marks[index]
            index -= index & -index
        return self._total - before


class MaxTree:
    """The largest of the values that were put at some places, for any range of them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._best: list[tuple[int, int] | None] = [None] * (2 * size)

    def put(self, place: int, value: int) -> None:
        """The value of a place; put once."""
        index = place + self._size
        entry = (value, place)
        while index >= 1:
            best = self._best[index]
            if best is None or best < entry:
                self._best[index] = entry
            index //= 2

    def best_in(self, first: int, end: int) -> tuple[int, int] | None:
        """(value, place) of the largest in first…end-1; None where nothing was put."""
        best: tuple[int, int] | None = None
        low, high = first + self._size, end + self._size
        while low < high:
            if low & 1:
                best = _larger(best, self._best[low])
                low += 1
            if high & 1:
                high -= 1
                best = _larger(best, self._best[high])
            low //= 2
            high //= 2
        return best


class LevelTree:
    """Levels in the order of time: which of the first few was the last one above a line."""

    def __init__(self, levels: Sequence[int]) -> None:
        self._leaves = 1
        while self._leaves <= len(levels):  # one more than needed: a place after the last one
            self._leaves *= 2
        lowest = min(levels, default=0)
        self._highest = [lowest] * (2 * self._leaves)
        self._highest[self._leaves : self._leaves + len(levels)] = levels
        for index in range(self._leaves - 1, 0, -1):
            self._highest[index] = max(self._highest[2 * index], self._highest[2 * index + 1])

    def last_above(self, line: int, end: int) -> int | None:
        """The largest place below `end` whose level is above the line."""
        index = self._leaves + end
        while index > 1:  # up, looking at what lies to the left
            if index & 1 and self._highest[index - 1] > line:
                index -= 1
                break
            index //= 2
        else:
            return None
        while index < self._leaves:  # down to the rightmost one above it
            index = 2 * index + 1 if self._highest[2 * index + 1] > line else 2 * index
        return index - self._leaves


def _larger(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)

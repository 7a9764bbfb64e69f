"""Entries in the order of their keys, and what those at the beginning amount to together.

They lie in blocks of at most `BLOCK_MAX`, each with its own sums, so a question walks the blocks and then one block:
with n entries about n / 50 + 50 steps, where a walk over all would take n.
"""

from bisect import bisect_left, insort
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import msgspec

Exact: TypeAlias = int | Fraction
"""Integers stay integers: their arithmetic is a tenth of the cost of fractions'."""
Name: TypeAlias = tuple[str, str]
"""(holder, lease) of a demand, (group, "") of a group's."""
Key: TypeAlias = tuple[Exact, Name]

BLOCK_MAX = 96
"""A block that grows beyond it is halved; one that is empty goes."""
FIRST: Name = ("", "")
"""Before all names."""


class Sums(msgspec.Struct, frozen=True):
    """What some entries amount to."""

    count: int = 0
    amount: int = 0
    weight: Exact = 0

    def plus(self, other: "Sums") -> "Sums":
        """Both together."""
        return Sums(self.count + other.count, self.amount + other.amount, self.weight + other.weight)


class _Block(msgspec.Struct):
    keys: list[Key]
    sums: Sums


class SortedSums:
    """Keys, each with an amount and a weight; no key comes twice."""

    def __init__(self) -> None:
        self.total = Sums()
        self._blocks: list[_Block] = []
        self._values: dict[Key, Sums] = {}

    def put(self, key: Key, amount: int, weight: Exact) -> None:
        """A new entry."""
        value = Sums(1, amount, weight)
        self._values[key] = value
        self.total = self.total.plus(value)
        if not self._blocks:
            self._blocks.append(_Block([key], value))
            return
        at = min(self._block_of(key), len(self._blocks) - 1)
        block = self._blocks[at]
        insort(block.keys, key)
        block.sums = block.sums.plus(value)
        if len(block.keys) > BLOCK_MAX:
            middle = len(block.keys) // 2
            self._blocks[at : at + 1] = [
                _Block(keys, self._sum_of(keys)) for keys in (block.keys[:middle], block.keys[middle:])
            ]

    def drop(self, key: Key) -> None:
        """The entry goes. Raises KeyError when there is none."""
        gone = self._values.pop(key)
        gone = Sums(-gone.count, -gone.amount, -gone.weight)
        self.total = self.total.plus(gone)
        at = self._block_of(key)
        block = self._blocks[at]
        del block.keys[bisect_left(block.keys, key)]
        block.sums = block.sums.plus(gone)
        if not block.keys:
            del self._blocks[at]

    def before(self, key: Key) -> Sums:
        """Of all entries whose keys are less."""
        found = Sums()
        for block in self._blocks:
            if block.keys[-1] >= key:
                return found.plus(self._sum_of(block.keys[: bisect_left(block.keys, key)]))
            found = found.plus(block.sums)
        return found

    def beginning(self, belongs: Callable[[Exact, Sums], bool]) -> Sums:
        """Of the entries at the beginning that belong there.

        `belongs` is asked with an entry's key (without the name) and the sums up to and with it. Once it says no, it must
        say no for all that follow.
        """
        found = Sums()
        for block in self._blocks:
            through = found.plus(block.sums)
            if belongs(block.keys[-1][0], through):
                found = through
                continue
            for key in block.keys:
                through = found.plus(self._values[key])
                if not belongs(key[0], through):
                    return found
                found = through
        return found

    def copy(self) -> "SortedSums":
        """An independent twin."""
        twin = SortedSums()
        twin.total, twin._values = self.total, dict(self._values)
        twin._blocks = [_Block(list(block.keys), block.sums) for block in self._blocks]
        return twin

    def _block_of(self, key: Key) -> int:
        """Where the key is, or would be; the number of blocks when it comes after all."""
        return bisect_left(self._blocks, key, key=lambda block: block.keys[-1])

    def _sum_of(self, keys: list[Key]) -> Sums:
        values = [self._values[key] for key in keys]
        return Sums(
            len(values), sum(value.amount for value in values), sum((value.weight for value in values), 0)
        )

"""All states found, in the order in which they were found, in few bytes each.

Exact: the packed states stand in one array, and an open table of numbers finds them. Compact (hash compaction: Wolper
and Leroy, 1993): of a state that has been looked at only a hash of 64 bits is kept, so two states may be taken for
one. With n states the chance that any was missed is at most n² / 2^65: Python hashes bytes by SipHash under a key
that is drawn anew for each process (unless PYTHONHASHSEED is set), so it does not depend on the states.
"""

from array import array
from typing import Final

HASH_BITS = 64
_MASK: Final = (1 << HASH_BITS) - 1
_FIRST_SLOTS = 1 << 10
_TRIM = 1 << 16
"""States that have been looked at are dropped in blocks of so many."""


def miss_bound(states: int) -> float:
    """The chance, at most, that compaction has taken some state for another one."""
    return states * states / 2.0 ** (HASH_BITS + 1)


class Store:
    """Numbers for packed states, from 0 in order of discovery."""

    def __init__(self, width: int, *, compact: bool = False) -> None:
        self.compact = compact
        self.count = 0
        self._width = width
        self._data = bytearray()
        self._base = 0
        """Number of the first state that stands in `_data`."""
        self._hashes = array("Q")
        self._slots = array("I", bytes(4 * _FIRST_SLOTS))
        """A state's number plus 1; 0 is free. Never more than two thirds are taken."""
        self._limit = _FIRST_SLOTS * 2 // 3 - 1

    def number(self, packed: bytes) -> int:
        """The number of this state; a new one is `count` as it was before. Never narrower than those before it."""
        if len(packed) != self._width:
            self._widen(len(packed))
        mark = _mark(packed)
        slots, width = self._slots, self._width
        mask = len(slots) - 1
        slot = mark & mask
        if self.compact:
            hashes = self._hashes
            while known := slots[slot]:
                if hashes[known - 1] == mark:
                    return known - 1
                slot = (slot + 1) & mask
            hashes.append(mark)
        else:
            data = self._data
            while known := slots[slot]:
                if data.startswith(packed, (known - 1) * width):
                    return known - 1
                slot = (slot + 1) & mask
        number = self.count
        self.count = number + 1
        slots[slot] = number + 1
        self._data += packed
        if number >= self._limit:
            self._grow()
        return number

    def _widen(self, width: int) -> None:
        """Zeros after each state; what a state is told by leaves zeros at the end out."""
        narrow, old = self._width, self._data
        wide = bytearray(len(old) // narrow * width)
        for place in range(narrow):
            wide[place::width] = old[place::narrow]
        self._data, self._width = wide, width

    def _grow(self) -> None:
        size = 2 * len(self._slots)
        self._limit = size * 2 // 3 - 1
        slots = self._slots = array("I", bytes(4 * size))
        mask = size - 1
        for number in range(self.count):
            slot = (self._hashes[number] if self.compact else _mark(self.packed(number))) & mask
            while slots[slot]:
                slot = (slot + 1) & mask
            slots[slot] = number + 1

    def packed(self, number: int) -> bytes:
        """The bytes of a state; compact: only of one that has not been dropped."""
        at = (number - self._base) * self._width
        if at < 0:
            raise LookupError(f"state {number} is kept as a hash only")
        return bytes(self._data[at : at + self._width])

    def is_it(self, number: int, packed: bytes) -> bool:
        """Whether these are the bytes of that state (compact: whether they have its hash)."""
        if self.compact:
            return self._hashes[number] == _mark(packed)
        return self.packed(number).rstrip(b"\0") == packed.rstrip(b"\0")

    def looked_at(self, number: int) -> None:
        """All states up to this one have been looked at: their bytes are not needed any more (compact only)."""
        if self.compact and number - self._base >= _TRIM:
            del self._data[: (number - self._base) * self._width]
            self._base = number

    def size(self) -> int:
        """Bytes that all this takes."""
        return len(self._data) + self._slots.itemsize * len(self._slots) + 8 * len(self._hashes)


def _mark(packed: bytes) -> int:
    return hash(packed.rstrip(b"\0")) & _MASK

"""Fences of a node: one counter for all its units, saved in blocks before a number of the block is given."""

from holdall.leases.records import FENCE_KEY, FenceBlock
from holdall.machine.contract import Boot, Record, Save
from holdall.protocols.hooks import Effects


class Fences:
    """Numbers that only grow, over every kind of restart. `step` 0: all are 0, and nothing is saved."""

    def __init__(self, step: int, block: int) -> None:
        self.last = 0
        """The last one given, or one below which none will be given."""
        self._limit = 0
        self._step = step
        self._block = block

    def following(self, out: Effects) -> int:
        """The next fence."""
        self.last += self._step
        if self.last > self._limit:
            self._limit = self.last + self._block - 1
            out.append(Save(FENCE_KEY, FenceBlock(self._limit)))
        return self.last

    def recover(self, saved: Record | None, boot: Boot) -> None:
        """Go on above all that may have been given."""
        limit = saved.limit if isinstance(saved, FenceBlock) else 0
        # A journal that may lack its last turns may lack the last block's record, too: skip one.
        skipped = 0 if boot.kind == "same" else self._block * min(1, self._step)
        self.last = self._limit = max(limit + skipped, boot.fence_base)

    def copy(self) -> "Fences":
        """An independent twin."""
        twin = Fences(self._step, self._block)
        twin.last, twin._limit = self.last, self._limit
        return twin

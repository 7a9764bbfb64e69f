"""Fences of a node: one counter for all its units, saved in blocks before a number of the block is given."""

from holdall.leases.records import FENCE_KEY, FenceBlock
from holdall.machine.contract import Boot, Record, Save
from holdall.protocols.hooks import Effects


class Fences:
    """Numbers that only grow, over every kind of restart. `step` 0: all are 0, and nothing is saved."""

    def __init__(self, step: int, block: int, epoch: int = 1) -> None:
        self.last = 0
        """The last one given, or one below which none will be given."""
        self._limit = 0
        self._step = step
        self._block = block
        self._epoch = epoch

    def following(self, out: Effects) -> int:
        """The next fence."""
        self.last += self._step
        if self.last > self._limit:
            self._limit = self.last + self._block - 1
            out.append(Save(FENCE_KEY, FenceBlock(self._limit, self._epoch)))
        return self.last

    def recover(self, saved: Record | None, boot: Boot) -> None:
        """Go on above all that may have been given.

        A journal that may lack its last turns may lack the last block's record, too. So a block is skipped for each epoch
        that has begun since a block was saved; also by a start whose journal is complete, as the one before it may have
        ended before it gave a number, and saved none.
        """
        known = saved if isinstance(saved, FenceBlock) else FenceBlock(0, boot.fence_base + 1)
        epochs = max(boot.epoch - known.epoch, 0 if boot.kind == "same" else 1)
        self.last = self._limit = max(
            known.limit + epochs * self._block * min(1, self._step), boot.fence_base
        )
        self._epoch = boot.epoch

    def copy(self) -> "Fences":
        """An independent twin."""
        twin = Fences(self._step, self._block, self._epoch)
        twin.last, twin._limit = self.last, self._limit
        return twin

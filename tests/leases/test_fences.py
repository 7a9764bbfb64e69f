"""Fences over restarts: no number twice, whatever of the journal is left."""

import pytest

from holdall.leases.fences import Fences
from holdall.leases.records import FENCE_KEY, FenceBlock
from holdall.machine.contract import Boot, Effect, Save

BASE = 1_712_000_000 << 20


def restarted(saved: FenceBlock | None, kind: str, epoch: int, base: int = 0) -> Fences:
    fences = Fences(1, 1000)
    fences.recover(saved, Boot(kind, epoch, epoch, fence_base=base))
    return fences


def first_after(fences: Fences) -> tuple[int, FenceBlock]:
    """The next number, and the block that is saved before it is told."""
    out: list[Effect] = []
    number = fences.following(out)
    (save,) = out
    assert isinstance(save, Save)
    assert save.key == FENCE_KEY
    assert isinstance(save.record, FenceBlock)
    return number, save.record


def test_a_block_is_saved_before_its_first_number_and_holds_the_epoch() -> None:
    fences = Fences(1, 1000, epoch=4)
    assert first_after(fences) == (1, FenceBlock(1000, 4))
    out: list[Effect] = []
    assert [fences.following(out) for _ in range(999)] == list(range(2, 1001))
    assert out == []
    assert first_after(fences) == (1001, FenceBlock(2000, 4))


@pytest.mark.parametrize("starts", [["reboot"], ["reboot", "same"], ["reboot", "same", "same"]])
def test_what_a_power_cut_may_have_taken_is_skipped_by_every_start_until_a_number_is_given(
    starts: list[str],
) -> None:
    # None of them gives a number, so none of them saves anything.
    *_, fences = (restarted(FenceBlock(1000, 1), kind, 2) for kind in starts)
    assert fences.last == 2000
    number, block = first_after(fences)
    assert (number, block) == (2001, FenceBlock(3000, 2))
    assert restarted(block, "same", 2).last == 3000, "and then not again"


def test_each_power_cut_may_have_taken_a_block() -> None:
    assert restarted(FenceBlock(1000, 1), "reboot", 3).last == 3000
    assert restarted(None, "reboot", 2).last == 1000
    assert restarted(None, "same", 2).last == 1000


def test_a_complete_journal_goes_on_above_its_block_and_a_lost_one_above_the_wall_clock() -> None:
    assert restarted(FenceBlock(1000, 1), "same", 1).last == 1000
    assert restarted(None, "lost", BASE + 1, BASE).last == BASE
    assert restarted(None, "same", BASE + 1, BASE).last == BASE
    assert restarted(FenceBlock(BASE + 1000, BASE + 1), "same", BASE + 1, BASE).last == BASE + 1000

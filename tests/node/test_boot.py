"""Which start it is, and what may be granted after it."""

import os
from pathlib import Path

import pytest

from holdall.leases.records import QuarantineRecord
from holdall.model.errors import BadConfig
from holdall.node import boot, paths
from holdall.node.boot import Start, decide
from holdall.node.clock import boottime_ms
from holdall.node.configured import Settings
from holdall.node.settings import parse_settings
from holdall.node.store import BootRecord

WALL = 1_800_000_000_000
HOUR = 3_600_000
ID = "uabc"


def lab(durability: str = "process") -> Settings:
    return parse_settings(
        f'[node]\nname = "lab-1"\n[defaults]\nttl_max = "100s"\ndurability = "{durability}"',
        state=Path("/tmp/hd-boot"),
    )


def first(**changes: bool) -> Start:
    given = {"is_new": False, "none_alive": False, "others_served": False, "joins": False} | changes
    return decide(lab(), None, node=ID, boot_id="A", boottime_ms=HOUR, wall_ms=WALL, **given)


def again(earlier: BootRecord, boot_id: str, *, durability: str = "process", is_new: bool = False) -> Start:
    return decide(
        lab(durability),
        earlier,
        node=ID,
        boot_id=boot_id,
        is_new=is_new,
        none_alive=False,
        boottime_ms=HOUR + 60_000,
        wall_ms=WALL,
    )


def test_a_new_node_that_the_operator_vouches_for_grants_at_once_from_fence_1() -> None:
    start = first(is_new=True, none_alive=True)
    assert start.kind == "first"
    assert (start.boot.kind, start.boot.quarantine_ms, start.boot.fence_base) == ("same", 0, 0)
    assert (start.record.incarnation, start.record.epoch) == (1, 1)
    assert start.is_blank
    assert not first(is_new=True).is_blank
    assert not again(start.record, "A").is_blank


def test_a_node_without_trace_of_an_earlier_one_grants_at_once_with_fences_above_any_earlier() -> None:
    start = first(none_alive=True)
    assert (start.kind, start.boot.kind, start.boot.quarantine_ms) == ("first", "lost", 0)
    assert start.boot.fence_base == (WALL // 1000) << 20


def test_a_node_that_a_system_lets_in_grants_at_once_and_its_fences_are_small_only_at_the_operators_word() -> (
    None
):
    start = first(joins=True)
    assert (start.kind, start.boot.kind, start.boot.quarantine_ms) == ("first", "lost", 0)
    assert start.boot.fence_base == (WALL // 1000) << 20
    assert first(joins=True, is_new=True, none_alive=True).boot.fence_base == 0


def test_a_lost_journal_waits_for_the_longest_lease_and_its_fences_come_from_the_clock() -> None:
    start = first()
    assert (start.kind, start.boot.kind, start.boot.quarantine_ms) == ("lost", "lost", 102_000)
    assert start.record.quarantine_end_ms == HOUR + 102_000
    assert start.boot.fence_base == (WALL // 1000) << 20
    assert start.boot.epoch == start.boot.fence_base + 1


def test_the_word_that_it_is_new_ends_the_wait_but_not_the_rise_of_the_fences() -> None:
    start = first(is_new=True)
    assert (start.kind, start.boot.quarantine_ms) == ("first", 0)
    assert start.boot.fence_base == (WALL // 1000) << 20


def test_pools_that_another_node_of_this_host_served_are_waited_for() -> None:
    assert first(none_alive=True, others_served=True).boot.quarantine_ms == 102_000


def test_the_same_kernel_boot_goes_on_exactly() -> None:
    earlier = first(is_new=True, none_alive=True).record
    start = again(earlier, "A")
    assert (start.kind, start.boot.kind, start.boot.quarantine_ms) == ("same", "same", 0)
    assert (start.record.incarnation, start.record.epoch) == (2, 1)


def test_a_node_killed_in_its_quarantine_waits_for_the_rest_of_it() -> None:
    earlier = first().record
    start = again(earlier, "A")
    assert start.boot.quarantine_ms == 42_000
    assert start.record.quarantine_end_ms == earlier.quarantine_end_ms
    assert again(earlier, "A", is_new=True).boot.quarantine_ms == 0


@pytest.mark.parametrize(("level", "quarantine_ms"), [("process", 102_000), ("power", 0)])
def test_another_kernel_boot_is_judged_by_the_level_at_which_the_journal_was_written(
    level: str, quarantine_ms: int
) -> None:
    earlier = BootRecord("lab-1", "A", incarnation=5, epoch=3, durability=level, fence_base=7, id=ID)
    other = "power" if level == "process" else "process"
    start = again(earlier, "B", durability=other)
    assert (start.kind, start.boot.quarantine_ms) == ("reboot", quarantine_ms)
    assert (start.boot.incarnation, start.boot.epoch, start.boot.fence_base) == (6, 4, 7)
    assert start.record.durability == other


def test_a_state_folder_of_another_node_is_refused() -> None:
    earlier = BootRecord("lab-2", "A", incarnation=5, epoch=3, durability="process")
    with pytest.raises(BadConfig, match='belongs to node "lab-2"'):
        again(earlier, "A")


def test_a_journal_that_another_key_wrote_is_refused_and_a_new_one_is_not() -> None:
    earlier = BootRecord("lab-1", "A", incarnation=5, epoch=3, durability="process", id="uother")
    with pytest.raises(BadConfig, match=r"uother.*Put the key node\.key of that node back"):
        again(earlier, "A")
    assert again(first().record, "A").record.id == ID


def test_the_mark_of_init_is_used_up_once(tmp_path: Path) -> None:
    state = tmp_path / "state"
    boot.mark_as_new(state)
    assert boot.is_marked_as_new(state)
    boot.use_up_new_mark(state)
    boot.use_up_new_mark(state)
    assert not boot.is_marked_as_new(state)


def test_a_run_mark_tells_of_an_earlier_node_of_the_same_name_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(paths.RUN_ENV, str(tmp_path / "run"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    began = boot.process_start_ms(1)
    assert began is not None
    now = began + 200_000
    assert boot.none_alive("lab-1", quarantine_ms=102_000, boottime_ms=now)
    assert not boot.none_alive("lab-1", quarantine_ms=200_000, boottime_ms=now)
    boot.leave_run_mark("lab-1", tmp_path / "state", "A")
    assert not boot.none_alive("lab-1", quarantine_ms=102_000, boottime_ms=now)
    assert boot.none_alive("lab-2", quarantine_ms=102_000, boottime_ms=now)


def test_without_a_folder_that_is_emptied_at_boot_nobody_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "mark_folders", tuple)
    assert not boot.none_alive("lab-1", quarantine_ms=1, boottime_ms=boottime_ms())


def test_the_start_of_this_process_is_read_from_proc() -> None:
    started = boot.process_start_ms(os.getpid())
    assert started is not None
    assert 0 < started <= boottime_ms()
    assert boot.process_start_ticks(0) == 0


def test_a_clock_of_the_last_century_is_not_plausible() -> None:
    assert not boot.clock_is_plausible(0)
    assert boot.clock_is_plausible(WALL)


def without_journal() -> boot.Start:
    """A start at level `power` of which nobody knows what went before."""
    return decide(
        lab("power"),
        None,
        node=ID,
        boot_id="A",
        is_new=False,
        none_alive=False,
        boottime_ms=HOUR,
        wall_ms=WALL,
    )


def test_a_quarantine_that_a_power_cut_interrupts_is_waited_for_anew_at_level_power_too() -> None:
    lost = without_journal()
    assert lost.boot.quarantine_ms == 102_000
    start = again(lost.record, "B", durability="power")
    assert (start.kind, start.boot.quarantine_ms) == ("reboot", 102_000)
    assert start.record.quarantine_end_ms == HOUR + 60_000 + 102_000
    # and anew, if the power fails once more
    assert again(start.record, "C", durability="power").boot.quarantine_ms == 102_000


def test_a_quarantine_that_has_ended_is_not_waited_for_after_a_power_cut() -> None:
    lost = without_journal()

    def rebooted(waited_out: int) -> Start:
        return decide(
            lab("power"),
            lost.record,
            node=ID,
            boot_id="B",
            is_new=False,
            none_alive=False,
            boottime_ms=HOUR,
            wall_ms=WALL,
            waited_out=waited_out,
        )

    assert rebooted(lost.record.incarnation).boot.quarantine_ms == 0
    # that of an earlier start proves nothing
    assert rebooted(lost.record.incarnation - 1).boot.quarantine_ms == 102_000
    assert boot.waited_out(None) == 0
    assert boot.waited_out(QuarantineRecord(7)) == 7

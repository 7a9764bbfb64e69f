"""A cgroup of its own for a command: where it can be had it kills at once, elsewhere nothing is left behind."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from client.scripted_node import ScriptedNode
from guardian.guarded import Guarded, alive, written_pid

from holdall.guardian import orders
from holdall.guardian.cgroup import Cgroup
from holdall.guardian.clock import BootTimer, boottime_ms


@pytest.fixture
def node() -> Iterator[ScriptedNode]:
    with ScriptedNode() as node:
        yield node


def test_where_no_cgroup_file_system_is_mounted_there_is_none(tmp_path: Path) -> None:
    assert Cgroup.make("probe", root=tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_cgroup_that_can_not_kill_is_given_back(tmp_path: Path) -> None:
    own = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2].lstrip("/")
    (tmp_path / own).mkdir(parents=True, exist_ok=True)
    (tmp_path / own / "cgroup.procs").touch()
    before = sorted(tmp_path.rglob("*"))
    assert Cgroup.make("probe", root=tmp_path) is None  # an older kernel has no cgroup.kill
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.requires("cgroup")
def test_the_command_runs_in_its_own_cgroup_which_is_gone_afterwards(
    node: ScriptedNode, tmp_path: Path
) -> None:
    script = (
        f"cat /proc/self/cgroup > {tmp_path}/cgroup; setsid sleep 1000 & echo $! > {tmp_path}/far; sleep 1000"
    )
    with Guarded(node, "sh", "-c", script) as guarded:
        pid = guarded.started()
        far = written_pid(tmp_path / "far")
        os.kill(pid, signal.SIGKILL)
        guarded.released()
        guarded.report(orders.Ended)
        assert not alive(far)
    name = (tmp_path / "cgroup").read_text().strip().rpartition("/")[2]
    assert name.startswith("holdall-")
    assert list(Path("/sys/fs/cgroup").rglob(name)) == []


def test_a_timer_on_boottime_rings_at_its_moment_and_at_once_for_a_past_one() -> None:
    import select

    timer = BootTimer()
    try:
        poll = select.poll()
        poll.register(timer, select.POLLIN)
        timer.arm(None)
        assert poll.poll(0) == []
        timer.arm(boottime_ms() + 3_600_000)
        assert poll.poll(0) == []
        timer.arm(0)
        assert poll.poll(20_000) != []
        timer.arm(None)
        assert poll.poll(0) == []
        begun = boottime_ms()
        timer.arm(begun + 30)
        assert poll.poll(20_000) != []
        assert boottime_ms() >= begun + 30
    finally:
        timer.close()

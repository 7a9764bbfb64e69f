"""A cgroup of its own for a command: where it can be had it kills at once, elsewhere nothing is left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdall.guardian.cgroup import Cgroup
from holdall.guardian.clock import BootTimer, boottime_ms


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


@pytest.mark.system
@pytest.mark.requires("cgroup")
def test_the_command_runs_in_its_own_cgroup_which_is_gone_afterwards(tmp_path: Path) -> None:
    """In a mount namespace of its own, so that it also runs where the host mounts the tree of version 1."""
    inside = 'mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$0" -m guardian.in_cgroup "$1"'
    ended = subprocess.run(
        ["unshare", "--mount", "sh", "-c", inside, sys.executable, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (ended.returncode, ended.stdout) == (0, "its own cgroup, gone afterwards\n"), ended.stderr


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

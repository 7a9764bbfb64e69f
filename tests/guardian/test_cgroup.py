"""A cgroup of its own for a command: where it can be had it kills at once, elsewhere nothing is left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdall.guardian.clock import BootTimer, boottime_ms
from holdall.guardian.enforcement.trees import Trees, find_trees
from holdall.guardian.enforcement.version2 import Version2


def test_where_no_cgroup_file_system_is_mounted_there_is_none(tmp_path: Path) -> None:
    assert Version2.make("probe", None) is None
    assert find_trees(tmp_path) == Trees()


def test_a_cgroup_that_can_not_kill_is_given_back(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    before = sorted(tmp_path.rglob("*"))
    assert Version2.make("probe", tmp_path) is None  # an older kernel has no cgroup.kill
    assert sorted(tmp_path.rglob("*")) == before


def test_own_cgroups_are_found_in_whatever_part_of_a_tree_is_mounted(tmp_path: Path) -> None:
    for folder in ("v2/mine", "mem/mine", "cpu and more"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "cgroup.procs").touch()
    (tmp_path / "cgroup").write_text("5:cpu,cpuacct:/a\n4:memory:/pod/mine\n3:pids:/other\n0::/mine\n")
    lines = (
        f"30 1 0:1 / {tmp_path}/v2 rw shared:1 - cgroup2 cgroup2 rw",
        f"31 1 0:2 /pod {tmp_path}/mem rw - cgroup cgroup rw,memory",
        f"32 1 0:3 /a {tmp_path}/cpu\\040and\\040more rw - cgroup cgroup rw,cpu,cpuacct",
        f"33 1 0:4 /pod {tmp_path}/mem rw - cgroup cgroup rw,pids",
        "34 1 0:5 / /proc rw - proc proc rw",
        "what is no line of it",
    )
    (tmp_path / "mountinfo").write_text("\n".join(lines))
    both = tmp_path / "cpu and more"
    found = find_trees(tmp_path)
    assert found == Trees(
        tmp_path / "v2/mine", {"cpu": both, "cpuacct": both, "memory": tmp_path / "mem/mine"}
    )


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

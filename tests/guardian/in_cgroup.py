"""Run in a mount namespace with a cgroup tree of version 2: a command gets a cgroup, which is gone afterwards."""

import os
import signal
import sys
from pathlib import Path

from client.scripted_node import ScriptedNode
from guardian.guarded import Guarded, alive, written_pid

from holdall.guardian import orders


def main(folder: Path) -> None:
    """The command is killed; what it left far away goes with its cgroup."""
    script = (
        f"cat /proc/self/cgroup > {folder}/cgroup; setsid sleep 1000 & echo $! > {folder}/far; sleep 1000"
    )
    with ScriptedNode() as node, Guarded(node, "sh", "-c", script) as guarded:
        pid = guarded.started()
        far = written_pid(folder / "far")
        os.kill(pid, signal.SIGKILL)
        guarded.released()
        guarded.report(orders.Ended)
        assert not alive(far)
    lines = (folder / "cgroup").read_text().splitlines()
    name = next(line for line in lines if line.startswith("0::")).rpartition("/")[2]
    assert name.startswith("holdall-"), lines
    assert list(Path("/sys/fs/cgroup").rglob(name)) == []
    sys.stdout.write("its own cgroup, gone afterwards\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""`holdall run` as a process, for tests against a real node."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

from guardian.guarded import alive
from node.lab import Lab
from node.waiting import until

HOLDALL = (sys.executable, "-m", "holdall.cli")


def environment(lab: Lab, **more: str) -> dict[str, str]:
    """The lab's, with the node's address, and without what an outer `holdall run` may have left in ours."""
    inherited = {name: text for name, text in lab.environment.items() if not name.startswith("HOLDALL_LEASE")}
    return {**inherited, "HOLDALL_URL": f"unix://{lab.socket}", **more}


@contextlib.contextmanager
def running(lab: Lab, *arguments: str, **more: str) -> "Generator[subprocess.Popen[str]]":
    """A `holdall run` in the background; killed when the test leaves it, and its guardian waited for."""
    process = subprocess.Popen(
        [*HOLDALL, "run", *arguments],
        env=environment(lab, **more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
        guardians = _children(process.pid)
        process.kill()
        process.communicate()
        until(lambda: none_alive(guardians), "the guardian has ended, too")


def ran(lab: Lab, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """A `holdall run` from beginning to end."""
    return subprocess.run(
        [*HOLDALL, "run", *arguments],
        env=environment(lab, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


def guardian_of(run: "subprocess.Popen[str]") -> int:
    """The pid of the guardian of a run."""
    found: list[int] = []

    def look() -> bool:
        found[:] = [
            pid
            for pid in _children(run.pid)
            if b"holdall.guardian" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        return bool(found)

    until(look, "the run has a guardian")
    return found[0]


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []  # it has ended


def numbers_in(*files: Path) -> list[int]:
    """The process ids that a command wrote, one a file."""

    def all_written() -> bool:
        return all(file.exists() and file.read_text().strip() for file in files)

    until(all_written, "the command has written its process ids")
    return [int(file.read_text()) for file in files]


def free_units(lab: Lab, pool: str) -> int:
    """How many units of a pool the node calls free."""
    with lab.client() as client:
        return next(row.free for row in client.listing("pools").pools if row.pool == pool)


def all_free(lab: Lab) -> bool:
    with lab.client() as client:
        return all(row.free == row.total for row in client.listing("pools").pools)


def none_alive(pids: list[int]) -> bool:
    return not any(alive(pid) for pid in pids)


def stubborn(folder: Path, *, ignores: str = "") -> tuple[str, ...]:
    """A command with a child in its group and a grandchild in a session of its own; each writes its pid.

    A signal that it ignores is noted in the file `heard`.
    """
    lines = [
        f"cd {folder}",
        f"trap 'echo {ignores} >> heard' {ignores}" if ignores else ":",
        "sh -c 'echo $$ > child; exec sleep 1000' &",
        "setsid sh -c 'echo $$ > far; exec sleep 1000' &",
        "echo $$ > main",
        "while :; do sleep 0.1; done",
    ]
    return ("sh", "-c", "\n".join(lines))


FILES = ("main", "child", "far")

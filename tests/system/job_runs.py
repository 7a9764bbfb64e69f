"""Jobs on real nodes, for tests: begun and watched by commands, what they did read from a trail that they leave."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from jobs.judge import judge
from node.waiting import until

from holdall.jobs.client import JobView, look
from holdall.jobs.entries import Ended, Launched

HOLDALL = (sys.executable, "-m", "holdall.cli")
OVER_WITHIN_S = 120.0
STEP = """#!/bin/sh
# step TRAIL STATUS SECONDS: tells its begin and end; says TWICE when another attempt of its task runs.
me="$HOLDALL_TASK$HOLDALL_ITEM"
exec 9>"$1.$me.lock"
flock -n 9 || echo "TWICE $me $HOLDALL_ATTEMPT" >> "$1"
echo "begin $me $HOLDALL_ATTEMPT $$ $HOLDALL_ROUND" >> "$1"
sleep "$3"
echo "end $me $HOLDALL_ATTEMPT" >> "$1"
exit "$2"
"""


class JobLab:
    """A folder for job files and trails, and the address of the node that they are for."""

    def __init__(self, folder: Path, socket: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.socket = socket
        self.environment = {**environment, "HOLDALL_URL": f"unix://{socket}"}
        self.trail = folder / "trail"
        self.step = folder / "step"
        self.step.write_text(STEP)
        self.step.chmod(0o755)

    def file(self, text: str, name: str = "job.toml") -> Path:
        """A job file; `STEP STATUS SECONDS` stands for a command that leaves a trail."""
        path = self.folder / name
        path.write_text(text.replace("STEP", f"{self.step} {self.trail}"))
        return path

    def holdall(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*HOLDALL, *arguments],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def begin(self, text: str) -> str:
        """The id of a job that was begun."""
        begun = self.holdall("job", "run", str(self.file(text)), "--detach")
        assert begun.returncode == 0, begun.stderr
        return begun.stdout.strip()

    def look(self, job: str) -> JobView:
        return look(str(self.socket), job)

    def is_over(self, job: str) -> bool:
        return self.look(job).row.state != "running"

    def lines(self, word: str = "") -> list[str]:
        """Of the trail, those that begin with `word`."""
        if not self.trail.exists():
            return []
        return [line for line in self.trail.read_text().splitlines() if line.startswith(word)]

    def proved(self, job: str) -> JobView:
        """Wait for its end; its log obeys all rules, and the trail says the same as the log."""
        end = time.monotonic() + OVER_WITHIN_S
        while not self.is_over(job):
            assert time.monotonic() < end, f"not over: {self.holdall('job', 'show', job).stdout}"
            time.sleep(0.1)
        view = self.look(job)
        assert judge(view.spec, view.log, whole=True) == []
        assert self.lines("TWICE") == []
        begun = [line.split()[1:3] for line in self.lines("begin")]
        assert len({tuple(one) for one in begun}) == len(begun), "an attempt began twice"
        ends = {
            (entry.instance, entry.attempt): entry.outcome for entry in view.log if isinstance(entry, Ended)
        }
        known = {(instance.replace("[", "").replace("]", ""), str(attempt)) for instance, attempt in ends}
        assert {tuple(one) for one in begun} <= known
        launched = [(one.instance, one.attempt) for one in view.log if isinstance(one, Launched)]
        assert sorted(launched) == sorted(ends)
        ran = {
            one
            for one, outcome in ends.items()
            if outcome.kind in {"ok", "failed"} and outcome.text != "stopped"
        }
        finished = {tuple(line.split()[1:3]) for line in self.lines("end")}
        shown = {(instance.replace("[", "").replace("]", ""), str(attempt)) for instance, attempt in ran}
        assert shown & {tuple(one) for one in begun} <= finished
        return view

    def kinds(self, view: JobView, instance: str) -> list[str]:
        """How its attempts ended."""
        return [one.outcome.kind for one in view.log if isinstance(one, Ended) and one.instance == instance]

    # ------------------------------------------------------------ processes

    def processes(self, *words: str) -> list[int]:
        """Those of this lab whose command line has all these words."""
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if str(self.folder) in line and all(word in line for word in words):
                    found.append(int(entry.name))
        return found

    def crash(self) -> None:
        """As when the machine goes down: runner, watchers, guardians and commands, all at once."""
        for pid in [*self.processes("holdall.jobs"), *self.processes(str(self.step))]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(os.getpgid(pid), signal.SIGKILL)

    def kill(self, pids: Iterable[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def end_all(self) -> None:
        """Nothing of any job is left."""

        def none_left() -> bool:
            left = [
                *self.processes("holdall.jobs.runner"),
                *self.processes("holdall.jobs.attempt"),
                *self.processes(str(self.step)),
            ]
            self.kill(left)
            return not left

        until(none_left, "nothing of the jobs is left")


@contextlib.contextmanager
def job_lab(folder: Path, socket: Path, environment: Mapping[str, str]) -> Generator[JobLab]:
    """Ends what its jobs have left."""
    made = JobLab(folder, socket, environment)
    try:
        yield made
    finally:
        made.end_all()


def json_lines(text: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in text.splitlines()]

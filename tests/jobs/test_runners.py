"""Starting runners: one for each job whoever asks how often, as the job's user, and only when the node may."""

import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from node.waiting import until

from holdall.jobs.folders import Lock
from holdall.node.command_line import Surroundings
from holdall.node.job_runners import LOCK_NAME, JobRunners, is_locked
from holdall.parties.jobs.messages import (
    FromRunners,
    OutputGone,
    RemoveOutput,
    RunnerFailed,
    RunnerPlace,
    StartRunner,
    UserKnown,
    UserUnknown,
)

JOB = "J" * 26
ME = pwd.getpwuid(os.geteuid()).pw_name


class Log:
    def info(self, event: str, **values: object) -> None:
        del event, values


class Bench:
    def __init__(self, state: Path | None) -> None:
        self.answers: list[FromRunners] = []
        place = None if state is None else Surroundings(state / "holdall.sock", state=state)
        self.runners = JobRunners(self.answers.append, Log(), place)

    def order(self, uid: int, user: str) -> FromRunners:
        self.runners.start(StartRunner(JOB, uid, user))
        return self.answers[-1]


@pytest.fixture
def state() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="hd"))
    yield folder
    for pid in runners_of(folder):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not runners_of(folder), "no runner is left")
    shutil.rmtree(folder)


def runners_of(folder: Path) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if b"holdall.jobs.runner" in line and os.fsencode(folder) in line:
            found.append(int(entry.name))
    return found


def test_a_runner_is_started_once_however_often_it_is_asked_for(state: Path) -> None:
    bench = Bench(state)
    bench.runners.start(StartRunner(JOB, os.geteuid(), ME))
    assert (bench.answers, runners_of(state)) == ([], []), "a node that may not serve yet starts nothing"
    bench.runners.open()
    folder = state / "jobs" / JOB
    assert bench.answers == [RunnerPlace(JOB, str(folder))]
    until(lambda: is_locked(folder / LOCK_NAME), "the runner has its lock")
    before = runners_of(state)
    for _ in range(3):
        assert bench.order(os.geteuid(), ME) == RunnerPlace(JOB, str(folder))
    assert runners_of(state) == before
    assert len(before) == 1
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_runner_whose_folder_is_removed_under_it_does_not_stay(state: Path) -> None:
    bench = Bench(state)
    bench.runners.open()
    bench.order(os.geteuid(), ME)
    until(lambda: is_locked(state / "jobs" / JOB / LOCK_NAME), "the runner has its lock")
    assert runners_of(state) != []
    shutil.rmtree(state / "jobs")
    until(lambda: not runners_of(state), "it ends, long before it would give up its node")


def test_a_lock_that_somebody_holds_is_a_runner_that_lives(state: Path) -> None:
    folder = state / "jobs" / JOB
    folder.mkdir(parents=True)
    lock = Lock.take(folder / LOCK_NAME)
    assert lock is not None
    bench = Bench(state)
    bench.runners.open()
    assert bench.order(os.geteuid(), ME) == RunnerPlace(JOB, str(folder))
    assert runners_of(state) == []
    lock.close()
    assert not is_locked(folder / LOCK_NAME)


def test_where_none_can_be_started_it_is_told_why(state: Path) -> None:
    nowhere = Bench(None)
    nowhere.runners.open()
    assert nowhere.order(os.geteuid(), ME) == RunnerFailed(JOB, "this node starts no jobs")
    (state / "jobs").write_text("in the way")
    blocked = Bench(state)
    blocked.runners.open()
    failed = blocked.order(os.geteuid(), ME)
    assert isinstance(failed, RunnerFailed)
    assert "it could not be started" in failed.text


def test_jobs_of_other_users_are_theirs_or_nobody_s(state: Path) -> None:
    other = 4_000_000_000
    bench = Bench(state)
    bench.runners.open()
    failed = bench.order(other, "4000000000")
    assert isinstance(failed, RunnerFailed)
    said = "has no entry" if os.geteuid() == 0 else "the node runs as another user than 4000000000"
    assert said in failed.text
    assert runners_of(state) == []


def test_a_job_s_folder_is_removed_and_only_then_said_to_be_gone(state: Path) -> None:
    bench = Bench(state)
    folder = state / "jobs" / JOB / "tasks" / "0001-a" / "1"
    folder.mkdir(parents=True)
    (folder / "output.log").write_text("much")
    outside = state / "kept.txt"
    outside.write_text("not of a job")
    (folder / "link").symlink_to(outside)
    order = RemoveOutput(JOB, os.geteuid(), ME)
    bench.runners.remove(order)
    assert bench.answers == []
    bench.runners.open()
    assert bench.answers == [UserKnown(JOB)]
    until(lambda: not (state / "jobs" / JOB).exists(), "its folder is removed")
    bench.runners.remove(order)
    assert bench.answers == [UserKnown(JOB), OutputGone(JOB)]
    assert outside.read_text() == "not of a job"


def test_a_user_whom_the_host_does_not_know_is_told(state: Path) -> None:
    bench = Bench(state)
    bench.runners.open()
    bench.runners.remove(RemoveOutput(JOB, 4_000_000_000, "4000000000"))
    assert bench.answers == [UserUnknown(JOB)]

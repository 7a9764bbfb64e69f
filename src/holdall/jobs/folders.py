"""What lies in a job's folder, and how one tells by locks who lives.

A lock (flock) belongs to an open file that all processes of an attempt inherit: its watcher, the guardian and the command
with all that it starts. The kernel frees it when the last of them is gone, so a free lock says: nothing of it is left.
A command that closes files which it does not know is still watched by its guardian, which keeps the lock.
"""

import fcntl
import os
import re
from pathlib import Path

RUNNER_LOCK = "runner.lock"
ATTEMPT_LOCK = "lock"
ORDER = "order.json"
FACTS = "facts.jsonl"
OUTPUT = "output.log"
BEGUN = "begun"
PID = "pid"
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


def attempt_folder(job_folder: Path, number: int, instance: str, attempt: int) -> Path:
    """Of one attempt; `number`: place of the instance in its job, from 0."""
    safe = _ODD.sub("_", instance).strip("_")
    return job_folder / "tasks" / f"{number + 1:04d}-{safe[:80]}" / str(attempt)


class Lock:
    """A lock that this process holds; `descriptor` is for processes that are to hold it, too."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def take(cls, file: Path) -> "Lock | None":
        """None: somebody has it. Makes the file where there is none. Raises OSError."""
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def close(self) -> None:
        """This process does without it; who has inherited it holds it on."""
        os.close(self.descriptor)


def write_synced(file: Path, data: bytes) -> None:
    """The whole file or nothing, on the disk when this returns."""
    beside = file.with_name(file.name + ".new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    beside.rename(file)

"""Starts the runners of jobs: for each job one process, as the user whose job it is, which outlives this node.

A runner holds the lock of its job's folder while it lives; so does each process that it starts for a task, of the task's
own folder. So a node that comes back finds out whether a runner lives without knowing its process, and never has two.
"""

import fcntl
import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdall.model.errors import Refused
from holdall.node.command_line import Surroundings
from holdall.node.hooks import Log
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

FOLDER = "jobs"
LOCK_NAME = "runner.lock"
LOG_NAME = "runner.log"
_BEHIND = 'log="$1"; shift; "$@" </dev/null >>"$log" 2>&1 &'
"""The shell ends at once, so the runner is nobody's child who would have to wait for it."""
_REMOVE = 'rm -rf -- "$1" </dev/null >/dev/null 2>&1 &'
_KEPT = ("PATH", "LANG", "LANGUAGE", "TZ")
"""Of the node's environment, beside LC_…, when the job is another user's."""


class JobRunners:
    """All of this node. Orders that come before `open` are kept until then."""

    def __init__(self, answer: Callable[[FromRunners], None], log: Log, place: Surroundings | None) -> None:
        """`place` None: nothing can be started."""
        self._answer = answer
        self._log = log
        self._place = place
        self._is_open = False
        self._held: list[StartRunner | RemoveOutput] = []

    def open(self) -> None:
        """This start is the right one."""
        self._is_open = True
        held, self._held = self._held, []
        for order in held:
            if isinstance(order, StartRunner):
                self.start(order)
            else:
                self.remove(order)

    def start(self, order: StartRunner) -> None:
        """Start a runner, unless one lives. A shell is started and waited for, which takes a few milliseconds."""
        if not self._is_open:
            self._held.append(order)
            return
        try:
            folder = self._start(order)
        except Refused as error:
            self._answer(RunnerFailed(order.job, error.text))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._answer(RunnerFailed(order.job, f"it could not be started: {error}"[:400]))
        else:
            self._answer(RunnerPlace(order.job, str(folder)))

    def remove(self, order: RemoveOutput) -> None:
        """Begin to remove a job's folder, or say that it is gone. What can't be removed is asked for again."""
        if not self._is_open:
            self._held.append(order)
            return
        self._answer(self._remove(order))

    def _remove(self, order: RemoveOutput) -> OutputGone | UserUnknown | UserKnown:
        if not _is_known(order.uid):
            return UserUnknown(order.job)
        try:
            user, changes, folder = self._whose(order)
            if not os.path.lexists(folder):
                return OutputGone(order.job)
            subprocess.run(
                ["/bin/sh", "-c", _REMOVE, "sh", str(folder)],
                cwd="/",
                start_new_session=True,
                check=True,
                timeout=10,
                **_identity(user, changes=changes),
            )
        except (Refused, OSError, subprocess.SubprocessError) as error:
            self._log.info("output of a job is not removed", job=order.job, why=str(error))
        return UserKnown(order.job)

    def _whose(self, order: StartRunner | RemoveOutput) -> tuple[pwd.struct_passwd, bool, Path]:
        """Who a job's processes run as, whether that is not us, and the job's folder. Raises Refused."""
        if self._place is None:
            raise Refused("this node starts no jobs")
        changes = os.geteuid() != order.uid
        if changes and os.geteuid() == 0:
            user = _entry(order.uid)
        elif changes and order.uid != 0:
            raise Refused(f"the node runs as another user than {order.user}, and not as root")
        else:
            changes, user = False, _entry(os.geteuid())
        return user, changes, _folder_of(user, self._place, order.job, changes=changes)

    def _start(self, order: StartRunner) -> Path:
        user, changes, folder = self._whose(order)
        if is_locked(folder / LOCK_NAME) or self._place is None:
            return folder
        environment = _environment(user, changes=changes)
        environment["HOLDALL_URL"] = f"unix://{self._place.socket}"
        runner = [sys.executable, "-P", "-m", "holdall.jobs.runner", order.job, str(folder)]
        _make_folder(folder, user, changes=changes)
        subprocess.run(
            ["/bin/sh", "-c", _BEHIND, "sh", str(folder / LOG_NAME), *runner],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            check=True,
            timeout=10,
            **_identity(user, changes=changes),
        )
        self._log.info("runner of a job", job=order.job, user=order.user, folder=str(folder))
        return folder


def is_locked(file: Path) -> bool:
    """Whether some process holds this lock."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _folder_of(user: pwd.struct_passwd, place: Surroundings, job: str, *, changes: bool) -> Path:
    """A folder that the job's user may enter: below the node's state where that is the same user's."""
    if not changes:
        state = place.state or place.socket.parent
        return state / FOLDER / job
    return Path(user.pw_dir) / ".local" / "state" / "holdall" / FOLDER / job


def _make_folder(folder: Path, user: pwd.struct_passwd, *, changes: bool) -> None:
    """Of another user, as that user: root must not write where a link of his may lead elsewhere."""
    if not changes:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return
    subprocess.run(
        ["/bin/mkdir", "-p", "-m", "0700", str(folder)],
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        check=True,
        timeout=10,
    )


def _identity(user: pwd.struct_passwd, *, changes: bool) -> dict[str, Any]:
    """For `subprocess`: nothing where it is us."""
    if not changes:
        return {}
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}


def _is_known(uid: int) -> bool:
    """Whether the host has such a user; we ourselves may be without an entry, as in many containers."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return uid == os.geteuid()
    return True


def _entry(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        # A user without an entry, as in many containers: what the environment says.
        if uid != os.geteuid():
            raise Refused(f"user {uid} has no entry in the list of users") from None
        return pwd.struct_passwd(
            (str(uid), "x", uid, os.getegid(), "", os.environ.get("HOME", "/"), "/bin/sh")
        )


def _environment(user: pwd.struct_passwd, *, changes: bool) -> dict[str, str]:
    if not changes:
        return {name: text for name, text in os.environ.items() if not name.startswith("HOLDALL_")}
    kept = {name: text for name, text in os.environ.items() if name in _KEPT or name.startswith("LC_")}
    names = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "SHELL": user.pw_shell}
    return kept | names

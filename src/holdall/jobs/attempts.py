"""The attempts of a job as its runner sees them: begun once, found again by the next runner, their ends told once."""

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from holdall.jobs.entries import TEXT_MAX, Outcome
from holdall.jobs.facts import WAITING, Fact, Got, Order, Starting, Stopping, outcome_of, read_facts
from holdall.jobs.folders import (
    ATTEMPT_LOCK,
    FACTS,
    ORDER,
    OUTPUT,
    PID,
    Lock,
    attempt_folder,
    write_synced,
)
from holdall.jobs.moves import AttemptEnded, AttemptGranted, Happening
from holdall.jobs.spec import Instance, JobSpec, command_of, environment_of, filled_in, instances_of, needs_of
from holdall.model.names import short_id


class _Open(msgspec.Struct):
    """An attempt whose end is not known yet."""

    folder: Path
    process: "subprocess.Popen[bytes] | None" = None
    """None: an earlier runner has started it."""
    facts: Sequence[Fact] = ()
    size: int = -1
    told_grant: bool = False
    stop: bool = False
    signalled: bool = False
    failure: str = ""


class Attempts:
    """All of one job. `job` and `environment` are set before the first `launch`."""

    def __init__(self, folder: Path, name: str, node: Path) -> None:
        self.job = JobSpec(name=name, tasks=())
        self.environment: Mapping[str, str] = {}
        """What its commands get of the one who began the job."""
        self._later: deque[tuple[str, int, int]] = deque()
        """Launched, but not begun: as many as may are under way."""
        self.open: dict[tuple[str, int], _Open] = {}
        self._folder = folder
        self._name = name
        self._node = node
        self._known: dict[str, tuple[int, Instance]] = {}
        self._dropped: list[AttemptEnded] = []

    def launch(self, instance: str, attempt: int, round_: int) -> None:
        """Begin it when its turn comes, or, where its folder is there already, watch what has become of it."""
        if not self._known:
            every = [one for task in self.job.tasks for one in instances_of(task)]
            self._known = {one.name: (number, one) for number, one in enumerate(every)}
        folder = attempt_folder(self._folder, self._known[instance][0], instance, attempt)
        if folder.exists():
            self.open[instance, attempt] = _Open(folder)
        elif len(self.open) >= self.job.at_once:
            self._later.append((instance, attempt, round_))
        else:
            self._begin(folder, instance, attempt, round_)

    def _begin(self, folder: Path, instance: str, attempt: int, round_: int) -> None:
        known = self._known[instance][1]
        try:
            folder.mkdir(mode=0o700, parents=True)
        except OSError as error:
            self.open[instance, attempt] = _Open(folder, failure=f"its folder: {error.strerror}")
            return
        try:
            process = self._start(folder, known, attempt, round_)
        except OSError as error:
            # Too many processes, too little memory, a full disk: nothing has run.
            self.open[instance, attempt] = _Open(folder, failure=f"it could not be started: {error}")
        else:
            self.open[instance, attempt] = _Open(folder, process)

    def stop(self, instance: str, attempt: int) -> None:
        """End it, as soon as there is a process to tell."""
        found = self.open.get((instance, attempt))
        if found is not None:
            found.stop = True
        elif any(one[:2] == (instance, attempt) for one in self._later):
            self._later = deque(one for one in self._later if one[:2] != (instance, attempt))
            self._dropped.append(
                AttemptEnded(instance, attempt, Outcome("unstarted", None, "stopped before it began"))
            )

    def look(self) -> list[Happening]:
        """What happened since the last look."""
        happened: list[Happening] = list(self._dropped)
        self._dropped = []
        for (instance, attempt), one in list(self.open.items()):
            outcome = self._look(one)
            grant = next((fact for fact in one.facts if isinstance(fact, Got)), None)
            if grant is not None and not one.told_grant:
                one.told_grant = True
                happened.append(AttemptGranted(instance, attempt, grant.lease, grant.units))
            if outcome is not None:
                del self.open[instance, attempt]
                happened.append(AttemptEnded(instance, attempt, outcome))
        while self._later and len(self.open) < self.job.at_once:
            self.launch(*self._later.popleft())
        return happened

    def notes(self) -> list[tuple[str, str]]:
        """(instance, what it waits for or does)."""
        now = [(instance, _note(one)) for (instance, _), one in self.open.items()]
        turn = f"waits for its turn, as {self.job.at_once} others are under way (at_once)"
        return [*now, *((instance, turn) for instance, _, _ in self._later)]

    # ------------------------------------------------------------ one attempt

    def _start(self, folder: Path, known: Instance, attempt: int, round_: int) -> "subprocess.Popen[bytes]":
        write_synced(folder / ORDER, msgspec.json.encode(self._order(known, attempt, round_)))
        lock = Lock.take(folder / ATTEMPT_LOCK)
        if lock is None:
            raise BlockingIOError("its lock is taken")
        try:
            with (folder / OUTPUT).open("ab") as output:
                process = subprocess.Popen(
                    # -P: the folder we are in must not replace modules of ours.
                    [
                        sys.executable,
                        "-P",
                        "-m",
                        "holdall.jobs.attempt",
                        str(folder),
                        str(lock.descriptor),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(lock.descriptor,),
                    start_new_session=True,
                )
        finally:
            lock.close()
        return process

    def _order(self, known: Instance, attempt: int, round_: int) -> Order:
        task = next(task for task in self.job.tasks if task.name == known.task)
        own = environment_of(self.job, task, known, attempt=attempt, round_=round_)
        about = {"HOLDALL_JOB": self._name}
        here = {"HOLDALL_URL": f"unix://{self._node}"}
        reason = filled_in(task.reason, known.item) or f"{self.job.name}/{known.name}"
        return Order(
            command=command_of(task, known),
            needs=needs_of(task, known),
            environment={**os.environ, **self.environment, **own, **about, **here},
            folder=self.job.folder or "/",
            node_socket=str(self._node),
            agent="",
            reason=reason,
            site=f"job {short_id(self._name)} task {known.name}",
            wait_ms=task.wait_ms,
            ttl_ms=task.ttl_ms,
            hold_for_ms=task.hold_for_ms,
            timeout_ms=task.timeout_ms,
            on=task.on,
            own={**own, **about},
            task_key=f"{self._name}-{self._known[known.name][0]}",
            attempt=attempt,
        )

    def _look(self, one: _Open) -> Outcome | None:
        """Its outcome, when nothing of it is left."""
        if one.failure:
            return Outcome("unstarted", None, one.failure)
        if one.process is not None:
            one.process.poll()
        # The lock first: what was written before it became free is read after.
        lock = _try(one.folder / ATTEMPT_LOCK)
        self._read(one)
        if lock is not None:
            lock.close()
            return outcome_of(one.facts)
        if one.stop and not one.signalled:
            one.signalled = _terminate(one.folder, one.process)
        return None

    @staticmethod
    def _read(one: _Open) -> None:
        try:
            size = (one.folder / FACTS).stat().st_size
        except OSError:
            return
        if size != one.size:
            one.size = size
            one.facts = read_facts(one.folder / FACTS)


def _try(file: Path) -> Lock | None:
    """The lock, if it is free. Where it can't be tried, it counts as held: nothing is begun beside what may live."""
    try:
        return Lock.take(file)
    except OSError:
        return None


def _terminate(folder: Path, process: "subprocess.Popen[bytes] | None") -> bool:
    """SIGTERM to the watcher of an attempt; False: it can't be told yet, or no more."""
    if process is not None:
        process.send_signal(signal.SIGTERM)  # does nothing when it was reaped
        return True
    try:
        pid = int((folder / PID).read_text())
        descriptor = os.pidfd_open(pid)
    except (OSError, ValueError):
        return False
    try:
        # The number may be another process's by now; the command line says whose it is.
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if os.fsencode(folder) in words:
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _note(one: _Open) -> str:
    for fact in reversed(one.facts):
        match fact:
            case Stopping(text):
                return f"stopping: {text}"
            case Starting():
                return "running"
            case Got():  # on another node it begins before that
                return "running" if any(isinstance(other, Starting) for other in one.facts) else "granted"
            case _:
                continue
    try:
        with (one.folder / WAITING).open(encoding="utf-8", errors="replace") as file:
            return file.read(TEXT_MAX) or "begins"
    except OSError:
        return "begins"

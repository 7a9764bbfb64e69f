"""`python -m holdall.jobs.runner JOB FOLDER`: carries one job on. Started by its node, which may end and come back.

What it decides is the machine's; here is what the machine wants done: entries are kept by the node first, then attempts
are begun or found again, watched, stopped, and their ends reported. It can be killed at any moment: the next one reads
the log, and finds the attempts that outlived it by their locks.
"""

import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdall.client.address import socket_of_url
from holdall.client.run_link import RunLink
from holdall.guardian.signals import Signals
from holdall.jobs.attempts import Attempts
from holdall.jobs.conditions import BadCondition
from holdall.jobs.entries import Decided, Entry, Finished, Repeated, decode_entry, encode_entry
from holdall.jobs.folders import RUNNER_LOCK, Lock
from holdall.jobs.machine import JobMachine, NotOfThisJob
from holdall.jobs.moves import Cancel, Effect, Launch, Pause, PauseOver, Record, Stop
from holdall.jobs.spec import JobSpec, decode_job
from holdall.model import frames
from holdall.model.errors import HoldallError, Unreachable
from holdall.model.job_frames import (
    ENTRIES_BYTES_MAX,
    ENTRIES_PER_FRAME_MAX,
    NOTES_MAX,
    JobCancelled,
    JobFollow,
    JobNote,
    JobSave,
    JobSaved,
    JobState,
    JobTake,
    JobTaken,
    JobTold,
)

LOOK_S = 0.25
"""How often attempts are looked at; the end of one that this process has started is noticed at once."""
NODE_AGAIN_S = 0.3
ALONE_S = 60.0
"""Without its node, and with nothing under way, a runner ends after so long: the node starts another one."""
ANSWER_S = 30.0
_TAKE = 1
_FOLLOW = 2
_SAVE = 3
_NOTE = 4


class NotOurs(Exception):
    """The node does not know the job, or somebody else carries it on."""


class Runner:
    """One job, from the moment its lock was taken."""

    def __init__(self, job: str, folder: Path, node: Path) -> None:
        self.job = job
        self.folder = folder
        self.node = node
        self.signals = Signals((signal.SIGTERM,))
        self.attempts = Attempts(folder, job, node)
        self.machine: JobMachine | None = None
        self._link: RunLink | None = None
        self._log: list[bytes] = []
        """All entries, kept and not yet kept."""
        self._kept = 0
        self._sent = 0
        self._todo: deque[tuple[int, Effect]] = deque()
        """Effects, each with the number of entries that must be kept before."""
        self._pauses: list[tuple[float, PauseOver]] = []
        self._verdict: Finished | None = None
        self._done = 0
        self._notes: tuple[tuple[str, str], ...] = ()
        self._noted_at = 0.0
        self._alone_since = time.monotonic()
        self._connect_at = 0.0
        self._spec: bytes = b""
        self._read: list[bytes] = []
        self._cancel = ""

    def run(self) -> None:
        """Until the job is over and that is kept. Raises NotOurs."""
        while not self._is_finished():
            self._reach_node()
            self._listen()
            if self.machine is not None:
                self._work(self.machine)
            if self._link is None and self._is_alone():
                return
            self._wait()

    def close(self) -> None:
        """Attempts go on without us."""
        if self._link is not None:
            self._link.close()

    def _is_alone(self) -> bool:
        """Without its node: whether nothing is left to do here. Raises NotOurs when the node's state is gone, too."""
        if not self.folder.exists():
            raise NotOurs(f"{self.folder} is gone, so nobody will ever ask what became of it")
        return not self.attempts.open and time.monotonic() - self._alone_since > ALONE_S

    def _is_finished(self) -> bool:
        return self._verdict is not None and self._kept == len(self._log)

    # ------------------------------------------------------------ the node

    def _reach_node(self) -> None:
        if self._link is not None or time.monotonic() < self._connect_at:
            return
        self._connect_at = time.monotonic() + NODE_AGAIN_S
        try:
            link = RunLink(str(self.node))
        except HoldallError:
            return
        self._link = link
        self._sent = self._kept
        self._read = []
        link.send(JobTake(_TAKE, self.job))
        if self.machine is None:
            link.send(JobFollow(_FOLLOW, self.job, once=True))

    def _listen(self) -> None:
        if self._link is None:
            return
        try:
            self._link.flush()
            answers = self._link.receive()
        except Unreachable:
            self._link.close()
            self._link = None
            self._alone_since = time.monotonic()
            return
        for answer in answers:
            self._hear(answer)

    def _hear(self, answer: frames.FromNode) -> None:
        match answer:
            case JobTaken(_, row, environment):
                self.attempts.environment = dict(environment)
                self._cancel = row.cancel
                if self.machine is not None:
                    if row.entries > len(self._log) or row.state != "running":
                        raise NotOurs("the log has entries of somebody else")
                    self._kept = max(self._kept, row.entries)
                    self._sent = self._kept
            case JobTold(_, _, _, entries, job, _, more) if self.machine is None:
                self._spec = job or self._spec
                self._read += entries
                if not more:
                    self._try_to_begin()
            case JobSaved(_, entries):
                self._kept = max(self._kept, entries)
            case JobCancelled(_, reason):
                self._cancel = reason
            case frames.Denied(_, _, text):
                raise NotOurs(text)
            case _:
                pass

    def _try_to_begin(self) -> None:
        try:
            self._begin(decode_job(self._spec))
        except (msgspec.DecodeError, NotOfThisJob, BadCondition) as problem:
            text = f"its log can't be read, was it written by another release? {problem}"
            if self._link is not None:
                self._link.send(JobSave(_SAVE, self.job, len(self._read), (), 0, "running", text[:400]))
            raise NotOurs(text) from None

    def _begin(self, job: JobSpec) -> None:
        machine = self.machine = JobMachine(job)
        self.attempts.job = job
        for data in self._read:
            entry = decode_entry(data)
            machine.apply(entry)
            self._count(entry)
        self._log = self._read
        self._kept = self._sent = len(self._log)
        self._take(machine.resume() if self._log else machine.begin())

    def _send_entries(self) -> None:
        if self._link is None or self._sent == len(self._log):
            return
        first = self._sent
        piece: list[bytes] = []
        room = ENTRIES_BYTES_MAX
        for entry in self._log[first : first + ENTRIES_PER_FRAME_MAX]:
            room -= len(entry) + 8
            if room < 0:
                break
            piece.append(entry)
        self._sent = first + len(piece)
        state: JobState = "running"
        text = ""
        if self._verdict is not None and self._sent == len(self._log):
            state, text = self._verdict.verdict, self._verdict.text
        self._link.send(JobSave(_SAVE, self.job, first, tuple(piece), self._done, state, text))
        self._send_entries()

    # ------------------------------------------------------------ the machine

    def _work(self, machine: JobMachine) -> None:
        if self._cancel:
            self._take(machine.handle(Cancel(self._cancel)))
            self._cancel = ""
        for happening in self.attempts.look():
            self._take(machine.handle(happening))
        now = time.monotonic()
        due = [over for at, over in self._pauses if at <= now]
        self._pauses = [(at, over) for at, over in self._pauses if at > now]
        for over in due:
            self._take(machine.handle(over))
        self._send_entries()
        while self._todo and self._todo[0][0] <= self._kept:
            self._do(self._todo.popleft()[1])
        self._note(machine)

    def _take(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Record):
                stamped = msgspec.structs.replace(effect.entry, at_ms=time.time_ns() // 1_000_000)
                self._log.append(encode_entry(stamped))
                self._count(effect.entry)
            else:
                self._todo.append((len(self._log), effect))

    def _count(self, entry: Entry) -> None:
        if isinstance(entry, Decided):
            self._done += 1
        elif isinstance(entry, Repeated) and self.machine is not None:
            group = next(one for one in self.machine.job.groups if one.name == entry.group)
            self._done -= sum(len(self.machine.instances[task]) for task in group.tasks)
        elif isinstance(entry, Finished):
            self._verdict = entry

    def _do(self, effect: Effect) -> None:
        match effect:
            case Launch(instance, attempt, round_):
                self.attempts.launch(instance, attempt, round_)
            case Stop(instance, attempt):
                self.attempts.stop(instance, attempt)
            case Pause(instance, attempt, ms):
                self._pauses.append((time.monotonic() + ms / 1000, PauseOver(instance, attempt)))
            case Record():
                raise AssertionError("entries are kept, not done")

    def _note(self, machine: JobMachine) -> None:
        """What tasks wait for, at most twice a second."""
        now = time.monotonic()
        if self._link is None or now - self._noted_at < LOOK_S * 2:
            return
        running = dict(machine.open_attempts())
        notes = tuple((name, text[:500]) for name, text in self.attempts.notes() if name in running)[
            :NOTES_MAX
        ]
        if notes != self._notes:
            self._notes, self._noted_at = notes, now
            self._link.send(JobNote(_NOTE, self.job, notes))

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self.signals, select.POLLIN)
        if self._link is not None:
            poll.register(self._link, select.POLLIN | (select.POLLOUT if self._link.wants_to_write else 0))
        seconds = LOOK_S if self.attempts.open else 5.0
        if self._link is None:
            seconds = min(seconds, NODE_AGAIN_S)
        if self._pauses:
            seconds = min(seconds, max(0.0, min(at for at, _ in self._pauses) - time.monotonic()))
        if self._is_finished():
            return
        poll.poll(seconds * 1000 + 1)
        if signal.SIGTERM in self.signals.take():
            raise NotOurs("ended by SIGTERM")


def main(arguments: list[str]) -> int:
    """The status says nothing; the job's log says everything."""
    url = os.environ.get("HOLDALL_URL", "")
    if len(arguments) != 2 or not url:
        sys.stderr.write("holdall.jobs.runner is started by a node; see: holdall job --help\n")
        return 64
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    job, folder = arguments[0], Path(arguments[1])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = Lock.take(folder / RUNNER_LOCK)
    if lock is None:
        return 0  # another one lives
    runner = Runner(job, folder, socket_of_url(url))
    try:
        runner.run()
    except NotOurs as why:
        sys.stderr.write(f"runner of {job} ends: {why}\n")
    finally:
        runner.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

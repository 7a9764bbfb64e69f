"""The machine `jobs` of a node: keeps jobs and their logs, and sees to it that each unfinished one has a runner.

It does not know what an entry says. That a job has one runner at a time is kept by a lock of the host, which the driver
and the runner use; here the connection that has taken a job last is the only one that may add to its log.
"""

from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from typing import Self

import msgspec

from holdall.machine.contract import (
    Address,
    CancelTimer,
    ClockRead,
    Effect,
    Event,
    Forget,
    Message,
    ProtocolViolation,
    Received,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.model import frames
from holdall.model.errors import BadSpec, HoldallError, NotHolder, Refused
from holdall.model.job_frames import (
    ENTRIES_PER_FRAME_MAX,
    ENVIRONMENT_BYTES_MAX,
    JobBegun,
    JobCancel,
    JobCancelled,
    JobFollow,
    JobForget,
    JobForgotten,
    JobList,
    JobNote,
    JobRow,
    JobRows,
    JobSave,
    JobSaved,
    JobStart,
    JobTake,
    JobTaken,
    JobTold,
)
from holdall.model.names import matches_id, printed_id, short_id
from holdall.parties.jobs.kept import LOOK_MOST_MS, LOOK_MS, Kept, piece_of
from holdall.parties.jobs.messages import (
    RUNNERS,
    JobBody,
    JobEntry,
    JobRecord,
    OutputGone,
    RunnerFailed,
    RunnerPlace,
    StartRunner,
    UserKnown,
    UserUnknown,
)
from holdall.parties.jobs.outputs import Outputs
from holdall.parties.messages import SESSION, Asked, SessionClosed

UNFINISHED_MAX = 200
"""Jobs of a node that are not over."""
FINISHED_KEPT = 200
"""Jobs that are over stay for whoever looks; those that ended first go first, with their output."""
ENTRIES_MAX = 100_000
"""Of one job's log."""
ROWS_PER_FRAME = 50


class JobSettings(msgspec.Struct, frozen=True):
    """What the part is told at construction."""

    node: str
    """The node's id,"""
    name: str
    """and what people call it."""
    uid: int
    """The user that the node runs as."""


class Jobs:
    """The machine."""

    def __init__(self, settings: JobSettings) -> None:
        self.settings = settings
        self.jobs: dict[str, Kept] = {}
        """By printed id, in the order in which they were begun."""
        self.outputs = Outputs(settings.node)
        self._wall_ms = 0
        self._out: list[Effect] = []

    # ------------------------------------------------------------ the contract

    def start(self) -> Sequence[Effect]:
        """No jobs."""
        return []

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """The jobs of before. A runner of theirs that lives comes by itself, and the order for another one finds its lock."""
        self._out = []
        logs: dict[str, list[bytes]] = {}
        for key in sorted(key for key in records if key.startswith("entry/")):
            entry = records[key]
            if isinstance(entry, JobEntry):
                logs.setdefault(key.split("/")[1], []).append(entry.entry)
        found: list[Kept] = []
        for key in sorted(records):
            record, body = records[key], records.get(f"body/{key.partition('/')[2]}")
            if isinstance(record, JobRecord) and isinstance(body, JobBody):
                found.append(Kept(record, body, logs.get(record.row.job, [])))
        found.sort(key=lambda kept: (kept.record.row.started_ms, kept.record.row.job))
        self.jobs = {kept.record.row.job: kept for kept in found}
        for kept in found:
            if kept.record.row.state == "running":
                self._order(kept)
        self._out += self.outputs.recover(records.values())
        return self._out

    def handle(self, event: Event) -> Sequence[Effect]:
        """One event. Raises ProtocolViolation for what nobody of ours says."""
        self._out = []
        match event:
            case TimerFired(timer):
                self._look(timer.partition("/")[2])
            case Received(_, ClockRead(wall_ms)):
                self._wall_ms = wall_ms
            case Received(sender, message) if sender.node != self.settings.node:
                raise ProtocolViolation(f"{type(message).__name__} of another node is not for jobs")
            case Received(sender, message) if sender.part.startswith(SESSION):
                self._from_client(sender.part.removeprefix(SESSION), message)
            case Received(sender, message) if sender.part == RUNNERS:
                self._from_driver(message)
            case Received(sender, message):
                raise ProtocolViolation(f"{type(message).__name__} from {sender} is not for jobs")
        return self._out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (
            tuple(
                (name, kept.record, tuple(kept.log), kept.runner, tuple(kept.followers))
                for name, kept in self.jobs.items()
            ),
            tuple(self.outputs.gone.values()),
        )

    def copy(self) -> Self:
        """An independent twin."""
        return deepcopy(self)

    # ------------------------------------------------------------ clients

    def _from_client(self, connection: str, message: Message) -> None:
        match message:
            case SessionClosed():
                self._closed(connection)
            case Asked(JobNote() as frame):
                self._note(connection, frame)
            case Asked(
                JobStart()
                | JobList()
                | JobFollow()
                | JobCancel()
                | JobForget()
                | JobTake()
                | JobSave() as frame
            ):
                try:
                    self._answer(connection, message, frame)
                except HoldallError as error:
                    self._tell(connection, frames.Denied(frame.n, error.code, error.text))
            case _:
                raise ProtocolViolation(f"{type(message).__name__} of a connection is not for jobs")

    def _answer(
        self,
        connection: str,
        asked: Asked,
        frame: JobStart | JobList | JobFollow | JobCancel | JobForget | JobTake | JobSave,
    ) -> None:
        match frame:
            case JobStart():
                self._start(connection, asked, frame)
            case JobList(n):
                rows = [kept.row for kept in self.jobs.values()]
                pieces = [rows[at : at + ROWS_PER_FRAME] for at in range(0, len(rows), ROWS_PER_FRAME)] or [
                    []
                ]
                for number, piece in enumerate(pieces):
                    self._tell(connection, JobRows(n, tuple(piece), more=number + 1 < len(pieces)))
            case JobFollow():
                self._follow(connection, frame, self._named(frame.job, asked))
            case JobCancel():
                self._cancel(connection, frame, self._named(frame.job, asked))
            case JobForget(n):
                kept = self._named(frame.job, asked)
                if kept.record.row.state == "running":
                    short = short_id(kept.record.row.job)
                    raise Refused(f"job {short} is not over. End it first: holdall job cancel {short}")
                self._forget(kept)
                self._tell(connection, JobForgotten(n, kept.row))
            case JobTake(n):
                kept = self._named(frame.job, asked)
                kept.runner = (connection, n)
                kept.look_ms = LOOK_MS
                self._out.append(CancelTimer(f"look/{kept.record.row.job}"))
                self._update(kept, text="")
                self._tell(connection, JobTaken(n, kept.row, kept.body.environment))
            case JobSave():
                self._save(connection, frame, self._named(frame.job, asked))

    def _start(self, connection: str, asked: Asked, frame: JobStart) -> None:
        again = next((one for one in self.jobs.values() if one.record.key == frame.key), None)
        if again is not None and again.record.row.uid == asked.uid:
            self._tell(connection, JobBegun(frame.n, again.row))
            return
        if again is not None:
            raise Refused("this key of a job is somebody else's.")
        if sum(1 for kept in self.jobs.values() if kept.record.row.state == "running") >= UNFINISHED_MAX:
            raise Refused(
                f"{UNFINISHED_MAX} jobs of this node are not over; no more are begun. See: holdall job list"
            )
        if sum(len(name) + len(value) for name, value in frame.environment) > ENVIRONMENT_BYTES_MAX:
            raise BadSpec(f"the environment of a job takes at most {ENVIRONMENT_BYTES_MAX // 1024} KiB.")
        row = JobRow(
            job=printed_id(asked.lot),
            name=frame.name,
            user=asked.user,
            uid=asked.uid,
            state="running",
            started_ms=self._wall_ms,
            total=frame.total,
            node=self.settings.name,
        )
        kept = Kept(JobRecord(row, frame.key), JobBody(frame.job, frame.environment))
        self.jobs[row.job] = kept
        self._out.append(Save(f"body/{row.job}", kept.body))
        self._out.append(Save(f"job/{row.job}", kept.record))
        self._forget_old()
        self._tell(connection, JobBegun(frame.n, kept.row))
        self._order(kept)

    def _follow(self, connection: str, frame: JobFollow, kept: Kept) -> None:
        row = kept.row
        is_over = row.state != "running"
        at = min(frame.since, len(kept.log))
        first = True
        while first or at < len(kept.log):
            piece = piece_of(kept.log[at : at + ENTRIES_PER_FRAME_MAX], full=not first)
            end = at + len(piece)
            more = end < len(kept.log) or not (frame.once or is_over)
            told = JobTold(
                frame.n, row, at, piece, kept.body.job if first else b"", kept.notes if first else (), more
            )
            self._tell(connection, told)
            at, first = end, False
        if not (frame.once or is_over):
            kept.followers[connection, frame.n] = True

    def _cancel(self, connection: str, frame: JobCancel, kept: Kept) -> None:
        row = kept.record.row
        if row.state == "running" and not row.cancel:
            reason = frame.reason or "cancelled"
            self._update(kept, cancel=reason)
            if kept.runner is not None:
                self._tell(kept.runner[0], JobCancelled(kept.runner[1], reason))
        self._tell(connection, JobBegun(frame.n, kept.row))

    def _named(self, text: str, asked: Asked) -> Kept:
        """The job of this id, if it is for this user. Raises BadSpec or Refused."""
        found = [kept for name, kept in self.jobs.items() if matches_id(name, text)]
        if not found:
            raise BadSpec(f"no job {text[:40]!r} on this node. See: holdall job list")
        if len(found) > 1:
            raise BadSpec(
                f"{len(found)} jobs begin with {text[:40]!r}; write more letters of the one you mean."
            )
        row = found[0].record.row
        if asked.uid not in {row.uid, self.settings.uid, 0}:
            raise Refused(f"job {short_id(row.job)} belongs to {row.user}.")
        return found[0]

    # ------------------------------------------------------------ runners

    def _save(self, connection: str, frame: JobSave, kept: Kept) -> None:
        row = kept.record.row
        if kept.runner is None or kept.runner[0] != connection:
            raise NotHolder(f"job {short_id(row.job)} has another runner.")
        size = len(kept.log)
        if frame.first > size or row.state != "running":
            raise BadSpec(f"the log of job {short_id(row.job)} has {size} entries, state {row.state}.")
        fresh = frame.entries[size - frame.first :]
        if size + len(fresh) > ENTRIES_MAX:
            raise Refused(f"the log of a job has at most {ENTRIES_MAX} entries.")
        for number, entry in enumerate(fresh, start=size):
            self._out.append(Save(f"entry/{row.job}/{number:06d}", JobEntry(entry)))
        kept.log += fresh
        ended_ms = None if frame.state == "running" else self._wall_ms
        if (frame.state, frame.done, frame.text) != (row.state, row.done, row.text):
            self._update(kept, state=frame.state, done=frame.done, text=frame.text, ended_ms=ended_ms)
        self._tell(connection, JobSaved(frame.n, len(kept.log)))
        if ended_ms is not None:
            kept.runner = None
            self._out.append(CancelTimer(f"look/{row.job}"))
        self._pass_on(kept, size)
        self._forget_old()

    def _pass_on(self, kept: Kept, since: int) -> None:
        """What is new to those who follow."""
        row = kept.row
        more = row.state == "running"
        at = since
        while True:
            piece = piece_of(kept.log[at : at + ENTRIES_PER_FRAME_MAX], full=True)
            end = at + len(piece)
            for connection, number in kept.followers:
                self._tell(
                    connection,
                    JobTold(number, row, at, piece, notes=kept.notes, more=more or end < len(kept.log)),
                )
            at = end
            if at >= len(kept.log):
                break
        if not more:
            kept.followers = {}

    def _note(self, connection: str, frame: JobNote) -> None:
        kept = self.jobs.get(frame.job)
        if kept is not None and kept.runner is not None and kept.runner[0] == connection:
            kept.notes = frame.notes
            self._pass_on(kept, len(kept.log))

    def _closed(self, connection: str) -> None:
        for kept in self.jobs.values():
            for follower in [one for one in kept.followers if one[0] == connection]:
                del kept.followers[follower]
            if kept.runner is not None and kept.runner[0] == connection:
                kept.runner = None
                kept.notes = ()
                self._look_for_runner(kept)

    def _from_driver(self, message: Message) -> None:
        match message:
            case RunnerFailed(job, text):
                kept = self.jobs.get(job)
                if kept is not None and kept.runner is None:
                    self._update(kept, text=f"no runner: {text}"[:400])
                    self._pass_on(kept, len(kept.log))
            case RunnerPlace(job, folder):
                kept = self.jobs.get(job)
                if kept is not None and kept.record.row.folder != folder:
                    self._update(kept, folder=folder)
            case OutputGone() | UserUnknown() | UserKnown():
                self._out += self.outputs.heard(message, self._wall_ms)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} of the driver is not for jobs")

    def _look(self, job: str) -> None:
        kept = self.jobs.get(job)
        if kept is not None and kept.runner is None and kept.record.row.state == "running":
            self._order(kept)

    def _order(self, kept: Kept) -> None:
        row = kept.record.row
        self._out.append(Send(Address(self.settings.node, RUNNERS), StartRunner(row.job, row.uid, row.user)))
        self._look_for_runner(kept)
        kept.look_ms = min(2 * kept.look_ms, LOOK_MOST_MS)

    def _look_for_runner(self, kept: Kept) -> None:
        self._out.append(SetTimer(f"look/{kept.record.row.job}", kept.look_ms))

    # ------------------------------------------------------------ keeping

    def _update(self, kept: Kept, **changes: object) -> None:
        row = msgspec.structs.replace(kept.record.row, **changes)
        if row != kept.record.row:
            kept.record = msgspec.structs.replace(kept.record, row=row)
            self._out.append(Save(f"job/{row.job}", kept.record))

    def _forget_old(self) -> None:
        over = [kept for kept in self.jobs.values() if kept.record.row.state != "running"]
        over.sort(key=lambda kept: kept.record.row.ended_ms or 0)
        for kept in over[: max(0, len(over) - FINISHED_KEPT)]:
            self._forget(kept)

    def _forget(self, kept: Kept) -> None:
        row = kept.record.row
        del self.jobs[row.job]
        self._out += [Forget(f"entry/{row.job}/{number:06d}") for number in range(len(kept.log))]
        self._out += [Forget(f"body/{row.job}"), Forget(f"job/{row.job}")]
        self._out += self.outputs.forgotten(row)

    def _tell(self, connection: str, frame: frames.FromNode) -> None:
        self._out.append(Send(Address(self.settings.node, SESSION + connection), frame))

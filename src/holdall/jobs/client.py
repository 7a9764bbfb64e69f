"""Jobs as a client sees them: begun, listed, followed, cancelled. Blocking; one conversation with the node at a time."""

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator

import msgspec

from holdall.client.conversation import Conversation
from holdall.client.http_socket import ask_http
from holdall.client.wishes import default_agent
from holdall.guardian.reaching import is_remote
from holdall.guardian.remote import Unauthorized
from holdall.jobs.conditions import BadCondition
from holdall.jobs.entries import Decided, Entry, Granted, decode_entry
from holdall.jobs.file import ReadJob
from holdall.jobs.machine import JobMachine, NotOfThisJob
from holdall.jobs.satisfiable import check_needs
from holdall.jobs.spec import JobSpec, decode_job, encode_job
from holdall.model import frames
from holdall.model.errors import HoldallError, Refused, Unreachable
from holdall.model.job_frames import (
    JobBegun,
    JobCancel,
    JobFollow,
    JobForget,
    JobForgotten,
    JobList,
    JobRow,
    JobRows,
    JobStart,
    JobTold,
)
from holdall.model.names import short_id

PASSED_ON = ("PATH", "LANG", "LANGUAGE", "TZ", "VIRTUAL_ENV")
"""Of the environment of who begins a job, beside LC_…, its commands get these; others stand in its `env`."""
AGAIN_S = 0.3
AWAY_S_MAX = 120.0
"""How long one who follows a job waits for a node that has gone."""


class JobView:
    """What is known of a job; `machine` has the state that its log leads to."""

    def __init__(self, row: JobRow, spec: JobSpec) -> None:
        self.row = row
        self.machine = JobMachine(spec)
        self.log: list[Entry] = []
        self.grants: dict[str, Granted] = {}
        """Instance -> what the latest of its attempts that was granted anything has got."""
        self.notes: dict[str, str] = {}
        """Instance -> what it waits for or does, of those under way."""
        self.fresh: list[Entry] = []
        """Entries that the latest news brought."""

    @property
    def spec(self) -> JobSpec:
        """What the job is."""
        return self.machine.job

    def decided_ms(self, task: str) -> int | None:
        """When the last of a task was over (Unix milliseconds); None while anything of it is to come."""
        if self.machine.fate(task) is None:
            return None
        names = {one.name for one in self.machine.instances[task]}
        return max(one.at_ms for one in self.log if isinstance(one, Decided) and one.instance in names)

    def add(self, told: JobTold) -> None:
        """News of it. Entries that are known already are passed over."""
        self.row = told.row
        if told.notes:
            self.notes = dict(told.notes)
        try:
            self.fresh = [decode_entry(data) for data in told.entries[max(0, len(self.log) - told.first) :]]
            for entry in self.fresh:
                self.machine.apply(entry)
                self.log.append(entry)
                if isinstance(entry, Granted):
                    self.grants[entry.instance] = entry
        except (msgspec.DecodeError, NotOfThisJob) as problem:
            raise HoldallError(f"the log of this job was written by another release: {problem}") from None


def begin(where: str, read: ReadJob, *, check: bool = True) -> JobRow:
    """Start a job on the node at `where`; returns when it is kept there. Raises BadJob before anything has begun.

    `check`: also that all needs can be met with the units that exist. Of a node on another host its HTTP API is asked, which
    knows the user's home there: that is what a relative `folder` is below, and nothing of the environment here is passed on.
    """
    # Drawn here: if the answer is lost, the same job is asked for again, and never begun twice.
    key = secrets.token_hex(16)
    check_only(where, read, future=not check)
    if is_remote(where):
        return _patiently(where, lambda: _begin_there(where, read, key))
    return _patiently(where, lambda: _begin(where, read.spec, key))


def check_only(where: str, read: ReadJob, *, future: bool = False) -> None:
    """Raises BadJob when some need can never be met with the units that exist (`future`: may come to exist)."""
    if future or not any(task.needs for task in read.spec.tasks):
        return
    with Conversation(where, agent=default_agent()) as node:
        pools = node.listing(frames.Ask(n=node.number(), what="pools")).pools
        check_needs(read, pools, here=node.welcome.node)


def _begin(where: str, spec: JobSpec, key: str) -> JobRow:
    with Conversation(where, agent=default_agent()) as node:
        return _begun(node, start_of(node.number(), spec, key, _environment()))


def _begin_there(where: str, read: ReadJob, key: str) -> JobRow:
    job = {**read.table, "name": read.spec.name}
    told = ask_http(where, "POST", f"/v1/jobs?check=false&key={key}", job)
    return msgspec.convert(told["job"], JobRow)


def start_of(number: int, spec: JobSpec, key: str, environment: tuple[tuple[str, str], ...]) -> JobStart:
    """The request that begins a job."""
    total = sum(len(task.foreach or ("",)) for task in spec.tasks)
    return JobStart(number, key, spec.name, encode_job(spec), total, environment)


def cancel(where: str, job: str, reason: str = "") -> JobRow:
    """End a job. Returns when that is kept; its tasks are stopped then, one grace may pass."""
    with Conversation(where) as node:
        return _begun(node, JobCancel(node.number(), job, reason[:512]))


def forget(where: str, job: str) -> JobRow:
    """Remove a job that is over, its log and its output; what it was. Raises Refused while it is not over."""
    with Conversation(where) as node:
        answer = node.ask(JobForget(node.number(), job))
        if not isinstance(answer, JobForgotten):
            raise _unexpected(node)
        return answer.row


def _begun(node: Conversation, request: JobStart | JobCancel) -> JobRow:
    answer = node.ask(request)
    if not isinstance(answer, JobBegun):
        raise _unexpected(node)
    return answer.row


def jobs(where: str) -> tuple[JobRow, ...]:
    """All jobs that the node keeps, the youngest last."""
    rows: list[JobRow] = []
    with Conversation(where) as node:
        for answer in node.answers(JobList(node.number())):
            if not isinstance(answer, JobRows):
                raise _unexpected(node)
            rows += answer.rows
            if not answer.more:
                break
    return tuple(rows)


def look(where: str, job: str) -> JobView:
    """A job as it is now."""
    with Conversation(where) as node:
        *_, last = _told(node, job, 0, None, once=True)
    return last


def follow(where: str, job: str, *, patient: bool = True) -> Iterator[JobView]:
    """The same view after each piece of news, until the job is over; a node that goes away is waited for.

    Raises Unreachable when it does not come back within two minutes, Refused when the access token has been ended.
    """
    view: JobView | None = None
    away_since: float | None = None
    while True:
        try:
            with Conversation(where) as node:
                away_since = None
                since = 0 if view is None else len(view.log)
                for news in _told(node, job, since, view, once=False):
                    view = news
                    yield news
                return
        except Unauthorized:
            if view is None:
                raise
            id_ = short_id(view.row.job)
            raise Refused(
                f"the access token was ended at {where}. The job goes on there. Another token is made on the node's host: "
                f"holdall token create NAME - then: holdall job show {id_} --follow",
                definite=False,
            ) from None
        except Unreachable:
            now = time.monotonic()
            away_since = away_since or now
            if not patient or view is None or now - away_since > AWAY_S_MAX:
                raise
            time.sleep(AGAIN_S)


def _told(node: Conversation, job: str, since: int, view: JobView | None, *, once: bool) -> Iterator[JobView]:
    request = JobFollow(node.number(), job, since, once)
    for answer in node.answers(request, patient=not once):
        if not isinstance(answer, JobTold):
            raise _unexpected(node)
        if view is None:
            view = view_of(answer)
        view.add(answer)
        yield view
        if not answer.more:
            return


def view_of(told: JobTold) -> JobView:
    """Of the first news of a job, which say what it is; `add` them, too. Raises HoldallError."""
    try:
        return JobView(told.row, decode_job(told.job))
    except (msgspec.DecodeError, BadCondition) as problem:
        raise HoldallError(f"this job was written by another release: {problem}") from None


def _patiently(where: str, ask: Callable[[], JobRow]) -> JobRow:
    """Ask once more, if the answer may have been lost."""
    try:
        return ask()
    except Unreachable as problem:
        if problem.definite:
            raise
        end = time.monotonic() + AWAY_S_MAX / 4
    while True:
        with contextlib.suppress(Unreachable):
            return ask()
        if time.monotonic() > end:
            raise Unreachable(
                f"the node at {where} does not answer any more. See: holdall job list", definite=False
            )
        time.sleep(AGAIN_S)


def _environment() -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, text)
        for name, text in sorted(os.environ.items())
        if name in PASSED_ON or name.startswith("LC_")
    )[:64]


def _unexpected(node: Conversation) -> HoldallError:
    return Unreachable(f"{node.where} gave an unexpected answer; do client and node have one version?")

"""Routes about jobs: begun, listed, shown, cancelled, forgotten; and what their commands wrote."""

import asyncio
import contextlib
import io
import os
import pwd
import secrets
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
from starlette.responses import Response, StreamingResponse

from holdall.http import job_words
from holdall.http.api import Asking, Document, Told
from holdall.http.job_reading import expect, job_of_node
from holdall.http.problems import Problem
from holdall.http.speaking import Talk, once
from holdall.jobs.client import JobView, start_of
from holdall.jobs.entries import Launched
from holdall.jobs.file import ReadJob, job_of, parse_job
from holdall.jobs.folders import OUTPUT, attempt_folder
from holdall.jobs.problems import BadJob, nearest
from holdall.jobs.problems import Problem as Mistake
from holdall.jobs.satisfiable import check_needs
from holdall.model.errors import BadSpec
from holdall.model.job_frames import (
    JobBegun,
    JobCancel,
    JobForget,
    JobForgotten,
)

OUTPUTS_MAX = 20
"""Attempts whose output is in one answer, the youngest."""
PIECE_BYTES = 1 << 18


async def listed(asking: Asking) -> job_words.Jobs:
    """The jobs of the node that answers, the youngest last."""
    return await asking.place.jobs.all()


async def shown(asking: Asking) -> job_words.OneJob:
    """One job. Everybody who may look sees how it stands, as with claims; its commands are not told."""
    return await asking.place.jobs.one(asking.path["job"])


async def logs(asking: Asking) -> job_words.Outputs:
    """What its commands wrote; for the job's user, the node's and root."""
    query: job_words.LogsQuery = asking.query
    view = await _view(asking)
    names = list(view.machine.task_of)
    wanted = {name for name in names if query.task in {"", name, view.machine.task_of[name].name}}
    if not wanted:
        known = [one.name for one in view.spec.tasks]
        raise BadSpec(f"no task {query.task[:64]!r} in this job.{nearest(query.task, known)}")
    begun = [
        entry
        for entry in view.log
        if isinstance(entry, Launched) and entry.instance in wanted and query.attempt in {0, entry.attempt}
    ]
    places = [(one, _file(view, one.instance, one.attempt)) for one in begun[-OUTPUTS_MAX:]]
    outputs = await asyncio.to_thread(
        lambda: tuple(_output(one, file, view.row.uid, query.bytes) for one, file in places)
    )
    return job_words.Outputs(outputs=outputs, more=max(0, len(begun) - OUTPUTS_MAX))


async def output(asking: Asking) -> Response:
    """The whole of what one attempt has written until now, byte for byte; for those who may read `logs`."""
    query: job_words.OutputQuery = asking.query
    view = await _view(asking)
    begun = {(one.instance, one.attempt) for one in view.log if isinstance(one, Launched)}
    what = f"attempt {query.attempt} of {query.task[:64]!r}"
    if (query.task, query.attempt) not in begun:
        raise Problem("not-found", f"{what} has not begun in this job. See: holdall job show {view.row.job}")
    file = _file(view, query.task, query.attempt)
    opened = await asyncio.to_thread(_open, file, view.row.uid)
    if opened is None:
        raise Problem("not-found", f"{what} has no file of output that is its user's own at {file}")
    left = max(0, opened.seek(0, os.SEEK_END) - query.start)
    headers = {"Cache-Control": "no-store", "Content-Length": str(left)}
    pieces = _pieces(opened, query.start, left)
    return StreamingResponse(pieces, 200, headers, "application/octet-stream")


async def begin(asking: Asking) -> Told:
    """Begin a job as the caller."""
    query: job_words.BeginQuery = asking.query
    uid = _uid(asking)
    # Beside the loop: a job may be large, and others' claims are kept alive there.
    read = await asyncio.to_thread(_read, asking.body, uid)
    if query.check:
        await _check(asking, read)
    asking.place.audit("job begun", asking.caller, about=read.spec.name)
    key = query.key or secrets.token_hex(16)
    answer = await once(
        asking.place.orders.socket,
        lambda n: start_of(n, read.spec, key, ()),
        for_uid=uid,
        agent=_agent(asking),
    )
    row = expect(answer, JobBegun).row
    return Told(job_words.Begun(job=row), 201, {"Location": f"/v1/jobs/{row.job}"})


async def cancel(asking: Asking) -> job_words.Begun:
    """Nothing more of it begins, what runs is stopped."""
    body: job_words.CancelBody = asking.body
    job = asking.path["job"]
    asking.place.audit("job cancelled", asking.caller, about=job, reason=body.reason)
    answer = await once(
        asking.place.orders.socket, lambda n: JobCancel(n, job, body.reason[:512]), for_uid=_uid(asking)
    )
    return job_words.Begun(job=expect(answer, JobBegun).row)


async def forget(asking: Asking) -> job_words.Begun:
    """A job that is over, its log and its output."""
    job = asking.path["job"]
    asking.place.audit("job forgotten", asking.caller, about=job)
    answer = await once(asking.place.orders.socket, lambda n: JobForget(n, job), for_uid=_uid(asking))
    return job_words.Begun(job=expect(answer, JobForgotten).row)


def _read(body: "job_words.JobBody | Document", uid: int) -> ReadJob:
    """The job, whose folders are below its user's home. Raises BadJob."""
    try:
        home = Path(pwd.getpwuid(uid).pw_dir)
    except KeyError:
        home = Path("/")
    if not isinstance(body, Document):
        return job_of(msgspec.to_builtins(body), folder=home)
    try:
        text = body.text.decode()
    except UnicodeDecodeError as error:
        line = body.text.count(b"\n", 0, error.start) + 1
        raise BadJob("job", [Mistake("not UTF-8 text", line, 1)]) from None
    return parse_job(text, source="job", folder=home)


async def _check(asking: Asking, read: ReadJob) -> None:
    parts = await asking.place.reading.get("pools")
    pools = [row for part in parts for row in part.pools]
    await asyncio.to_thread(check_needs, read, pools, here=asking.place.orders.node)


async def _view(asking: Asking) -> JobView:
    """The job, asked for as the caller."""
    talk = await Talk.open(asking.place.orders.socket, for_uid=_uid(asking))
    try:
        return await job_of_node(talk, asking.path["job"])
    finally:
        talk.close()


def _file(view: JobView, instance: str, attempt: int) -> Path:
    number = list(view.machine.task_of).index(instance)
    return attempt_folder(Path(view.row.folder), number, instance, attempt) / OUTPUT


def _output(one: Launched, file: Path, uid: int, most: int) -> job_words.Output:
    """Its end; one that can't be read leaves the others."""
    size, data = 0, b""
    with contextlib.suppress(OSError):
        opened = _open(file, uid)
        if opened is not None:
            with opened:
                size = opened.seek(0, os.SEEK_END)
                data = os.pread(opened.fileno(), most, max(0, size - most))
    text = data.decode(errors="replace")
    return job_words.Output(instance=one.instance, attempt=one.attempt, size=size, text=text)


def _open(file: Path, uid: int) -> io.FileIO | None:
    """A file that is its user's own: a link of his must not lead to what is somebody else's."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    opened = io.FileIO(descriptor)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_uid == uid:
        return opened
    opened.close()
    return None


async def _pieces(opened: io.FileIO, start: int, left: int) -> AsyncIterator[bytes]:
    """So many bytes from there on, as fast as they are taken; fewer where the command has cut its file meanwhile."""
    with opened:
        while left:
            piece = await asyncio.to_thread(os.pread, opened.fileno(), min(left, PIECE_BYTES), start)
            if not piece:
                return
            start, left = start + len(piece), left - len(piece)
            yield piece


def _uid(asking: Asking) -> int:
    if asking.caller.uid is None:
        raise Problem(
            "unauthorized", "this is for the job's user. Make an access token: holdall token create NAME"
        )
    return asking.caller.uid


def _agent(asking: Asking) -> str:
    return f"{asking.caller.user}@{asking.place.orders.node}"

"""The asyncio face with jobs: `job = await hub.job("nightly.toml")`."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator

from holdall.client import hub as client_hub
from holdall.client.wishes import default_agent
from holdall.jobs import client
from holdall.jobs import handle as blocking
from holdall.jobs.client import JobView
from holdall.jobs.handle import JobLike, JobNews, read
from holdall.model.job_frames import JobRow


def connect(
    url: str | None = None, *, agent: str | None = None, history: str | os.PathLike[str] | None = None
) -> "Hub":
    """A hub for `async with` (or `await hub.open()`).

    `url`: `unix:///…/holdall.sock`; default HOLDALL_URL, else a system node, else this user's node. `agent`: who this
    is, for people. `history`: a file that records what happens, for `holdall check` (default HOLDALL_HISTORY).
    """
    return Hub(url, agent=default_agent() if agent is None else agent, history=history)


class Hub(client_hub.Hub):
    """A session with a node. Its leases are renewed by a thread of its own and end with it; its jobs go on."""

    async def job(self, what: JobLike, *, check: bool = True) -> "Job":
        """Begin a job on this hub's node; it goes on when the hub is closed.

        `what`: path of a job file, or a mapping. Raises BadJob, with all mistakes and their places, before anything has
        begun; `check=False` leaves out whether its needs can be met by the units that exist.
        """
        where = self._link.where
        row = await asyncio.to_thread(lambda: client.begin(where, read(what), check=check))
        return Job(blocking.Job(where, row))

    async def jobs(self) -> tuple[JobRow, ...]:
        """The jobs of this hub's node, the youngest last."""
        return await asyncio.to_thread(client.jobs, self._link.where)

    async def find_job(self, job: str) -> "Job":
        """A job that was begun before, by its id or the beginning of it."""
        where = self._link.where
        view = await asyncio.to_thread(client.look, where, job)
        return Job(blocking.Job(where, view.row))


class Job:
    """One job of the hub's node. It goes on whatever becomes of this object."""

    def __init__(self, job: blocking.Job) -> None:
        self._job = job
        self.id = job.id
        """Printed id, as `holdall job list` shows the beginning of."""
        self.name = job.name

    async def follow(self) -> AsyncIterator[JobNews]:
        """All that has happened, then all that happens, until the job is over; a node that goes away is waited for.

        Raises Unreachable when it does not come back within two minutes.
        """
        loop = asyncio.get_running_loop()
        came: asyncio.Queue[JobNews | BaseException | None] = asyncio.Queue()
        left = threading.Event()

        def put(one: JobNews | BaseException | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(came.put_nowait, one)

        def listen() -> None:
            try:
                for news in self._job.follow():
                    if left.is_set():
                        return
                    put(news)
                put(None)
            except Exception as problem:  # noqa: BLE001 - it is raised where it is waited for
                put(problem)

        # A daemon: who stops following in the middle does not wait for the next news.
        threading.Thread(target=listen, name="holdall job", daemon=True).start()
        try:
            while (one := await came.get()) is not None:
                if isinstance(one, BaseException):
                    raise one
                yield one
        finally:
            left.set()

    async def wait(self) -> JobRow:
        """Its end: `state` is succeeded, failed or cancelled, `text` says why."""
        row: JobRow | None = None
        async for news in self.follow():
            row = news.row
        return row or (await self.look()).row

    async def look(self) -> JobView:
        """All that is known of it now."""
        return await asyncio.to_thread(self._job.look)

    async def cancel(self, reason: str = "") -> None:
        """Begin nothing more of it, and stop what runs; `wait` tells when that is done."""
        await asyncio.to_thread(self._job.cancel, reason)

    async def forget(self) -> None:
        """Remove it, its log and its output. Raises Refused while it is not over."""
        await asyncio.to_thread(self._job.forget)

    def __repr__(self) -> str:
        return repr(self._job)

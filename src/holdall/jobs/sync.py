"""`holdall.sync`: the blocking face with jobs. Leases are those of `holdall.client.sync`."""

import os

from holdall.client import sync as client_sync
from holdall.client.sync import Lease as Lease  # noqa: PLC0414 - a name of the public module
from holdall.client.wishes import default_agent
from holdall.jobs import client
from holdall.jobs.handle import Job, JobLike, read
from holdall.model.job_frames import JobRow


def connect(
    url: str | None = None, *, agent: str | None = None, history: str | os.PathLike[str] | None = None
) -> "Hub":
    """As `holdall.connect`, for code that blocks: `with holdall.sync.connect() as hub, hub.lease("gpu:2") as lease`."""
    return Hub(url, agent=default_agent() if agent is None else agent, history=history)


class Hub(client_sync.Hub):
    """A session with a node; may be used by several threads."""

    def job(self, what: JobLike, *, check: bool = True) -> Job:
        """Begin a job on this hub's node; it goes on when the hub is closed.

        `what`: path of a job file, or a mapping. Raises BadJob, with all mistakes and their places, before anything has
        begun; `check=False` leaves out whether its needs can be met by the units that exist.
        """
        where = self._link.where
        return Job(where, client.begin(where, read(what), check=check))

    def jobs(self) -> tuple[JobRow, ...]:
        """The jobs of this hub's node, the youngest last."""
        return client.jobs(self._link.where)

    def find_job(self, job: str) -> Job:
        """A job that was begun before, by its id or the beginning of it."""
        where = self._link.where
        return Job(where, client.look(where, job).row)

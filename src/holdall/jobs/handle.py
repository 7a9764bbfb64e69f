"""A job as a program has it: its id, news of it, its end."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from holdall.jobs import client
from holdall.jobs.client import JobView
from holdall.jobs.entries import Entry
from holdall.jobs.file import ReadJob, job_of, read_job
from holdall.model.job_frames import JobRow

JobLike: TypeAlias = "str | os.PathLike[str] | Mapping[str, object]"
"""The path of a job file, or a mapping that has what a file would have: `{"task": {"a": {"run": ["true"]}}}`."""


class JobNews(msgspec.Struct, frozen=True):
    """What happened since the news before."""

    row: JobRow
    """State, and how many tasks are over."""
    entries: tuple[Entry, ...]
    notes: Mapping[str, str]
    """Task (or `task[item]`) -> what it waits for or does, of those under way."""


def read(what: JobLike) -> ReadJob:
    """The job of a file or mapping, checked. Raises BadJob."""
    if isinstance(what, Mapping):
        return job_of(what, folder=Path.cwd())
    return read_job(what)


class Job:
    """One job of the hub's node, for code that blocks. It goes on whatever becomes of this object."""

    def __init__(self, where: str, row: JobRow) -> None:
        self._where = where
        self.id = row.job
        """Printed id, as `holdall job list` shows the beginning of."""
        self.name = row.name

    def follow(self) -> Iterator[JobNews]:
        """All that has happened, then all that happens, until the job is over; a node that goes away is waited for.

        Raises Unreachable when it does not come back within two minutes.
        """
        for view in client.follow(self._where, self.id):
            yield news_of(view)

    def wait(self) -> JobRow:
        """Its end: `state` is succeeded, failed or cancelled, `text` says why."""
        row: JobRow | None = None
        for news in self.follow():
            row = news.row
        return row or self.look().row

    def look(self) -> JobView:
        """All that is known of it now."""
        return client.look(self._where, self.id)

    def cancel(self, reason: str = "") -> None:
        """Begin nothing more of it, and stop what runs; `wait` tells when that is done."""
        client.cancel(self._where, self.id, reason)

    def forget(self) -> None:
        """Remove it, its log and its output. Raises Refused while it is not over."""
        client.forget(self._where, self.id)

    def __repr__(self) -> str:
        return f"<Job {self.id[:4]}-{self.id[4:6]} {self.name}>"


def news_of(view: JobView) -> JobNews:
    """A value that later news does not change."""
    return JobNews(view.row, tuple(view.fresh), dict(view.notes))

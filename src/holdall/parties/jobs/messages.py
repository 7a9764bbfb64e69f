"""What the part `jobs` keeps, and what it and its driver tell each other."""

from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.model.job_frames import JobRow

JOBS = "jobs"
RUNNERS = "runners"
"""The driver's part that starts runners."""


class JobRecord(msgspec.Struct, frozen=True, tag="job"):
    """What changes of a job."""

    row: JobRow
    key: str


class JobBody(msgspec.Struct, frozen=True, tag="job_body"):
    """What does not."""

    job: bytes
    environment: tuple[tuple[str, str], ...]


class JobEntry(msgspec.Struct, frozen=True, tag="job_entry"):
    """One entry of its log."""

    entry: bytes


class JobGone(msgspec.Struct, frozen=True, tag="job_gone"):
    """A job that was forgotten, until its output is certainly removed, or its user has been unknown for long."""

    job: str
    uid: int
    user: str
    unknown_since_ms: int | None = None
    """Wall clock: when the host was first found to know no such user, since it last knew it."""


JobRecords: TypeAlias = JobRecord | JobBody | JobEntry | JobGone


class StartRunner(msgspec.Struct, frozen=True, tag="start_runner"):
    """To `runners`: start a process that carries this job on, unless one lives."""

    job: str
    uid: int
    user: str


class RemoveOutput(msgspec.Struct, frozen=True, tag="remove_output"):
    """To `runners`: the job's folder is to go, with all that its commands wrote."""

    job: str
    uid: int
    user: str


class OutputGone(msgspec.Struct, frozen=True, tag="output_gone"):
    """From `runners`: there is no such folder any more."""

    job: str


class UserUnknown(msgspec.Struct, frozen=True, tag="user_unknown"):
    """From `runners`: the host knows no such user, so where the folder would be can't be told."""

    job: str


class UserKnown(msgspec.Struct, frozen=True, tag="user_known"):
    """From `runners`: the folder may be there still, of a user whom the host knows."""

    job: str


class RunnerFailed(msgspec.Struct, frozen=True, tag="runner_failed"):
    """From `runners`: none could be started."""

    job: str
    text: str


class RunnerPlace(msgspec.Struct, frozen=True, tag="runner_place"):
    """From `runners`, when it has seen to a runner: the folder that the job's output is in."""

    job: str
    folder: str


ToRunners: TypeAlias = StartRunner | RemoveOutput
FromRunners: TypeAlias = RunnerFailed | RunnerPlace | OutputGone | UserUnknown | UserKnown

CODEC.register("jobs", JobRecords)
CODEC.register("jobs.driver", ToRunners | FromRunners)

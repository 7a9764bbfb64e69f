"""The part of the conversation of client and node that is about jobs: started, followed, cancelled, carried on.

A node keeps what a job is (as bytes that it does not read), and its log, entry by entry. A *runner*, a process that the
node starts for each job, reads them and carries the job on: it adds entries, each numbered by its place in the log, and
does what follows from one only when the node has said that it is kept. Runner and node can end and come back apart from
each other.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec

from holdall.model.wanted import Number, Text

JOB_BYTES_MAX = 48 * 1024
ENTRY_BYTES_MAX = 4 * 1024
ENTRIES_PER_FRAME_MAX = 64
ENTRIES_BYTES_MAX = 40 * 1024
"""Of all entries of one frame."""
ENVIRONMENT_BYTES_MAX = 8 * 1024
NOTES_MAX = 100

Entry: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=ENTRY_BYTES_MAX)]
Entries: TypeAlias = Annotated[tuple[Entry, ...], msgspec.Meta(max_length=ENTRIES_PER_FRAME_MAX)]
Notes: TypeAlias = Annotated[tuple[tuple[Text, Text], ...], msgspec.Meta(max_length=NOTES_MAX)]
"""(task, what it waits for or does), for people."""
JobState: TypeAlias = Literal["running", "succeeded", "failed", "cancelled"]
JOB_STATES: tuple[JobState, ...] = ("running", "succeeded", "failed", "cancelled")


class JobRow(msgspec.Struct, frozen=True):
    """One job, as listings have it."""

    job: str
    """Printed id."""
    name: str
    user: str
    uid: int
    state: JobState
    text: str = ""
    """Why it ended so; or what keeps it from going on."""
    started_ms: int = 0
    """Wall clock, for people."""
    ended_ms: int | None = None
    done: int = 0
    """Tasks that are over, of `total`."""
    total: int = 0
    entries: int = 0
    cancel: str = ""
    """Why somebody wants it to end."""
    folder: str = ""
    """Where its output is, on the node's host."""
    node: str = ""


# Client -> node


class JobStart(msgspec.Struct, frozen=True, tag="job_start"):
    """Begin a job. Answer: JobBegun or Denied.

    `environment`: what of the caller's its commands get. `key`: a random text; the same again is the same job.
    """

    n: Number
    key: Annotated[str, msgspec.Meta(min_length=16, max_length=64)]
    name: Text
    job: Annotated[bytes, msgspec.Meta(max_length=JOB_BYTES_MAX)]
    total: Number
    environment: Annotated[tuple[tuple[str, str], ...], msgspec.Meta(max_length=64)] = ()


class JobList(msgspec.Struct, frozen=True, tag="job_list"):
    """All jobs of this node, the youngest last. Answer: JobRows."""

    n: Number


class JobFollow(msgspec.Struct, frozen=True, tag="job_follow"):
    """Tell a job: JobTold, until one has no `more`."""

    n: Number
    job: Text
    """Printed id, or the beginning of one."""
    since: Number = 0
    """Only entries from this place on."""
    once: bool = False
    """What there is now; else the entries to come, too, until the job is over."""


class JobCancel(msgspec.Struct, frozen=True, tag="job_cancel"):
    """End a job: nothing more begins, what runs is stopped. Answer: JobBegun, when this is kept, or Denied."""

    n: Number
    job: Text
    reason: Text = ""


class JobForget(msgspec.Struct, frozen=True, tag="job_forget"):
    """Remove a job that is over, its log and its output. Answer: JobForgotten, when this is kept, or Denied."""

    n: Number
    job: Text


class JobTake(msgspec.Struct, frozen=True, tag="job_take"):
    """A runner carries this job on, through this connection. Answer: JobTaken; later JobCancelled, at any time."""

    n: Number
    job: Text


class JobSave(msgspec.Struct, frozen=True, tag="job_save"):
    """Add entries, the first of which has the place `first`. Answer: JobSaved, or Denied (another runner has the job).

    Entries that are kept already are not kept again; a gap is refused.
    """

    n: Number
    job: Text
    first: Number
    entries: Entries
    done: Number
    state: JobState = "running"
    text: Text = ""


class JobNote(msgspec.Struct, frozen=True, tag="job_note"):
    """What tasks wait for at the moment, to be passed on to those who follow. No answer, nothing is kept."""

    n: Number
    job: Text
    notes: Notes


ToJobs: TypeAlias = JobStart | JobList | JobFollow | JobCancel | JobForget | JobTake | JobSave | JobNote

# Node -> client


class JobBegun(msgspec.Struct, frozen=True, tag="job_begun"):
    """The journal has it."""

    n: int
    row: JobRow


class JobForgotten(msgspec.Struct, frozen=True, tag="job_forgotten"):
    """The node does not know it any more; `row` is what it was. Its output is being removed."""

    n: int
    row: JobRow


class JobRows(msgspec.Struct, frozen=True, tag="job_rows"):
    """Some of them; with `more` others follow."""

    n: int
    rows: tuple[JobRow, ...]
    more: bool = False


class JobTold(msgspec.Struct, frozen=True, tag="job_told"):
    """Entries from the place `first` on."""

    n: int
    row: JobRow
    first: int
    entries: tuple[bytes, ...] = ()
    job: bytes = b""
    """What it is; in the first frame only."""
    notes: tuple[tuple[str, str], ...] = ()
    more: bool = False


class JobTaken(msgspec.Struct, frozen=True, tag="job_taken"):
    """The job is this runner's; the log has `row.entries` entries."""

    n: int
    row: JobRow
    environment: tuple[tuple[str, str], ...] = ()


class JobSaved(msgspec.Struct, frozen=True, tag="job_saved"):
    """The log has so many entries."""

    n: int
    entries: int


class JobCancelled(msgspec.Struct, frozen=True, tag="job_cancelled"):
    """To a runner, `n` of its JobTake: somebody wants the job to end."""

    n: int
    reason: str


FromJobs: TypeAlias = JobBegun | JobForgotten | JobRows | JobTold | JobTaken | JobSaved | JobCancelled

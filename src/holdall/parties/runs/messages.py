"""What is said about commands on other nodes: by clients, among nodes, and between the machine and its driver.

Addresses: the machine is the part `runs` of each node; `commands` is the driver's, which has the processes. Frames of
clients about runs reach `runs` directly, as `Asked` from `session/<id>`, and so does the end of each connection.

Among nodes a run is (calling node, its incarnation, a number that grows): the calling node's is the link's word.
"""

from typing import Annotated, TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.model.run_frames import (
    FromCaller,
    FromRun,
    Milliseconds,
    Piece,
    RunLease,
    RunWishes,
    Status,
    Stream,
)
from holdall.model.wanted import Number, Text

RUNS = "runs"
COMMANDS = "commands"

Detail: TypeAlias = Annotated[str, msgspec.Meta(max_length=2048)]


# Calling node -> the node of the command


class RunStart(msgspec.Struct, frozen=True, tag="run_start"):
    """Start a run. Answered by RunPassed, or RunRefused."""

    incarnation: Number
    run: Number
    user: Text
    """Who asks, by the word of the calling node,"""
    is_keeper: bool
    """and whether that is the user that this node runs as, or root there."""
    ttl_ms: Milliseconds
    wishes: RunWishes


class RunTold(msgspec.Struct, frozen=True, tag="run_told"):
    """A frame of the calling client. Its `n` means nothing here."""

    incarnation: Number
    run: Number
    frame: FromCaller


class RunQuit(msgspec.Struct, frozen=True, tag="run_quit"):
    """Nobody waits for it any more: end it."""

    incarnation: Number
    run: Number


# And back


class RunPassed(msgspec.Struct, frozen=True, tag="run_passed"):
    """A frame for the calling client. `incarnation` is the calling node's, as in its RunStart; so below."""

    incarnation: Number
    run: Number
    frame: FromRun


class RunRefused(msgspec.Struct, frozen=True, tag="run_refused"):
    """It does not run, or not any more. `code` as in `holdall.model.errors.BY_CODE`."""

    incarnation: Number
    run: Number
    code: Text
    text: Detail


BetweenRuns: TypeAlias = RunStart | RunTold | RunQuit | RunPassed | RunRefused
CODEC.register("runs", BetweenRuns)


# Machine -> `commands`. `job` is the machine's number of a run, never used twice by one process.


class BeginJob(msgspec.Struct, frozen=True, tag="begin_job"):
    """Start it. Answers: JobBegan, JobLeased, JobSaid, JobTook, and last JobEnded; or JobFailed alone."""

    job: int
    caller: str
    """For people: `ci@lab-1`."""
    wishes: RunWishes


class FeedJob(msgspec.Struct, frozen=True, tag="feed_job"):
    """A piece of standard input; empty: its end. Each is answered by a JobTook."""

    job: int
    data: bytes


class CreditJob(msgspec.Struct, frozen=True, tag="credit_job"):
    """So many more pieces of output may come; `WINDOW` at the beginning."""

    job: int
    pieces: int


class SignalJob(msgspec.Struct, frozen=True, tag="signal_job"):
    """A signal of the caller."""

    job: int
    signal: int


class DeafenJob(msgspec.Struct, frozen=True, tag="deafen_job"):
    """Nobody reads this stream any more."""

    job: int
    stream: int


class StopJob(msgspec.Struct, frozen=True, tag="stop_job"):
    """End it: TERM, grace, KILL. No output is wanted any more; JobEnded comes when nothing of it is left."""

    job: int
    why: str


JobOrder: TypeAlias = BeginJob | FeedJob | CreditJob | SignalJob | DeafenJob | StopJob


# `commands` -> machine


class JobBegan(msgspec.Struct, frozen=True, tag="job_began"):
    """The `holdall run` of it has been started."""

    job: int


class JobFailed(msgspec.Struct, frozen=True, tag="job_failed"):
    """It can't be started. The job is over."""

    job: int
    code: str
    text: str


class JobSaid(msgspec.Struct, frozen=True, tag="job_said"):
    """A piece of output."""

    job: int
    stream: Stream
    data: Piece


class JobLeased(msgspec.Struct, frozen=True, tag="job_leased"):
    """Its command has what it needs. Told at most once."""

    job: int
    lease: RunLease


class JobTook(msgspec.Struct, frozen=True, tag="job_took"):
    """A piece of input has been used up."""

    job: int


class JobEnded(msgspec.Struct, frozen=True, tag="job_ended"):
    """Nothing of it is left; all its output has been told."""

    job: int
    status: Status


JobReport: TypeAlias = JobBegan | JobFailed | JobLeased | JobSaid | JobTook | JobEnded
CODEC.register("run jobs", JobOrder | JobReport)

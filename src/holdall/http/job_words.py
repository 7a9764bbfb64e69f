"""What requests about jobs say, and what their answers tell."""

from typing import Annotated, Any

import msgspec

from holdall.http.request_words import Body, Line, Query, Word
from holdall.http.words import Answer
from holdall.jobs.shown import TaskShown
from holdall.model.job_frames import JobRow

OUTPUT_BYTES_MAX = 64 * 1024


class Jobs(Answer, frozen=True, kw_only=True):
    """Jobs of the node that answers."""

    jobs: tuple[JobRow, ...]


class OneJob(Answer, frozen=True, kw_only=True):
    """One of them."""

    job: JobRow
    tasks: tuple[TaskShown, ...]


class Begun(Answer, frozen=True, kw_only=True):
    """A job that was begun, is to end, or was forgotten."""

    job: JobRow


class LogsQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of which task (or `task[item]`) and attempt; empty and 0: of all. `bytes`: of each output, its end."""

    task: Word = ""
    attempt: Annotated[int, msgspec.Meta(ge=0)] = 0
    bytes: Annotated[int, msgspec.Meta(ge=1, le=OUTPUT_BYTES_MAX)] = 16 * 1024


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt wrote."""

    instance: str
    attempt: int
    size: int
    """Of the whole, in bytes."""
    text: str
    """Its end; what is no UTF-8 is replaced."""


class Outputs(Answer, frozen=True, kw_only=True):
    """Of the attempts that are asked for, in the order in which they began."""

    outputs: tuple[Output, ...]
    more: int
    """Earlier attempts that are not told."""


class OutputQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one attempt of a task, or `task[item]`; `start`: without so many bytes at its beginning."""

    task: Word
    attempt: Annotated[int, msgspec.Meta(ge=1)]
    start: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)] = 0


class BeginQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`check` false: needs need not be met by the units that exist now. `key`: the same again is the same job."""

    check: bool = True
    key: Annotated[str, msgspec.Meta(pattern="^([A-Za-z0-9._-]{16,64})?$")] = ""


class JobBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job, as its file would have it. Mistakes are told all at once."""

    task: dict[str, Any]
    """By name, each as `[task.NAME]`."""
    group: Any = msgspec.UNSET
    name: Any = msgspec.UNSET
    folder: Any = msgspec.UNSET
    env: Any = msgspec.UNSET
    at_once: Any = msgspec.UNSET


class CancelBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why."""

    reason: Line = ""

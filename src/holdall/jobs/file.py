"""Job files: TOML text, or the same as a mapping, read into a `JobSpec`; every mistake with its line and column.

Nothing is started from a file that has one mistake.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path as FilePath

import msgspec

from holdall.jobs.checks import check
from holdall.jobs.group_table import read_group
from holdall.jobs.places import Path, Place, place_near, places_of
from holdall.jobs.problems import BadJob, Enough, Problem
from holdall.jobs.reading import Reader
from holdall.jobs.spec import AT_ONCE, AT_ONCE_MAX, JobSpec, TaskSpec
from holdall.jobs.task_table import read_task

SOURCE_BYTES_MAX = 256 * 1024
_TOP = ("name", "folder", "env", "at_once", "task", "group")
KEY_PARTS_MAX = 100
_TEXTS = re.compile(r""" "(?:[^"\\]|\\.)*" | '[^']*' """, re.VERBOSE)
_NOT_A_NAME_PART = re.compile(r"[^a-z0-9._-]+")
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class ReadJob(msgspec.Struct, frozen=True):
    """A job, and where in its file everything stands, for what is found out later."""

    spec: JobSpec
    source: str
    places: Mapping[Path, Place] = {}
    table: Mapping[str, object] = {}
    """What it was read from."""

    def problem(self, text: str, *path: str | int) -> Problem:
        """A problem at `path`, or at what is around it."""
        line, column = place_near(self.places, path) or (0, 0)
        return Problem(text, line, column)


def read_job(path: "str | os.PathLike[str]") -> ReadJob:
    """The job of a file. Commands run in its folder unless it says another one. Raises BadJob."""
    file = FilePath(path)
    try:
        with file.open("rb") as opened:
            data = opened.read(SOURCE_BYTES_MAX + 1)
    except OSError as error:
        raise BadJob(str(path), [Problem(f"can't be read: {error.strerror or error}")]) from None
    if len(data) > SOURCE_BYTES_MAX:
        raise BadJob(str(path), [Problem(f"longer than {SOURCE_BYTES_MAX // 1024} KiB; split the job")])
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadJob(str(path), [Problem("not UTF-8 text", line, 1)]) from None
    return parse_job(text, source=str(path), folder=file.absolute().parent, name=_name_of(file.stem))


def parse_job(text: str, *, source: str, folder: FilePath, name: str = "job") -> ReadJob:
    """The job of a TOML text; `folder` is what its relative folder is below, `name` what it is called by default."""
    deep = _too_deep(text)
    if deep:
        raise BadJob(source, [Problem(f"a key with more than {KEY_PARTS_MAX} dots", deep, 1)])
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise BadJob(source, [_syntax_problem(str(error), text)]) from None
    return _job(table, places_of(text), source=source, folder=folder, name=name)


def job_of(table: Mapping[str, object], *, folder: FilePath, name: str = "job") -> ReadJob:
    """The job of a mapping that has what a file would have. Raises BadJob."""
    return _job(table, {}, source="job", folder=folder, name=name)


def _job(
    table: Mapping[str, object], places: Mapping[Path, Place], *, source: str, folder: FilePath, name: str
) -> ReadJob:
    top = Reader(table, places)
    try:
        spec = _spec(top, folder=folder, name=name)
    except Enough:
        raise BadJob(source, top.problems) from None
    if top.problems:
        raise BadJob(source, top.problems)
    return ReadJob(spec, source, places, table)


def _spec(top: Reader, *, folder: FilePath, name: str) -> JobSpec:
    """With what is wrong in the reader's problems. Raises Enough."""
    top.only(_TOP)
    spec = JobSpec(
        name=top.name("name", name),
        folder=str(folder / os.path.expanduser(top.text("folder", "."))),  # noqa: PTH111 - may name an unknown user
        env=top.texts_by_name("env"),
        at_once=top.number("at_once", AT_ONCE, least=1, most=AT_ONCE_MAX),
        tasks=_tasks(top),
        groups=tuple(read_group(name, table) for name, table in top.tables("group")),
    )
    check(spec, top)
    return spec


def _tasks(top: Reader) -> tuple[TaskSpec, ...]:
    tables = top.tables("task")
    if not tables and not top.problems:
        top.problem('no task. Write at least one: [task.NAME] with run = ["command", "argument"]', "task")
    return tuple(read_task(name, table) for name, table in tables)


def _too_deep(text: str) -> int:
    """The number of the first line with a key of very many parts, for which a reader of TOML takes very long; or 0."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > KEY_PARTS_MAX and _TEXTS.sub("", line).count(".") > KEY_PARTS_MAX:
            return number
    return 0


def _name_of(stem: str) -> str:
    """A file's name as the name of a job."""
    return _NOT_A_NAME_PART.sub("-", stem.lower()).strip("-._")[:63] or "job"


def _syntax_problem(text: str, source: str) -> Problem:
    found = _AT.search(text)
    what = f"not TOML: {text[: found.start()] if found else text}"
    if found is None:
        return Problem(what, 1, 1)
    if found[1]:
        return Problem(what, int(found[1]), int(found[2]))
    lines = source.split("\n")
    return Problem(what, len(lines), len(lines[-1]) + 1)

"""What the commands of a job wrote: from the files in its folder, or, of a node on another host, their ends over HTTP."""

import shutil
import sys
from pathlib import Path
from urllib.parse import quote, urlencode

import msgspec

from holdall.cli.tables import plain
from holdall.client.http_socket import ask_http
from holdall.jobs.client import JobView
from holdall.jobs.entries import Launched
from holdall.jobs.folders import OUTPUT, attempt_folder
from holdall.jobs.problems import nearest
from holdall.model.errors import BadSpec, Refused

OUTPUT_BYTES_MAX = 64 * 1024
"""Of each output, over HTTP."""


class _Output(msgspec.Struct):
    instance: str
    attempt: int
    size: int
    text: str


def print_logs(view: JobView, task: str, attempt: int) -> None:
    """Output of the attempts that are asked for, to stdout; between several of them a line on stderr."""
    names = list(view.machine.task_of)
    wanted = [name for name in names if not task or task in {name, view.machine.task_of[name].name}]
    if not wanted:
        known = [one.name for one in view.spec.tasks]
        raise BadSpec(f"no task {task[:64]!r} in this job.{nearest(task, known)}")
    begun = [
        entry
        for entry in view.log
        if isinstance(entry, Launched) and entry.instance in wanted and attempt in {0, entry.attempt}
    ]
    if not begun:
        sys.stderr.write("nothing of it has begun yet\n")
    for entry in begun:
        folder = attempt_folder(
            Path(view.row.folder), names.index(entry.instance), entry.instance, entry.attempt
        )
        sys.stdout.flush()
        if len(begun) > 1:
            sys.stderr.write(f"--- {plain(entry.instance)}, attempt {entry.attempt}\n")
            sys.stderr.flush()
        _copy(folder / OUTPUT)


def print_logs_there(where: str, job: str, task: str, attempt: int) -> None:
    """The same of a node on another host: of each output at most its end. Raises HoldallError."""
    query = urlencode({"task": task, "attempt": attempt, "bytes": OUTPUT_BYTES_MAX})
    told = ask_http(where, "GET", f"/v1/jobs/{quote(job, safe='')}/logs?{query}")
    outputs, more = msgspec.convert(told["outputs"], list[_Output]), msgspec.convert(told["more"], int)
    if not outputs:
        sys.stderr.write("nothing of it has begun yet\n")
    if more:
        sys.stderr.write(f"--- {more} earlier attempts are not shown; name a task\n")
    for one in outputs:
        sys.stdout.flush()
        if len(outputs) > 1:
            sys.stderr.write(f"--- {plain(one.instance)}, attempt {one.attempt}\n")
        size = len(one.text.encode())
        if one.size > size:
            sys.stderr.write(f"--- the last {size:,} of {one.size:,} bytes; the rest is on the node's host\n")
        sys.stderr.flush()
        sys.stdout.write(one.text)
    sys.stdout.flush()


def _copy(file: Path) -> None:
    try:
        with file.open("rb") as output:
            shutil.copyfileobj(output, sys.stdout.buffer)
    except PermissionError:
        raise Refused(f"{file} may be read by the user of the job only") from None
    except OSError as error:
        sys.stderr.write(f"{file}: {error.strerror or error}\n")
    sys.stdout.buffer.flush()

"""What the commands of a job wrote: from the files in its folder, or, of a node on another host, over HTTP."""

import shutil
import sys
from pathlib import Path
from urllib.parse import quote, urlencode

from holdall.cli.tables import plain
from holdall.client.http_socket import pieces_http
from holdall.guardian.reaching import is_remote
from holdall.jobs.client import JobView
from holdall.jobs.entries import Launched
from holdall.jobs.folders import OUTPUT, attempt_folder
from holdall.jobs.problems import nearest
from holdall.model.errors import BadSpec, HoldallError, Refused, Unreachable


def print_logs(where: str, view: JobView, task: str, attempt: int) -> None:
    """Output of the attempts that are asked for, to stdout; between several of them a line on stderr. Raises HoldallError."""
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
        sys.stdout.flush()
        if len(begun) > 1:
            sys.stderr.write(f"--- {plain(entry.instance)}, attempt {entry.attempt}\n")
            sys.stderr.flush()
        if is_remote(where):
            _copy_from(where, view.row.job, entry)
        else:
            folder = attempt_folder(
                Path(view.row.folder), names.index(entry.instance), entry.instance, entry.attempt
            )
            _copy(folder / OUTPUT)


def _copy(file: Path) -> None:
    try:
        with file.open("rb") as output:
            shutil.copyfileobj(output, sys.stdout.buffer)
    except PermissionError:
        raise Refused(f"{file} may be read by the user of the job only") from None
    except OSError as error:
        sys.stderr.write(f"{file}: {error.strerror or error}\n")
    sys.stdout.buffer.flush()


def _copy_from(where: str, job: str, entry: Launched) -> None:
    """One that has no file any more leaves the others, as here."""
    query = urlencode({"task": entry.instance, "attempt": entry.attempt})
    try:
        for piece in pieces_http(where, f"/v1/jobs/{quote(job, safe='')}/output?{query}"):
            sys.stdout.buffer.write(piece)
    except (Refused, Unreachable):
        raise
    except HoldallError as error:
        sys.stderr.write(f"{error.text}\n")
    sys.stdout.buffer.flush()

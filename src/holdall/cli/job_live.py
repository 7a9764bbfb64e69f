"""How a job goes on, on a terminal (a tree that changes), in a log (a line for each entry), or as JSON lines."""

import os
import signal
import sys

import msgspec

from holdall.cli.run_lines import rows_of
from holdall.cli.tables import clock_time, plain
from holdall.jobs.client import JobView, follow
from holdall.jobs.entries import Entry
from holdall.jobs.shown import tasks_shown
from holdall.jobs.tree import entry_line, tree_lines
from holdall.model.names import short_id

INTERRUPTED_STATUS = 128 + signal.SIGINT
FAILED_STATUS = 1


def watch_job(where: str, job: str, *, as_json: bool) -> int:
    """Show it until it is over; the exit status that says how."""
    shown = _Lines() if as_json else _Tree() if sys.stderr.isatty() else _Log()
    view: JobView | None = None
    try:
        for view in follow(where, job):
            shown.news(view)
    except KeyboardInterrupt:
        shown.close()
        sys.stderr.write(
            f"the job goes on. Look: holdall job show {short_id(job)} - end it: holdall job cancel {short_id(job)}\n"
        )
        return INTERRUPTED_STATUS
    shown.close()
    if view is None:
        return FAILED_STATUS
    if not as_json:
        text = f": {plain(view.row.text)}" if view.row.text else ""
        sys.stderr.write(f"job {short_id(view.row.job)} {view.row.state}{text}\n")
    return 0 if view.row.state == "succeeded" else FAILED_STATUS


def entry_text(entry: Entry) -> str:
    """One entry with its time."""
    return f"{clock_time(entry.at_ms)}  {plain(entry_line(entry))}"


def entry_json(view: JobView, entry: Entry) -> dict[str, object]:
    """One line of `--json`."""
    body = dict(msgspec.to_builtins(entry))
    event = body.pop("type")
    return {"v": 1, "event": event, "job": view.row.job, **body}


def shown_json(view: JobView) -> dict[str, object]:
    """A job as `holdall job show --json` has it."""
    return {
        **msgspec.to_builtins(view.row),
        "tasks": msgspec.to_builtins(tasks_shown(view)),
        "log": [entry_json(view, entry) for entry in view.log],
    }


class _Tree:
    """On a terminal: the whole tree, again and again in the same place; what does not fit stays away."""

    def __init__(self) -> None:
        self._shown = 0

    def news(self, view: JobView) -> None:
        size = os.get_terminal_size(sys.stderr.fileno())
        row = view.row
        head = f"job {short_id(row.job)}  {plain(row.name)}  {row.state}, {row.done} of {row.total} over"
        if row.text:
            head += f": {plain(row.text)}"
        lines = [head, *(plain(line) for line in tree_lines(view))]
        room = max(3, size.lines - 2)
        if len(lines) > room:
            active = [line for line in lines[1:] if not line.lstrip().startswith(("+", "-", "."))]
            lines = [head, *active][: room - 1]
            lines.append(f"  and more: holdall job show {short_id(row.job)}")
        lines = [line[: max(20, size.columns - 1)] for line in lines]
        self.close()
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
        self._shown = 0 if row.state != "running" else rows_of(tuple(lines), size.columns or 80)

    def close(self) -> None:
        if self._shown:
            sys.stderr.write(f"\x1b[{self._shown}A\x1b[J")
            self._shown = 0


class _Log:
    """A line for each entry."""

    def __init__(self) -> None:
        self._begun = False
        self._text = ""

    def news(self, view: JobView) -> None:
        if not self._begun:
            self._begun = True
            row = view.row
            sys.stderr.write(f"job {short_id(row.job)}  {plain(row.name)}  {row.total} tasks\n")
        for entry in view.fresh:
            sys.stderr.write(entry_text(entry) + "\n")
        if view.row.state == "running" and view.row.text not in {"", self._text}:
            # E.g. why nobody carries it on at the moment.
            self._text = view.row.text
            sys.stderr.write(f"holdall: {plain(self._text)}\n")
        sys.stderr.flush()

    def close(self) -> None:
        return


class _Lines:
    """JSON on stdout: each entry, and what tasks wait for when that changes."""

    def __init__(self) -> None:
        self._notes: dict[str, str] = {}

    def news(self, view: JobView) -> None:
        documents = [entry_json(view, entry) for entry in view.fresh]
        if view.notes != self._notes:
            self._notes = dict(view.notes)
            documents.append({"v": 1, "event": "notes", "job": view.row.job, "notes": self._notes})
        for document in documents:
            sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        return

"""`holdall job`: tasks with an order, carried on by the node also when nobody looks."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdall.cli.completion import complete_job
from holdall.cli.options import Json, Url
from holdall.cli.tables import ago, clock_time, plain, print_json, print_table

if TYPE_CHECKING:
    from holdall.jobs.client import JobView

app = typer.Typer(no_args_is_help=True, help="Jobs: tasks with an order, each with all that it needs.")

JobId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The job, as `holdall job list` shows it.", autocompletion=complete_job
    ),
]
FAILED_STATUS = 1


@app.command(
    epilog="Examples: holdall job run nightly.toml · holdall job run nightly.toml --detach · "
    "holdall job run nightly.toml --check · holdall job run nightly.toml --json"
)
def run(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The job file (TOML).")],
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Only begin it; its id goes to stdout.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether it could begin; nothing is started.")
    ] = False,
    allow_future: Annotated[
        bool, typer.Option("--allow-future", help="Begin although units that it needs do not exist yet.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="What happens, as JSON lines on stdout.")] = False,
    url: Url = "",
) -> None:
    """Begin a job on this node and show how it goes on; it goes on when this command is ended.

    Exit status: 0 the job succeeded, 1 it failed or was cancelled, 78 a
    mistake in the file, 69 no node reachable, 130 interrupted (the job goes on).
    """
    from holdall.cli.job_live import watch_job
    from holdall.client.address import find_node
    from holdall.jobs.client import begin, check_only
    from holdall.jobs.file import read_job
    from holdall.model.names import short_id

    read = read_job(file)
    where = find_node(url or None)
    if check:
        check_only(where, read, future=allow_future)
        sys.stderr.write(f"{plain(file)}: {len(read.spec.tasks)} tasks, no mistake found\n")
        return
    row = begin(where, read, check=not allow_future)
    if detach:
        if json:
            print_json("job", row)
        else:
            sys.stdout.write(f"{short_id(row.job)}\n")
            sys.stderr.write(f"next      holdall job show {short_id(row.job)}\n")
        return
    raise typer.Exit(watch_job(where, row.job, as_json=json))


@app.command("list", epilog="Examples: holdall job list · holdall job list --json")
def list_(json: Json = False, url: Url = "") -> None:
    """The jobs of this node, the youngest last."""
    from holdall.client.address import find_node
    from holdall.jobs.client import jobs
    from holdall.model.names import short_id

    rows = jobs(find_node(url or None))
    if json:
        print_json("jobs", rows)
        return
    print_table(
        ("JOB", "NAME", "USER", "STATE", "TASKS", "BEGAN", "NOTE"),
        [
            (
                short_id(row.job),
                plain(row.name),
                plain(row.user),
                plain(row.state) + (", to be cancelled" if row.cancel and row.state == "running" else ""),
                f"{row.done}/{row.total}",
                f"{clock_time(row.started_ms)} ({ago(row.started_ms)})",
                plain(row.text),
            )
            for row in rows
        ],
        empty="no jobs. Begin one: holdall job run FILE",
    )


@app.command(
    epilog="Examples: holdall job show 7K4M-Q2 · holdall job show 7K4M-Q2 --log · "
    "holdall job show 7K4M-Q2 --svg job.svg · holdall job show 7K4M-Q2 --follow"
)
def show(
    job: JobId,
    log: Annotated[bool, typer.Option("--log", help="All that happened, in order.")] = False,
    svg: Annotated[
        str, typer.Option("--svg", metavar="FILE", help="Draw its tasks into this file; - for stdout.")
    ] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until it is over.")] = False,
    json: Json = False,
    url: Url = "",
) -> None:
    """One job: each task with what it does, waits for or has come to."""
    from holdall.cli.job_live import entry_text, shown_json, watch_job
    from holdall.client.address import find_node
    from holdall.jobs.client import look
    from holdall.jobs.tree import tree_lines

    where = find_node(url or None)
    if follow:
        raise typer.Exit(watch_job(where, job, as_json=json))
    view = look(where, job)
    if svg:
        from holdall.jobs.drawing import draw

        text = draw(view)
        if svg == "-":
            sys.stdout.write(text)
        else:
            Path(svg).write_text(text, encoding="utf-8")
            sys.stderr.write(f"written   {plain(svg)}\n")
    elif json:
        print_json("job", shown_json(view))
    elif log:
        for entry in view.log:
            sys.stdout.write(entry_text(entry) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _head(view)))
        sys.stdout.write("".join(f"{plain(line)}\n" for line in tree_lines(view)))


def _head(view: "JobView") -> list[str]:
    from holdall.model.names import short_id

    row = view.row
    ended = "" if row.ended_ms is None else f", ended {clock_time(row.ended_ms)}"
    text = f": {plain(row.text)}" if row.text else ""
    lines = [
        f"job {short_id(row.job)}  {plain(row.name)}  {row.state}{text}",
        f"of {plain(row.user)} on {plain(row.node)}, began {clock_time(row.started_ms)}{ended}, {row.done} of {row.total} over",
    ]
    if row.cancel and row.state == "running":
        lines.append(f"is being cancelled: {plain(row.cancel)}")
    return lines


@app.command(epilog="Examples: holdall job cancel 7K4M-Q2 --reason 'wrong branch'")
def cancel(
    job: JobId,
    reason: Annotated[str, typer.Option(help="Stands in its log.")] = "",
    url: Url = "",
) -> None:
    """End a job: nothing more of it begins, what runs is stopped (TERM, grace, KILL)."""
    from holdall.client.address import find_node
    from holdall.jobs.client import cancel as cancel_job
    from holdall.model.names import short_id

    row = cancel_job(find_node(url or None), job, reason)
    what = "is being cancelled" if row.state == "running" else f"is over already: {row.state}"
    sys.stderr.write(f"job {short_id(row.job)} {what}\n")


@app.command(epilog="Examples: holdall job forget 7K4M-Q2 · holdall job forget 7K4M-Q2 9XQ3-1A")
def forget(
    jobs: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Jobs that are over.", autocompletion=complete_job)
    ],
    url: Url = "",
) -> None:
    """Remove jobs that are over, with their logs and all that their commands wrote."""
    from holdall.client.address import find_node
    from holdall.jobs.client import forget as forget_job
    from holdall.model.names import short_id

    where = find_node(url or None)
    for job in jobs:
        row = forget_job(where, job)
        sys.stderr.write(f"job {short_id(row.job)} {plain(row.name)} is forgotten; it had {row.state}\n")


@app.command(
    epilog="Examples: holdall job logs 7K4M-Q2 · holdall job logs 7K4M-Q2 build · holdall job logs 7K4M-Q2 'test[arm64]'"
)
def logs(
    job: JobId,
    task: Annotated[str, typer.Argument(metavar="[TASK]", help="Only this task.")] = "",
    attempt: Annotated[int, typer.Option(min=0, help="Only this attempt; 0: all of them.")] = 0,
    url: Url = "",
) -> None:
    """What the commands of a job wrote, attempt by attempt in the order in which they began."""
    from holdall.cli.job_logs import print_logs
    from holdall.client.address import find_node
    from holdall.jobs.client import look

    where = find_node(url or None)
    print_logs(where, look(where, job), task, attempt)

"""`holdall run`: wait for everything, run a command while it is held, stop it before it could be anybody else's."""

import os
from typing import Annotated

import typer

from holdall.cli.completion import complete_need
from holdall.cli.options import Url, is_patient, read_wait


def register(app: typer.Typer) -> None:
    """Add `run` to the application."""
    app.command(
        "run",
        context_settings={"allow_interspersed_args": False},
        epilog="Examples: holdall run --need gpu:1 -- nvidia-smi -L · "
        "holdall run --need board,arch=arm64 --need psu --wait 10m -- pytest hil/ · "
        "holdall run --need gpu,model=h100 --or gpu,model=a100:2 --now -- ./train · "
        "holdall run --on lab-2 --need gpu -- nvidia-smi -L",
    )(run)


def run(
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD ARGS…", help="What to run while the lease is held.")
    ],
    need: Annotated[
        list[str] | None,
        typer.Option(
            "--need",
            metavar="SPEC",
            help="What is needed; more than once for more.",
            autocompletion=complete_need,
        ),
    ] = None,
    or_: Annotated[
        list[str] | None,
        typer.Option(
            "--or",
            metavar="SPEC",
            help="An alternative to the --need before it.",
            autocompletion=complete_need,
        ),
    ] = None,
    wait: Annotated[
        str,
        typer.Option(
            help="How long to wait, e.g. 10m; inf: no limit. Default: no limit on a terminal, else 1h."
        ),
    ] = "",
    now: Annotated[bool, typer.Option("--now", help="Only if free now, without waiting.")] = False,
    ttl: Annotated[str, typer.Option(help="Life without renewal; renewed at each third.")] = "",
    for_: Annotated[
        str, typer.Option("--for", help="Hard end, counted from the grant. Default: the pool's max_for.")
    ] = "",
    reason: Annotated[str, typer.Option(help="Shown to those who wait.")] = "",
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="NODE|any",
            help="Run it on that node, if that lets us (its [node] run_from); any: where its needs can be used. "
            "Streams, signals and exit status are ours; no terminal, and of our environment only TERM.",
        ),
    ] = "",
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME=AMOUNT",
            help="What all of the command's processes together may use: cpu=2cpu, mem=4GiB, processes=100.",
        ),
    ] = None,
    stay: Annotated[
        str, typer.Option("--stay", help="How long the command may run, whatever the lease allows.")
    ] = "",
    before_end: Annotated[
        str,
        typer.Option(
            "--before-end",
            metavar="LEAD:ACTION",
            help="So long before TERM at the hard end or the end of --stay: a signal to the command (30s:USR1), "
            "or a command beside it ('1m:./save.sh').",
        ),
    ] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="VAR=POOL", help="Put the pool's units into VAR, too."),
    ] = None,
    not_granted_status: Annotated[
        int, typer.Option("-E", metavar="CODE", min=0, max=255, help="Exit status when not granted in time.")
    ] = 75,
    history: Annotated[
        str, typer.Option(metavar="FILE", help="Record what happens, for `holdall check`.")
    ] = "",
    independent: Annotated[
        bool,
        typer.Option(
            "--independent", help="Not part of an inherited lease; outside the guarantee against deadlock."
        ),
    ] = False,
    allow_future: Annotated[
        bool, typer.Option("--allow-future", help="Wait for units that do not exist yet.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="What happens, as JSON lines on stderr.")] = False,
    url: Url = "",
) -> None:
    """Run a command that holds all it needs, or nothing.

    Exit status: the command's own; 64 usage, 65 can never be granted,
    69 no node reachable, 75 not granted in time (or -E), 77 refused,
    78 bad configuration, 79 lease lost, its hard end or the end of --stay reached
    and the command stopped; 126 not executable, 127 not found, 128+n command ended by signal n,
    130 interrupted while waiting.
    """
    del or_  # folded into --need before the options are read
    from holdall.cli.enforcing import read_before_end, read_limits
    from holdall.cli.needs import read_needs
    from holdall.cli.running import Run, Wishes, read_settings
    from holdall.model.durations import finite_duration, parse_duration
    from holdall.model.errors import BadSpec

    wishes = Wishes(
        command=tuple(command),
        needs=read_needs(need or ()),
        wait_ms=read_wait(wait, now=now),
        wait_given=bool(wait),
        now=now,
        ttl_ms=finite_duration(ttl, what="--ttl") if ttl else None,
        for_ms=parse_duration(for_, what="--for") if for_ else None,
        reason=reason,
        on=on,
        settings=read_settings(set_ or ()),
        not_granted_status=not_granted_status,
        history=history or os.environ.get("HOLDALL_HISTORY", ""),
        independent=independent,
        allow_future=allow_future,
        json=json,
        url=url,
        patient=is_patient(),
        limits=read_limits(limit or ()),
        stay_ms=finite_duration(stay, what="--stay") if stay else None,
        before_end=read_before_end(before_end),
    )
    if on:
        from holdall.cli.elsewhere import Elsewhere, place_of

        node = place_of(wishes)
        if node is not None and history:
            raise BadSpec(
                "--history is written where the command runs; leave it out beside --on another node"
            )
        if node is not None and (limit or stay or before_end):
            raise BadSpec(
                "--limit, --stay and --before-end are not passed on to another node; leave them out"
            )
        if node is not None:
            raise typer.Exit(Elsewhere(wishes, node).run())
    raise typer.Exit(Run(wishes).run())

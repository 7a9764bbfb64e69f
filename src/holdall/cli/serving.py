"""Commands about a node and about histories: serve, doctor, check."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from holdall.cli.options import Json, Url
from holdall.cli.tables import print_json
from holdall.model.durations import finite_duration

app = typer.Typer()


@app.command(epilog="Examples: holdall serve · holdall serve lab.toml · holdall serve lab.toml --new")
def serve(
    config: Annotated[
        Path | None, typer.Argument(help="Default: ./holdall.toml, else this user's, else the system's.")
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="No lease of this host can be alive: start without quarantine.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(help="Record every turn to this file, for `holdall lab replay`.")
    ] = None,
) -> int:
    """Run a node in the foreground: pools, queue and leases of this host."""
    from holdall.node.foreground import serve as serve_node

    return serve_node(config, new=new, trace=trace)


@app.command(epilog="Examples: holdall doctor · holdall doctor lab.toml --json")
def doctor(
    config: Annotated[Path | None, typer.Argument(help="Configuration to look at.")] = None,
    json: Json = False,
    url: Url = "",
) -> int:
    """Look at configuration, state folder, clock, disk, socket, bus, other nodes and versions; say what to do."""
    from holdall.client.doctor import examine

    findings = examine(config, url)
    if json:
        print_json("findings", findings)
    else:
        for finding in findings:
            mark = {"ok": "ok  ", "warning": "warn", "error": "BAD "}[finding.state]
            sys.stdout.write(f"{mark} {finding.about:<12} {finding.text}\n")
    return 78 if any(finding.state == "error" for finding in findings) else 0


@app.command(epilog="Examples: holdall check run.jsonl · holdall check *.jsonl --min-grants 1000 --json")
def check(
    histories: Annotated[list[Path], typer.Argument(help="Files that `--history` wrote, in any order.")],
    min_grants: Annotated[int, typer.Option(min=0, help="Fewer grants prove too little (exit 3).")] = 0,
    min_contended: Annotated[int, typer.Option(min=0, help="Fewer contended grants prove too little.")] = 0,
    min_faults: Annotated[int, typer.Option(min=0, help="Fewer faults prove too little.")] = 0,
    max_wait: Annotated[str, typer.Option(help="Longest wait allowed, e.g. 30s.")] = "",
    json: Json = False,
) -> int:
    """Judge a recorded history: 0 nothing found, 1 violations, 3 damaged or proves too little."""
    from holdall.checker import Floors, judge, render, to_json

    floors = Floors(grants=min_grants, contended=min_contended, faults=min_faults)
    max_wait_ns = finite_duration(max_wait, what="--max-wait") * 1_000_000 if max_wait else None
    verdict = judge(histories, floors, max_wait_ns=max_wait_ns)
    sys.stdout.write((to_json(verdict).decode() if json else render(verdict)).rstrip("\n") + "\n")
    return verdict.exit_status

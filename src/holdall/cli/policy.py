"""`holdall policy`: what a policy's file says about a request, before a node uses it."""

from typing import Annotated

import typer

from holdall.cli.completion import complete_need
from holdall.cli.options import Json

app = typer.Typer(no_args_is_help=True, help="Look into policies: who may have how much of what, and when.")


@app.command(
    "check",
    epilog="Examples: holdall policy check policy.toml --as student.json --need gpu:2 --at 2026-11-27T10:00 · "
    "holdall policy check location.toml host.toml --as student.json --term net.tx=2MB/s --capacity net.tx=5MB/s · "
    "holdall policy check policy.toml (whether the file can be used)",
)
def check(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="The policy, or the location's and then the host's."),
    ],
    who: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="WHO",
            help='JSON file of the one who asks: {"id": "ann", "affiliation": "vu", "groups": ["ci"], "role": "student"}.',
        ),
    ] = "",
    need: Annotated[
        list[str] | None,
        typer.Option(
            "--need", metavar="SPEC", help="Units of a pool, e.g. gpu:2.", autocompletion=complete_need
        ),
    ] = None,
    term: Annotated[
        list[str] | None,
        typer.Option(
            "--term", metavar="NAME=AMOUNT", help="Another term, e.g. net.tx=2MB/s, service.db=true."
        ),
    ] = None,
    duration: Annotated[str, typer.Option(metavar="TIME", help="How long it is asked for.")] = "60s",
    floor: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=AMOUNT", help="Less than this of a term is of no use."),
    ] = None,
    capacity: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=AMOUNT", help="All there is of a term; limits with a fraction need it."),
    ] = None,
    held: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=AMOUNT", help="What the one who asks has of a term already."),
    ] = None,
    at: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="When, e.g. 2026-11-27T10:00, in each rule's time zone. Default: now."
        ),
    ] = "",
    json: Json = False,
) -> int:
    """Explain rule by rule what is allowed. Exit status 0: all of it, perhaps less; 77: refused; 78: the file is bad."""
    from holdall.cli.policy_check import Question, run_check

    return run_check(
        Question(
            files=files,
            who=who,
            needs=need or [],
            terms=term or [],
            duration=duration,
            floors=floor or [],
            capacities=capacity or [],
            held=held or [],
            at=at,
            json=json,
        )
    )

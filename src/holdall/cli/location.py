"""`holdall location`: ask a location for a lease on negotiated terms, take what it offers, and look at it later."""

from typing import Annotated

import typer

from holdall.cli.options import Json, Url

app = typer.Typer(
    no_args_is_help=True,
    help="Leases on negotiated terms: rates, memory, functions of a host, units; offered by the hosts of a location.",
)

Location = Annotated[str, typer.Argument(metavar="LOCATION", help="Its name. See: holdall location list")]
Lease = Annotated[str, typer.Argument(metavar="LEASE", help="The id that the offer shows.")]
Duration = Annotated[str, typer.Option("--duration", metavar="TIME", help="How long, e.g. 60s.")]
Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- CMD ARGS…]", help="What to run while the lease is held, and held to it."),
]
Hold = Annotated[
    bool,
    typer.Option(
        "--hold", help="Stay and have it renewed until interrupted; then give it back. Without: it runs out."
    ),
]


@app.command(
    "list",
    epilog="Examples: holdall location list · holdall location list --json · holdall location list prague (its hosts)",
)
def list_locations(
    location: Annotated[
        str,
        typer.Argument(
            metavar="[LOCATION]", help="Show the hosts of this one, and which of them are silent."
        ),
    ] = "",
    json: Json = False,
    url: Url = "",
) -> None:
    """All locations of the system: their managers, nodes and templates; or all hosts of one."""
    from holdall.cli import location_shown

    if location:
        location_shown.hosts(location, url, as_json=json)
    else:
        location_shown.locations(url, as_json=json)


@app.command(epilog="Examples: holdall location templates prague · holdall location templates prague --json")
def templates(location: Location, json: Json = False, url: Url = "") -> None:
    """What may be asked there, term by term."""
    from holdall.cli import location_shown

    location_shown.templates(location, url, as_json=json)


@app.command(
    epilog="Examples: holdall location request prague --term net.tx=50KiB/s --duration 2min · "
    "holdall location request prague --term gpu=2 --term net.tx=1MB/s --floor net.tx=100kB/s · "
    "holdall location request prague --term net.tx=50KiB/s --accept --hold · "
    "holdall location request prague --term gpu=1 --wait 5min --accept · "
    "holdall location request prague --term gpu=1 --parts 4 (four of them, or none) · "
    "holdall location request prague --term mem=4GiB --term stay=1h --before-end 10s:USR1 -- ./train"
)
def request(
    location: Location,
    command: Command = None,
    term: Annotated[
        list[str] | None,
        typer.Option(
            "--term", metavar="NAME=AMOUNT", help="E.g. net.tx=50KiB/s, gpu=2, service.db=true; repeatable."
        ),
    ] = None,
    floor: Annotated[
        list[str] | None,
        typer.Option("--floor", metavar="NAME=AMOUNT", help="Less than this of a term is of no use."),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option("--weight", metavar="NAME=N", help="How much a shortfall of it counts, 1 to 100."),
    ] = None,
    duration: Duration = "",
    template: Annotated[str, typer.Option(metavar="ID", help="Keep to this template.")] = "",
    replaces: Annotated[
        str, typer.Option(metavar="LEASE", help="A lease that this one takes over from.")
    ] = "",
    parts: Annotated[
        int,
        typer.Option(
            "--parts",
            metavar="N",
            help="So many such leases, perhaps on several hosts: all or none, at once.",
        ),
    ] = 1,
    wait: Annotated[
        str,
        typer.Option(
            "--wait", metavar="TIME", help="Stand in line for so long if nothing can be offered now."
        ),
    ] = "",
    before_end: Annotated[
        str,
        typer.Option(
            "--before-end",
            metavar="LEAD:SIGNAL",
            help="So long before TERM the command gets a signal, e.g. 10s:USR1; with --hold it is said.",
        ),
    ] = "",
    accept: Annotated[bool, typer.Option("--accept", help="Take the offer at once.")] = False,
    hold: Hold = False,
    json: Json = False,
    url: Url = "",
) -> None:
    """Ask for an offer. It binds the location for a few seconds; take it with: holdall location accept.

    With a command the offer is taken at once, and the command runs while the lease is renewed, held to its cpu, mem and
    stay. Exit status: the command's own; 79 when the lease was lost and the command stopped.
    """
    from holdall.cli import location_asking

    location_asking.request(
        location_asking.Wish(
            location,
            term or [],
            floor or [],
            weight or [],
            duration,
            template,
            replaces,
            wait,
            before_end,
            command or (),
        ),
        url,
        parts=parts,
        accept=accept or hold,
        hold=hold,
        as_json=json,
    )


@app.command(epilog="Examples: holdall location offers · holdall location offers --json")
def offers(json: Json = False, url: Url = "") -> None:
    """Your offers at this node that are still open."""
    from holdall.cli import location_shown

    location_shown.offers(url, as_json=json)


@app.command(
    epilog="Examples: holdall location accept L-… · holdall location accept L-… --hold · "
    "holdall location accept L-… -- ./train"
)
def accept(
    lease: Lease, command: Command = None, hold: Hold = False, json: Json = False, url: Url = ""
) -> None:
    """Take an offer: the lease begins, and runs out after its duration unless it is renewed.

    With a command that is run while the lease is held, as by request.
    """
    from holdall.cli import location_asking

    location_asking.accept(lease, url, hold=hold, as_json=json, command=command or ())


@app.command(epilog="Example: holdall location decline L-…")
def decline(lease: Lease, json: Json = False, url: Url = "") -> None:
    """Refuse an offer: what it held is free at once."""
    from holdall.cli import location_asking

    location_asking.decline(lease, url, as_json=json)


@app.command(epilog="Examples: holdall location status L-… · holdall location status L-… --json")
def status(lease: Lease, json: Json = False, url: Url = "") -> None:
    """How a lease stands, term by term, as its host knows it."""
    from holdall.cli import location_shown

    location_shown.status(lease, url, as_json=json)


@app.command(epilog="Examples: holdall location renew L-… · holdall location renew L-… --duration 10min")
def renew(lease: Lease, duration: Duration = "", json: Json = False, url: Url = "") -> None:
    """Renew a lease once; all its terms are judged anew. Refused, it goes on as it was."""
    from holdall.cli import location_asking

    location_asking.renew(lease, duration, url, as_json=json)


@app.command(
    epilog="Examples: holdall location split L-… net.tx=25kB/s --to bob@lab-2 · "
    "holdall location split L-… net.tx=1MB/s mem=2GiB --to bob@lab-2 --json"
)
def split(
    lease: Lease,
    terms: Annotated[
        list[str], typer.Argument(metavar="TERM=AMOUNT…", help="What the other one gets of your capacities.")
    ],
    to: Annotated[str, typer.Option("--to", metavar="USER@NODE", help="The new holder.")],
    request_id: Annotated[
        str,
        typer.Option(
            "--request",
            metavar="ID",
            help="8 to 40 small letters and digits; the same again is the same split.",
        ),
    ] = "",
    json: Json = False,
    url: Url = "",
) -> None:
    """Give a part of a lease to somebody else, as a lease of his own. Yours has that much less."""
    from holdall.cli import location_splitting

    location_splitting.split(lease, terms, to, request_id, url, as_json=json)


@app.command(epilog="Example: holdall location release L-…")
def release(lease: Lease, json: Json = False, url: Url = "") -> None:
    """Give a lease back."""
    from holdall.cli import location_asking

    location_asking.release(lease, url, as_json=json)

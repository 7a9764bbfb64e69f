"""`holdall lab bandwidth`: what leases of bandwidth do for small senders, measured on this machine's loopback."""

from typing import Annotated

import typer

from holdall.cli.options import Json

app = typer.Typer()


@app.command(
    epilog="Examples: holdall lab bandwidth --speed 5 --reps 2 · holdall lab bandwidth --speed 5 --plot bandwidth.png · "
    "holdall lab bandwidth --speed 5 --reps 3 --rule proportional --json"
)
def bandwidth(
    speed: Annotated[
        int,
        typer.Option(
            help="Link and requests so many times larger, leases shorter, times scaled back; 1 takes 45 minutes."
        ),
    ] = 1,
    reps: Annotated[int, typer.Option(min=1, help="Repetitions without leases, and as many with.")] = 10,
    messages: Annotated[int, typer.Option(min=1, help="That each agent sends.")] = 100,
    rule: Annotated[
        str, typer.Option(help="How leases share the link: fair, none, proportional, smallest-first, equal.")
    ] = "fair",
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw bar charts and shares over time, .png or .svg.")
    ] = None,
    json: Json = False,
) -> int:
    """Four senders on one slow link over real sockets: response times without leases and with leases of 2 s."""
    from holdall.lab.bandwidth.command import Asked, run_bandwidth

    return run_bandwidth(Asked(speed=speed, reps=reps, messages=messages, rule=rule, plot=plot, json=json))

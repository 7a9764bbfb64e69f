"""`holdall usage`: what was held, by whom, for how long, and what of it was used."""

import sys
from typing import Annotated

import msgspec
import typer

from holdall.cli.options import Json, Url, converse
from holdall.cli.tables import plain, print_json, print_table
from holdall.client.usage_csv import usage_csv
from holdall.model import frames
from holdall.model.durations import parse_duration, show_duration
from holdall.model.errors import BadSpec

GROUPS = ("holder", "affiliation", "pool", "unit", "lease", "end")

app = typer.Typer()


@app.command(
    epilog="Examples: holdall usage · holdall usage --by affiliation --since 30d · "
    "holdall usage --by pool --since 1h --json · holdall usage --by unit --csv > usage.csv"
)
def usage(
    by: Annotated[
        str, typer.Option("--by", metavar="|".join(GROUPS), help="What the sums are of; each for every term.")
    ] = "holder",
    since: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="Only what was held within this time, e.g. 7d.")
    ] = "",
    csv_: Annotated[bool, typer.Option("--csv", help="Comma-separated, with a line of headings.")] = False,
    json: Json = False,
    url: Url = "",
) -> None:
    """What was held of this node's pools and capacities: how much, for how long, and what was used of it."""
    if by not in GROUPS:
        raise BadSpec(
            f"--by {by[:40]} is none of {', '.join(GROUPS)}. Example: holdall usage --by affiliation"
        )
    if csv_ and json:
        raise BadSpec("--csv and --json are two forms of one answer. Leave one of them out.")
    since_ms = parse_duration(since, what="--since") if since else None
    with converse(url) as node:
        ask = frames.Ask(n=node.number(), what="usage", arg=by, since_ms=since_ms)
        rows, here = node.listing(ask).usage, node.welcome.node
    if json:
        # In JSON a number may have any length; in a frame it may not.
        plain_rows = [{**msgspec.to_builtins(row), "amount_ms": int(row.amount_ms)} for row in rows]
        print_json("usage", plain_rows, by=by, node=here, since_ms=since_ms)
    elif csv_:
        sys.stdout.write(usage_csv(by, rows))
    else:
        _print(by, rows, since_ms)


def _print(by: str, rows: tuple[frames.UsageRow, ...], since_ms: int | None) -> None:
    empty = "nothing has been held" + (f" within {show_duration(since_ms)}" if since_ms else "")
    print_table(
        (by.upper(), "TERM", "LEASES", "HELD", "AMOUNT x TIME", "USED", "DENIED", "NOW"),
        [
            (
                plain(row.group) or "-",
                plain(row.term),
                str(row.leases),
                show_duration(row.held_ms),
                _amount(row),
                str(row.used) if row.kind == "capacity" else "",
                str(row.denied) if row.kind == "capacity" else "",
                str(row.now) if row.now else "",
            )
            for row in rows
        ],
        empty=empty,
    )


def _amount(row: frames.UsageRow) -> str:
    """Of units `2h 5min`; of a capacity in its base unit times seconds, which for a rate is what it could have moved."""
    amount_ms = int(row.amount_ms)
    return f"{amount_ms // 1000:,} x s" if row.kind == "capacity" else show_duration(amount_ms)

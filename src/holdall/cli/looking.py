"""Commands that look: pools, who, queue, why, log, show, watch. Data on stdout, `--json` everywhere."""

import sys
from typing import Annotated

import msgspec
import typer

from holdall.cli.completion import complete_claim, complete_pool
from holdall.cli.options import Json, Url, converse, own_key
from holdall.cli.tables import ago, clock_time, plain, print_json, print_table
from holdall.cli.why import why_lines
from holdall.model import frames
from holdall.model.durations import parse_duration, show_duration
from holdall.model.names import short_id

UNITS_SHOWN_MAX = 8

app = typer.Typer()


@app.command(epilog="Examples: holdall pools · holdall pools gpu · holdall pools --json")
def pools(
    pool: Annotated[str, typer.Argument(help="Only this pool.", autocompletion=complete_pool)] = "",
    json: Json = False,
    url: Url = "",
) -> None:
    """What there is: each pool with its units, free and held."""
    with converse(url) as node:
        rows = node.listing(frames.Ask(n=node.number(), what="pools", arg=pool)).pools
    if json:
        print_json("pools", rows)
        return
    print_table(
        ("POOL", "NODE", "FREE", "HELD", "OUT", "WAITING", "UNITS"),
        [
            (
                row.pool + "".join(f",{key}={value}" for key, value in sorted(row.labels.items())),
                row.node,
                f"{row.free}/{row.total}",
                str(row.held),
                str(row.unusable),
                str(row.waiting),
                _units_text(row.units),
            )
            for row in rows
        ],
        empty=f"no pool {plain(pool)!r}. See: holdall pools"
        if pool
        else "no pools. Add a [[pool]] to the configuration and reload: kill -HUP the node",
    )
    looked_at = [
        f"{row.pool}/{unit.unit}" for row in rows for unit in row.units if unit.state == "quarantined"
    ]
    if looked_at:
        sys.stderr.write(f"next      holdall clear {plain(looked_at[0])}   when you have looked at it\n")


def _units_text(units: tuple[frames.UnitRow, ...]) -> str:
    shown = [
        unit.unit
        + (
            ""
            if unit.state == "free"
            else f" {unit.state}"
            + (f" {plain(unit.holder)}" if unit.holder else "")
            + (f" ({plain(unit.note)})" if unit.note else "")
        )
        for unit in units[:UNITS_SHOWN_MAX]
    ]
    more = len(units) - len(shown)
    return " · ".join(shown) + (f" · and {more} more" if more else "")


@app.command(epilog="Examples: holdall who · holdall who --json")
def who(json: Json = False, url: Url = "") -> None:
    """Who holds what, since when, until when."""
    with converse(url) as node:
        leases = node.listing(frames.Ask(n=node.number(), what="who")).leases
    if json:
        print_json("leases", leases)
        return
    print_table(
        ("LEASE", "HOLDER", "UNITS", "REASON", "SINCE", "UNTIL", "STATE"),
        [
            (
                short_id(lease.lease),
                plain(lease.holder),
                " ".join(_unit_text(unit) for unit in lease.units),
                plain(lease.reason),
                f"{clock_time(lease.since_ms)} ({ago(lease.since_ms)})",
                clock_time(lease.until_ms) if lease.until_ms is not None else "no end",
                lease.state + (", renewing" if lease.renewing else f", ends {clock_time(lease.expires_ms)}"),
            )
            for lease in leases
        ],
        empty="nobody holds anything",
    )


def _unit_text(unit: frames.HeldUnit) -> str:
    return f"{unit.pool}/{unit.name}#{unit.fence}"


@app.command(epilog="Examples: holdall queue · holdall queue gpu · holdall queue --json")
def queue(
    pool: Annotated[
        str, typer.Argument(help="Only claims that want this pool.", autocompletion=complete_pool)
    ] = "",
    json: Json = False,
    url: Url = "",
) -> None:
    """Who waits, in order of age, and for what."""
    with converse(url) as node:
        waits = node.listing(frames.Ask(n=node.number(), what="queue", arg=pool)).waits
    if json:
        print_json("waiting", waits)
        return
    print_table(
        ("CLAIM", "PLACE", "HOLDER", "NEEDS", "REASON", "WAITS", "OVERTAKEN", "BLOCKED BY"),
        [
            (
                short_id(why.claim),
                f"{why.position} of {why.waiting}",
                plain(why.holder),
                " · ".join(f"{plain(need.spec)} {need.state}" for need in why.needs),
                plain(why.reason),
                ago(why.since_ms),
                f"{why.overtaken} of at most {why.passes_bound}",
                ", ".join(plain(blocker.holder) for blocker in why.blockers[:2]),
            )
            for why in waits
        ],
        empty="nobody waits",
    )


@app.command(epilog="Examples: holdall why 7K4M-R9 · holdall why 7K4M-R9 --json")
def why(
    claim: Annotated[
        str,
        typer.Argument(help="A waiting claim, as `holdall queue` shows it.", autocompletion=complete_claim),
    ],
    json: Json = False,
    url: Url = "",
) -> None:
    """Why a claim waits: its place, who blocks it and until when, how many can still get ahead."""
    with converse(url) as node:
        answer = node.listing(frames.Ask(n=node.number(), what="why", arg=claim))
    if json:
        print_json(
            "why",
            answer.waits[0] if answer.waits else None,
            leases=msgspec.to_builtins(answer.leases),
            log=msgspec.to_builtins(answer.log),
        )
        return
    for line in (line for wait in answer.waits for line in why_lines(wait)):
        sys.stdout.write(line + "\n")
    for lease in answer.leases:
        sys.stdout.write("waits no more: it has what it asked for\n")
        _write_lease(lease)
    if not answer.waits and not answer.leases:
        sys.stdout.write("waits no more: it has ended\n")
        _write_history(answer.log)


@app.command(epilog="Examples: holdall log · holdall log --since 1h --json")
def log(
    since: Annotated[str, typer.Option(help="How far back, e.g. 10m, 1h.")] = "",
    json: Json = False,
    url: Url = "",
) -> None:
    """What happened: grants, releases, expiries, losses, kicks."""
    since_ms = parse_duration(since, what="--since") if since else None
    with converse(url) as node:
        rows = node.listing(frames.Ask(n=node.number(), what="log", since_ms=since_ms)).log
    if json:
        print_json("log", rows)
        return
    print_table(
        ("TIME", "WHAT", "LEASE", "HOLDER", "UNITS", "TEXT"),
        [_log_cells(row) for row in rows],
        empty="nothing has happened" + (f" within {show_duration(since_ms)}" if since_ms else ""),
    )


def _log_cells(row: frames.LogRow) -> tuple[str, ...]:
    return (
        clock_time(row.at_ms),
        row.kind,
        short_id(row.lease) if row.lease else "",
        plain(row.holder),
        " ".join(plain(unit) for unit in row.units),
        plain(row.text),
    )


@app.command(epilog="Examples: holdall watch · holdall watch --json | jq .kind")
def watch(json: Json = False, url: Url = "") -> None:
    """What happens, as it happens, until Ctrl-C."""
    with converse(url) as node:
        for answer in node.answers(frames.Watch(n=node.number()), patient=True):
            if not isinstance(answer, frames.Happened):
                continue
            if json:
                line = msgspec.json.encode({"v": 1, **msgspec.to_builtins(answer.row)}).decode()
            else:
                line = "  ".join(cell for cell in _log_cells(answer.row) if cell)
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


@app.command(epilog="Examples: holdall show 7K4M-Q2 · holdall show (inside `holdall run`)")
def show(
    key: Annotated[str, typer.Argument(help="Key or printed id; default: HOLDALL_LEASE.")] = "",
    json: Json = False,
    url: Url = "",
) -> None:
    """One lease: units with fences, holder, times."""
    with converse(url) as node:
        answer = node.listing(frames.Ask(n=node.number(), what="show", arg=own_key(key)))
    if json:
        lease = answer.leases[0] if answer.leases else None
        print_json("lease", lease, log=msgspec.to_builtins(answer.log))
        return
    for lease in answer.leases:
        _write_lease(lease)
    if not answer.leases:
        sys.stdout.write("lease     has ended\n")
    _write_history(answer.log)


def _write_history(rows: tuple[frames.LogRow, ...]) -> None:
    for row in rows:
        cells = _log_cells(row)
        sys.stdout.write(
            f"{'history':<9} " + "  ".join(cell for cell in (cells[0], cells[1], *cells[4:]) if cell) + "\n"
        )


def _write_lease(lease: frames.LeaseView) -> None:
    until = clock_time(lease.until_ms) if lease.until_ms is not None else "no end"
    facts = [
        (
            "lease",
            f"{short_id(lease.lease)} ({lease.state}{': ' + plain(lease.ended) if lease.ended else ''})",
        ),
        ("holder", f"{plain(lease.holder)} (user {plain(lease.user)}, pid {lease.pid})"),
        ("reason", plain(lease.reason)),
        ("needs", " ".join(plain(need) for need in lease.needs)),
        ("units", " ".join(_unit_text(unit) for unit in lease.units)),
        (
            "granted",
            f"{clock_time(lease.since_ms)} ({ago(lease.since_ms)} ago), waited {show_duration(lease.waited_ms)}",
        ),
        (
            "until",
            f"{until}; without renewal {clock_time(lease.expires_ms)}, ttl {show_duration(lease.ttl_ms)}",
        ),
    ]
    for name, text in facts:
        if text:
            sys.stdout.write(f"{name:<9} {text}\n")

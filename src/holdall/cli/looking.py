"""Commands that look: pools, who, queue, why, log, show, watch. Data on stdout, `--json` everywhere.

They are about the whole system; nodes that could not be asked are named on stderr (`not_asked` in JSON).
"""

import sys
from typing import Annotated

import msgspec
import typer

from holdall.cli.completion import complete_claim, complete_pool
from holdall.cli.options import Json, Local, OfNode, Url, converse, own_key
from holdall.cli.tables import ago, clock_time, plain, print_listing, print_table, say_not_asked
from holdall.cli.why import current_line, why_lines
from holdall.model import frames
from holdall.model.durations import parse_duration, show_duration
from holdall.model.names import short_id
from holdall.model.why import Why

UNITS_SHOWN_MAX = 8

app = typer.Typer()


@app.command(epilog="Examples: holdall pools · holdall pools gpu · holdall pools --json")
def pools(
    pool: Annotated[str, typer.Argument(help="Only this pool.", autocompletion=complete_pool)] = "",
    node_name: OfNode = "",
    local: Local = False,
    json: Json = False,
    url: Url = "",
) -> None:
    """What there is: each pool of each node with its units, free and held."""
    with converse(url) as node:
        ask = frames.Ask(n=node.number(), what="pools", arg=pool, node=node_name, local=local)
        answer, here = node.listing(ask), node.welcome.node
    rows = answer.pools
    if json:
        print_listing("pools", rows, answer.not_asked)
        return
    print_table(
        ("POOL", "NODE", "FREE", "HELD", "OUT", "WAITING", "UNITS"),
        [
            (
                plain(row.pool + "".join(f",{key}={value}" for key, value in sorted(row.labels.items()))),
                plain(row.node) + (f" ({row.state})" if row.state != "serving" else ""),
                f"{row.free}/{row.total}",
                str(row.held),
                str(row.unusable),
                str(row.waiting),
                _units_text(row.units),
            )
            for row in rows
        ],
        empty=f"no pool {plain(pool)!r}{' on the nodes that answered' if answer.not_asked else ''}. See: holdall pools"
        if pool
        else "no pools. Add a [[pool]] to the configuration and reload: kill -HUP the node",
    )
    looked_at = [
        (row.node, f"{row.pool}/{unit.unit}")
        for row in rows
        for unit in row.units
        if unit.state == "quarantined"
    ]
    if looked_at:
        where, unit = looked_at[0]
        there = "" if where == here else f"on {plain(where)}: "
        sys.stderr.write(f"next      {there}holdall clear {plain(unit)}   when you have looked at it\n")
    say_not_asked(answer.not_asked)


def _units_text(units: tuple[frames.UnitRow, ...]) -> str:
    shown = [
        plain(unit.unit)
        + (
            ""
            if unit.state == "free"
            else f" {plain(unit.state)}"
            + (f" {plain(unit.holder)}" if unit.holder else "")
            + (f" ({plain(unit.note)})" if unit.note else "")
        )
        for unit in units[:UNITS_SHOWN_MAX]
    ]
    more = len(units) - len(shown)
    return " · ".join(shown) + (f" · and {more} more" if more else "")


@app.command(epilog="Examples: holdall who · holdall who --node lab-2 · holdall who --json")
def who(node_name: OfNode = "", local: Local = False, json: Json = False, url: Url = "") -> None:
    """Who holds what, where, since when, until when."""
    with converse(url) as node:
        answer = node.listing(frames.Ask(n=node.number(), what="who", node=node_name, local=local))
        here = node.welcome.node
    leases = answer.leases
    if json:
        print_listing("leases", leases, answer.not_asked)
        return
    nodes = {unit.node for lease in leases for unit in lease.units} | {here}
    print_table(
        ("LEASE", "HOLDER", "UNITS", "REASON", "SINCE", "UNTIL", "STATE"),
        [
            (
                short_id(lease.lease),
                plain(lease.holder),
                _held_text(lease.units, with_nodes=len(nodes) > 1),
                plain(lease.reason),
                f"{clock_time(lease.since_ms)} ({ago(lease.since_ms)})",
                clock_time(lease.until_ms) if lease.until_ms is not None else "no end",
                _state_text(lease),
            )
            for lease in leases
        ],
        empty="nobody holds anything",
    )
    say_not_asked(answer.not_asked)


def _held_text(units: tuple[frames.HeldUnit, ...], *, with_nodes: bool) -> str:
    """`gpu/0#5 gpu/1#6 on lab-1, psu/p1#3 on lab-2`; without nodes when there is one only."""
    if not with_nodes:
        return " ".join(_unit_text(unit) for unit in units)
    by_node: dict[str, list[str]] = {}
    for unit in units:
        by_node.setdefault(unit.node, []).append(_unit_text(unit))
    return ", ".join(f"{' '.join(texts)} on {plain(node)}" for node, texts in sorted(by_node.items()))


def _unit_text(unit: frames.HeldUnit) -> str:
    return plain(f"{unit.pool}/{unit.name}#{unit.fence}")


def _state_text(lease: frames.LeaseView) -> str:
    """`active, renewing`; of a node that is silent nobody here knows whether its leases are renewed."""
    if lease.silent:
        return f"{plain(lease.state)}, silent: {', '.join(plain(node) for node in lease.silent)}"
    if lease.renewing:
        return f"{plain(lease.state)}, renewing"
    return plain(lease.state) + (f", ends {clock_time(lease.expires_ms)}" if lease.expires_ms else "")


@app.command(epilog="Examples: holdall queue · holdall queue gpu · holdall queue --json")
def queue(
    pool: Annotated[
        str, typer.Argument(help="Only claims that want this pool.", autocompletion=complete_pool)
    ] = "",
    node_name: OfNode = "",
    local: Local = False,
    json: Json = False,
    url: Url = "",
) -> None:
    """Who waits, in order of age, and for what."""
    with converse(url) as node:
        ask = frames.Ask(n=node.number(), what="queue", arg=pool, node=node_name, local=local)
        answer = node.listing(ask)
    waits = answer.waits
    if json:
        print_listing("waiting", waits, answer.not_asked)
        return
    nodes = {why.node for why in waits} | {line.node for why in waits for line in why.lines}
    print_table(
        ("CLAIM", "PLACE", "HOLDER", "NEEDS", "REASON", "WAITS", "OVERTAKEN", "BLOCKED BY"),
        [
            (
                short_id(why.claim),
                _place_text(why, with_node=len(nodes) > 1),
                plain(why.holder),
                " · ".join(f"{plain(need.spec)} {plain(need.state)}" for need in why.needs),
                plain(why.reason),
                ago(why.since_ms) if why.since_ms else "?",
                f"{why.overtaken} of at most {why.passes_bound}" if why.bounded else str(why.overtaken),
                ", ".join(plain(blocker.holder) for blocker in why.blockers[:2]),
            )
            for why in waits
        ],
        empty="nobody waits",
    )
    say_not_asked(answer.not_asked)


def _place_text(why: Why, *, with_node: bool) -> str:
    """`1 of 2 at lab-1`; without the node when there is one only."""
    current = current_line(why)
    node = why.node if current is None else current.node
    place = f"{why.position} of {why.waiting}" if why.position else "?"
    return place + (f" at {plain(node)}" if with_node else "")


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
        print_listing(
            "why",
            answer.waits[0] if answer.waits else None,
            answer.not_asked,
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
    say_not_asked(answer.not_asked)


@app.command(epilog="Examples: holdall log · holdall log --since 1h --json")
def log(
    since: Annotated[str, typer.Option(help="How far back, e.g. 10m, 1h.")] = "",
    node_name: OfNode = "",
    local: Local = False,
    json: Json = False,
    url: Url = "",
) -> None:
    """What happened, by time and node: grants, releases, expiries, losses, kicks."""
    since_ms = parse_duration(since, what="--since") if since else None
    with converse(url) as node:
        ask = frames.Ask(n=node.number(), what="log", since_ms=since_ms, node=node_name, local=local)
        answer = node.listing(ask)
    rows = answer.log
    if json:
        print_listing("log", rows, answer.not_asked)
        return
    print_table(
        ("TIME", "NODE", "WHAT", "LEASE", "HOLDER", "UNITS", "TEXT"),
        [_log_cells(row) for row in rows],
        empty="nothing has happened" + (f" within {show_duration(since_ms)}" if since_ms else ""),
    )
    say_not_asked(answer.not_asked)


def _log_cells(row: frames.LogRow) -> tuple[str, ...]:
    return (
        clock_time(row.at_ms),
        plain(row.node),
        plain(row.kind),
        short_id(row.lease) if row.lease else "",
        plain(row.holder),
        " ".join(plain(unit) for unit in row.units),
        plain(row.text),
    )


@app.command(epilog="Examples: holdall watch · holdall watch --json | jq .kind")
def watch(node_name: OfNode = "", local: Local = False, json: Json = False, url: Url = "") -> None:
    """What happens on all nodes, as it happens, until Ctrl-C; that a node goes silent or returns is told, too."""
    with converse(url) as node:
        request = frames.Watch(n=node.number(), node=node_name, local=local)
        for answer in node.answers(request, patient=True):
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
        print_listing("lease", lease, answer.not_asked, log=msgspec.to_builtins(answer.log))
        return
    for lease in answer.leases:
        _write_lease(lease)
    if not answer.leases:
        sys.stdout.write("lease     has ended\n")
    _write_history(answer.log)
    say_not_asked(answer.not_asked)


def _write_history(rows: tuple[frames.LogRow, ...]) -> None:
    for row in rows:
        cells = _log_cells(row)
        sys.stdout.write(
            f"{'history':<9} " + "  ".join(cell for cell in (*cells[:3], *cells[5:]) if cell) + "\n"
        )


def _write_lease(lease: frames.LeaseView) -> None:
    until = clock_time(lease.until_ms) if lease.until_ms is not None else "no end"
    facts = [
        (
            "lease",
            f"{short_id(lease.lease)} ({plain(lease.state)}{': ' + plain(lease.ended) if lease.ended else ''})",
        ),
        ("holder", f"{plain(lease.holder)} (user {plain(lease.user)}, pid {lease.pid})"),
        ("reason", plain(lease.reason)),
        ("needs", " ".join(plain(need) for need in lease.needs)),
        ("units", _held_text(lease.units, with_nodes={unit.node for unit in lease.units} != {lease.node})),
        ("node", plain(lease.node) + (f"; silent: {plain(', '.join(lease.silent))}" if lease.silent else "")),
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

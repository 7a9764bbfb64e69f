"""Routes that look: pools, units, leases, queue, why, log, nodes, and who one is."""

import msgspec
from starlette.responses import Response

from holdall.client.usage_csv import usage_csv
from holdall.http import request_words, words
from holdall.http.api import CSV, JSON, Asking, wants
from holdall.http.rows import has, nodes_of, not_asked, page, pools_of, units_of
from holdall.model import frames
from holdall.model.durations import parse_duration
from holdall.model.why import Why
from holdall.node.release import version


async def pools(asking: Asking) -> words.Pools:
    """Pools without their units."""
    query: request_words.PoolsQuery = asking.query
    parts = await asking.place.reading.get("pools")
    rows = [
        row
        for row in pools_of(parts).values()
        if query.pool in {"", row.pool} and query.node in {"", row.node} and has(query.q, row.id)
    ]
    shown, after = page(rows, lambda row: (row.id,), after=query.after, limit=query.limit)
    return words.Pools(total=len(rows), next=after, not_asked=not_asked(parts), pools=shown)


async def units(asking: Asking) -> words.Units:
    """Units with the leases that have them."""
    query: request_words.UnitsQuery = asking.query
    listed = await asking.place.reading.get("pools")
    leases = await asking.place.reading.get("who")
    rows = [
        row
        for row in units_of(listed, leases, pool=query.pool, node=query.node)
        if query.state in {"", row.state}
        and query.holder in {"", row.holder}
        and has(query.q, row.id, row.holder, row.reason, row.note, row.lease, *row.labels.values())
    ]
    shown, after = page(
        rows, lambda row: (row.pool, row.node, len(row.unit), row.unit), after=query.after, limit=query.limit
    )
    return words.Units(total=len(rows), next=after, not_asked=not_asked(listed, leases), units=shown)


async def leases(asking: Asking) -> words.Leases:
    """Who holds what."""
    query: request_words.ClaimsQuery = asking.query
    parts = await asking.place.reading.get("who")
    rows = [view for part in parts for view in part.leases if _lease_fits(view, query)]
    shown, after = page(rows, lambda row: (row.since_ms, row.lease), after=query.after, limit=query.limit)
    return words.Leases(total=len(rows), next=after, not_asked=not_asked(parts), leases=shown)


def _lease_fits(view: frames.LeaseView, query: request_words.ClaimsQuery) -> bool:
    return (
        (not query.pool or any(unit.pool == query.pool for unit in view.units))
        and (not query.node or any(unit.node == query.node for unit in view.units))
        and query.holder in {"", view.holder}
        and has(
            query.q,
            view.lease,
            view.holder,
            view.reason,
            view.user,
            *(f"{one.pool}/{one.name}@{one.node}" for one in view.units),
        )
    )


async def lease(asking: Asking) -> words.OneLease:
    """One lease with its history."""
    listing = await asking.place.reading.single("show", asking.path["lease"])
    view = listing.leases[0] if listing.leases else None
    return words.OneLease(lease=view, log=listing.log, not_asked=listing.not_asked)


async def queue(asking: Asking) -> words.Waiting:
    """Who waits, and why."""
    query: request_words.ClaimsQuery = asking.query
    parts = await asking.place.reading.get("queue")
    rows = [why for part in parts for why in part.waits if _wait_fits(why, query)]
    shown, after = page(rows, lambda row: (row.since_ms, row.claim), after=query.after, limit=query.limit)
    return words.Waiting(total=len(rows), next=after, not_asked=not_asked(parts), waiting=shown)


def _wait_fits(why: Why, query: request_words.ClaimsQuery) -> bool:
    """A pool is wanted when a SPEC of the claim names it, or the claim stands in line for it somewhere."""
    pools = {name for line in why.lines for name in line.pools} | {
        name for need in why.needs for name in need.spec.partition(",")[0].rpartition(":")[0].split("+")
    }
    pools |= {name for need in why.needs for name in need.spec.partition(",")[0].partition(":")[0].split("+")}
    nodes = {why.node} | {line.node for line in why.lines}
    return (
        (not query.pool or query.pool in pools)
        and (not query.node or query.node in nodes)
        and query.holder in {"", why.holder}
        and has(query.q, why.claim, why.holder, why.reason, *(need.spec for need in why.needs))
    )


async def why(asking: Asking) -> words.OneWhy:
    """Why one claim waits, as `holdall why --json`."""
    listing = await asking.place.reading.single("why", asking.path["claim"])
    wait = listing.waits[0] if listing.waits else None
    return words.OneWhy(why=wait, leases=listing.leases, log=listing.log, not_asked=listing.not_asked)


async def log(asking: Asking) -> words.Log:
    """What happened, newest first."""
    query: request_words.LogQuery = asking.query
    since_ms = parse_duration(query.since, what="since") if query.since else None
    parts = await asking.place.reading.get("log", since_ms)
    rows = [
        row
        for part in parts
        for row in part.log
        if query.node in {"", row.node}
        and query.kind in {"", row.kind}
        and row.lease.startswith(query.lease)
        and (not query.pool or any(unit.startswith(f"{query.pool}/") for unit in row.units))
        and has(query.q, row.lease, row.holder, row.text, row.kind, *row.units)
    ]
    shown, after = page(
        rows,
        lambda row: (row.at_ms, row.node, row.seq),
        after=query.after,
        limit=query.limit,
        newest_first=True,
    )
    return words.Log(total=len(rows), next=after, not_asked=not_asked(parts), log=shown)


async def nodes(asking: Asking) -> words.Nodes:
    """The node that answers, and those that it knows."""
    parts = await asking.place.reading.get("node")
    return words.Nodes(nodes=tuple(nodes_of(parts).values()))


async def me(asking: Asking) -> words.Me:
    """Who asks, and what is permitted."""
    caller = asking.caller
    return words.Me(
        node=asking.place.orders.node,
        version=version(),
        user=caller.user,
        via=caller.via,  # type: ignore[arg-type]
        may=caller.may,  # type: ignore[arg-type]
    )


async def state(asking: Asking) -> words.Snapshot:
    """The snapshot of the stream."""
    return await asking.place.mirror.snapshot()


async def usage(asking: Asking) -> words.Usages | Response:
    """What was held and used, of the node that answers."""
    query: request_words.UsageQuery = asking.query
    since_ms = parse_duration(query.since, what="since") if query.since else None
    parts = await asking.place.reading.get("usage", since_ms, arg=query.by)
    rows = [row for part in parts for row in part.usage]
    if wants(asking.request, JSON, {CSV}):
        return Response(usage_csv(query.by, rows), 200, {"Cache-Control": "no-cache"}, CSV)
    plain = ({**msgspec.structs.asdict(row), "amount_ms": int(row.amount_ms)} for row in rows)
    sums = [msgspec.convert(row, words.UsageSum) for row in plain]
    return words.Usages(usage=tuple(sums), by=query.by, node=asking.place.orders.node, since_ms=since_ms)


async def doctor(asking: Asking) -> words.Findings:
    """What could keep the node that answers from working, as `holdall doctor` finds on its host."""
    return words.Findings(findings=tuple(await asking.place.examined.get()))

"""Routes that look at locations: their hosts, what may be asked there, everybody's leases, and how capacities are divided."""

from holdall.http import location_words as w
from holdall.http.api import Asking
from holdall.http.rows import has, nodes_of, page

LIVING = frozenset({"active", "draining"})


async def locations(asking: Asking) -> w.Locations:
    """All that are known."""
    query = asking.query
    found = await asking.place.located.locations()
    rows = [row for row in found if has(query.q, row.location, row.manager, *row.nodes)]
    shown, after = page(rows, lambda row: (row.location,), after=query.after, limit=query.limit)
    return w.Locations(total=len(rows), next=after, locations=shown)


async def location(asking: Asking) -> w.OneLocation:
    """One of them."""
    return w.OneLocation(location=await asking.place.located.location(asking.path["location"]))


async def templates(asking: Asking) -> w.Templates:
    """What may be asked there, term by term."""
    found = await asking.place.located.templates(asking.path["location"])
    return w.Templates(location=found.location, templates=found.templates, suspect=found.suspect)


async def hosts(asking: Asking) -> w.Hosts:
    """The hosts of the location, whether they are heard, and what is free there."""
    query: w.HostsQuery = asking.query
    name = asking.path["location"]
    manager, found = await asking.place.located.hosts(name)
    index = await asking.place.located.index(name)
    nodes = nodes_of(await asking.place.reading.get("node"))
    rows: list[w.HostShown] = []
    for row in found:
        fits = query.host in {"", row.host} and query.presence in {"", row.presence}
        if not fits or not has(query.q, row.host, row.template):
            continue
        node = nodes.get(row.host)
        rows.append(
            w.HostShown(
                host=row.host,
                presence=row.presence,
                draining=row.draining,
                incarnation=row.incarnation,
                template=row.template,
                free=row.free,
                manages=row.host == manager,
                leases=sum(1 for one in index if one.host == row.host and one.state in LIVING),
                state="" if node is None else node.state,
                silent_ms=None if node is None else node.silent_ms,
                version="" if node is None else node.version,
            )
        )
    shown, after = page(rows, lambda row: (row.host,), after=query.after, limit=query.limit)
    return w.Hosts(location=name, manager=manager, total=len(rows), next=after, hosts=shown)


async def leases(asking: Asking) -> w.LocationLeases:
    """Everybody's leases there, term by term, with what was used of what was granted."""
    query: w.LeasesQuery = asking.query
    name = asking.path["location"]
    found = await asking.place.located.leases(name)
    rows = [
        one
        for one in found.documents
        if query.host in {"", one.host}
        and query.holder in {"", one.holder}
        and query.state in {"", one.state}
        and (not query.term or any(term.name == query.term for term in one.terms))
        and has(query.q, one.lease, one.host, one.holder, one.why, *(term.name for term in one.terms))
    ]
    shown, after = page(rows, lambda one: (one.lease,), after=query.after, limit=query.limit)
    return w.LocationLeases(location=name, total=len(rows), next=after, not_asked=found.unheard, leases=shown)


async def capacities(asking: Asking) -> w.Capacities:
    """What each host has to divide, and how much of it is given."""
    query: w.CapacitiesQuery = asking.query
    name = asking.path["location"]
    found = await asking.place.located.shares(name)
    by_name = {(part.host, row.term): row for part in found.parts for row in part.capacities}
    rows = [
        w.CapacityShown(
            host=host, term=row.term, unit=row.unit, sharing=row.sharing, amount=row.amount, free=row.free,
            taken=row.taken, step=row.step, demands=row.demands,
        )
        for (host, _), row in by_name.items()
        if query.host in {"", host} and query.term in {"", row.term} and has(query.q, host, row.term)
    ]  # fmt: skip
    shown, after = page(rows, lambda row: (row.host, row.term), after=query.after, limit=query.limit)
    return w.Capacities(location=name, total=len(rows), next=after, not_asked=found.unheard, capacities=shown)


async def shares(asking: Asking) -> w.Shares:
    """Each demand on a capacity, with its share of the water filling and what it has."""
    query: w.SharesQuery = asking.query
    name = asking.path["location"]
    found = await asking.place.located.shares(name)
    rows = [
        w.ShareShown(
            host=part.host, term=row.term, holder=row.holder, lease=row.lease, place=row.place, asked=row.asked,
            cap=row.cap, weight=row.weight, group=row.group, share=row.share, granted=row.granted, taken=row.taken,
        )
        for part in found.parts
        for row in part.rows
        if query.host in {"", part.host}
        and query.term in {"", row.term}
        and query.holder in {"", row.holder}
        and query.place in {"", row.place}
        and has(query.q, part.host, row.term, row.holder, row.lease, row.group)
    ]  # fmt: skip
    shown, after = page(
        rows, lambda row: (row.host, row.term, row.holder, row.lease), after=query.after, limit=query.limit
    )
    return w.Shares(location=name, total=len(rows), next=after, not_asked=found.unheard, shares=shown)

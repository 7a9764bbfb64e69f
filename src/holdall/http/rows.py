"""Rows as HTTP tells them: joined of what the node lists, filtered, in a fixed order, page by page."""

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from holdall.http.problems import Problem
from holdall.http.words import NodeShown, PoolSummary, Totals, UnitShown
from holdall.model import frames
from holdall.model.why import Why

Row = TypeVar("Row")


def pool_id(pool: frames.PoolRow) -> str:
    """As `gpu,model=a100@lab-1`."""
    labels = "".join(f",{key}={value}" for key, value in sorted(pool.labels.items()))
    return f"{pool.pool}{labels}@{pool.node}"


def pools_of(parts: Iterable[frames.Listing]) -> dict[str, PoolSummary]:
    """By id; a pool with very many units comes in several rows with the same numbers."""
    found: dict[str, PoolSummary] = {}
    for part in parts:
        for row in part.pools:
            name = pool_id(row)
            if name not in found:
                found[name] = PoolSummary(
                    name, row.pool, row.node, row.labels, row.reach, row.state,
                    row.total, row.free, row.held, row.unusable, row.waiting,
                )  # fmt: skip
    return found


def units_of(
    pools: Iterable[frames.Listing], leases: Iterable[frames.Listing], *, pool: str = "", node: str = ""
) -> list[UnitShown]:
    """All units, or those of this pool or node, with the leases that have them."""
    known = {view.lease: view for part in leases for view in part.leases}
    return [
        _unit(row, unit, known.get(unit.lease))
        for part in pools
        for row in part.pools
        if pool in {"", row.pool} and node in {"", row.node}
        for unit in row.units
    ]


def _unit(row: frames.PoolRow, unit: frames.UnitRow, lease: frames.LeaseView | None) -> UnitShown:
    return UnitShown(
        id=f"{row.pool}/{unit.unit}@{row.node}",
        pool=row.pool,
        node=row.node,
        labels=row.labels,
        unit=unit.unit,
        state=unit.state,
        fence=unit.fence,
        lease=unit.lease,
        holder=unit.holder,
        reason="" if lease is None else lease.reason,
        since_ms=None if lease is None else lease.since_ms,
        until_ms=None if lease is None else lease.until_ms,
        expires_ms=None if lease is None else lease.expires_ms,
        renewing=None if lease is None else lease.renewing,
        note=unit.note,
        party=unit.party,
    )


def nodes_of(parts: Sequence[frames.Listing]) -> dict[str, NodeShown]:
    """By name: the one that answers first."""
    found: dict[str, NodeShown] = {}
    for part in parts:
        for row in part.nodes:
            found[row.node] = NodeShown(
                node=row.node, id="", here=True, state=row.state, address=row.address, location=row.location, silent_ms=0,
                pools=row.pools, version=row.version, units=row.units, leases=row.leases, waiting=row.waiting,
                quarantine_ms=row.quarantine_ms, since_ms=row.since_ms,
            )  # fmt: skip
        for known in part.known:
            found[known.node] = NodeShown(
                node=known.node, id=known.id, here=False, state=known.state, address=known.address,
                location=known.location, silent_ms=known.silent_ms, pools=known.pools, version=known.version,
            )  # fmt: skip
    return found


def totals_of(
    pools: Iterable[PoolSummary],
    leases: Sequence[frames.LeaseView],
    waiting: Sequence[Why],
    nodes: Iterable[NodeShown],
    *,
    now_ms: int,
) -> Totals:
    """Sums over the system."""
    listed = list(pools)
    since = [why.since_ms for why in waiting if why.since_ms]
    return Totals(
        pools=len(listed),
        units=sum(pool.total for pool in listed),
        free=sum(pool.free for pool in listed),
        held=sum(pool.held for pool in listed),
        unusable=sum(pool.unusable for pool in listed),
        leases=len(leases),
        waiting=len(waiting),
        longest_wait_ms=max(0, now_ms - min(since)) if since else 0,
        silent=sum(1 for node in nodes if node.state == "silent"),
    )


def not_asked(*listings: Sequence[frames.Listing]) -> tuple[frames.NotAsked, ...]:
    """Nodes that have no part, each once."""
    return tuple(sorted({one for parts in listings for part in parts for one in part.not_asked}))


def page(
    rows: list[Row],
    order: Callable[[Row], tuple[object, ...]],
    *,
    after: str,
    limit: int,
    newest_first: bool = False,
) -> tuple[tuple[Row, ...], str | None]:
    """One page, and the `after` of the next; None after the last. Raises Problem for an `after` that is none of ours."""
    rows.sort(key=order, reverse=newest_first)
    if after:
        mark = _read_mark(after)
        kept = [row for row in rows if (_comes_after(order(row), mark, newest_first=newest_first))]
    else:
        kept = rows
    shown = tuple(kept[:limit])
    return shown, _mark(order(shown[-1])) if len(kept) > limit else None


def _comes_after(key: tuple[object, ...], mark: tuple[object, ...], *, newest_first: bool) -> bool:
    try:
        return key < mark if newest_first else key > mark
    except TypeError:
        raise Problem("bad-spec", "after is the mark of another listing") from None


def _mark(key: tuple[object, ...]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def _read_mark(after: str) -> tuple[object, ...]:
    try:
        data = base64.b64decode(after + "=" * (-len(after) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(data, type=tuple[int | str, ...])
    except (binascii.Error, ValueError, RecursionError):
        raise Problem("bad-spec", "after is no mark of a page: take `next` of the page before") from None


def has(text: str, *places: str) -> bool:
    """Whether `text` is in one of these, whatever its case."""
    wanted = text.casefold()
    return not wanted or any(wanted in place.casefold() for place in places)

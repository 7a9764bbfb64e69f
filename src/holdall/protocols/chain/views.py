"""Read-only answers about one manager's rows: who waits where, for whom, and how often it may still be passed.

For listings; nothing here is called while a message is handled. Source: chain specification, section 3.
"""

import msgspec

from holdall.protocols.chain.rows import Row, is_limit_pool
from holdall.protocols.chain.settling import Settler
from holdall.protocols.vocabulary import ClaimId, Stamp, Vector


class InTheWay(msgspec.Struct, frozen=True):
    """A claim that another one waits for at a pool: it has units there, or it is older and waits."""

    claim: ClaimId
    pool: str
    units: int
    """In use, or wanted when it waits."""
    waiting: bool


class PoolView(msgspec.Struct, frozen=True):
    """One pool of a waiting claim."""

    pool: str
    wanted: int
    """The most that one of its alternatives wants; "all" as of now."""
    capacity: int
    free: int
    kept_aside: int
    """Free, but kept for older claims that must not be passed any more."""
    blocked: bool
    limit: bool = False
    """A limit of the holder on this pool, not the pool itself."""


class RowView(msgspec.Struct, frozen=True):
    """One claim at one node."""

    claim: ClaimId
    attempt: int
    active: bool
    last: bool
    """Whether this node decides; False: it goes on to further nodes from here."""
    stamp: Stamp
    position: int
    """1 = next. Older waiting claims that want one of its pools, plus one; 0 when it does not wait."""
    waiting: int
    """Claims that wait for one of its pools, this one included; 0 when it does not wait."""
    ahead: int
    """a: older ones that waited here when it came."""
    left: int
    bound: int
    overtaken: int
    parked: bool
    """Held up by a limit of its own holder; it keeps nothing back from others."""
    vector: Vector
    """Units in use when active."""
    pools: tuple[PoolView, ...] = ()
    blockers: tuple[InTheWay, ...] = ()
    """Those with units first, then older waiting ones; at most as many as were asked for."""
    blockers_more: int = 0


def row_view(manager: Settler, claim: ClaimId, *, blockers_most: int = 8) -> RowView | None:
    """What is known of a claim here; None when it has no row."""
    row = manager.rows.get(claim)
    if row is None:
        return None
    if row.active:
        return _view(manager, row, 0, 0, (), (), 0)
    names = [pool for pool, _ in row.most]
    position = 1 + manager.counts.older_waiting(names, row.age)
    in_way, total = _blockers(manager, row, blockers_most)
    return _view(
        manager,
        row,
        position,
        manager.counts.all_waiting(names),
        tuple(_pool_view(manager, row, pool) for pool in names),
        tuple(in_way),
        total - len(in_way),
    )


def waiting_claims(manager: Settler) -> list[ClaimId]:
    """All claims that wait here, oldest first."""
    return [
        row.claim
        for row in sorted((row for row in manager.rows.values() if not row.active), key=lambda row: row.age)
    ]


def _view(
    manager: Settler,
    row: Row,
    position: int,
    waiting: int,
    pools: tuple[PoolView, ...],
    blockers: tuple[InTheWay, ...],
    more: int,
) -> RowView:
    return RowView(
        row.claim,
        row.attempt,
        row.active,
        row.last,
        row.stamp,
        position,
        waiting,
        row.ahead,
        row.left,
        row.bound,
        row.overtaken,
        row.claim in manager.counts.parked,
        row.vector,
        pools,
        blockers,
        more,
    )


def _pool_view(manager: Settler, row: Row, pool: str) -> PoolView:
    counts = manager.counts
    free = max(counts.free(pool), 0)
    return PoolView(
        pool,
        counts.wanted(row, pool),
        counts.capacity(pool),
        free,
        min(counts.kept_for_spent(pool, row.age, free), free),
        counts.blocked(row, pool),
        is_limit_pool(pool),
    )


def _blockers(manager: Settler, row: Row, most: int) -> tuple[list[InTheWay], int]:
    """The first of them, and how many there are."""
    counts = manager.counts
    blocked = [pool for pool, _ in row.most if counts.blocked(row, pool)]
    if row.claim in counts.parked:
        blocked = [pool for pool in blocked if is_limit_pool(pool)]
    using = [
        InTheWay(claim, pool, units, waiting=False)
        for claim in counts.active_at(blocked)
        for pool, units in manager.rows[claim].vector
        if pool in blocked
    ]
    older = [
        InTheWay(age[1], pool, counts.wanted(manager.rows[age[1]], pool), waiting=True)
        for pool in blocked
        for age in counts.in_front(pool, row.age)[: max(most - len(using), 0)]
    ]
    total = len(using) + sum(counts.older_waiting((pool,), row.age) for pool in blocked)
    return (using + older)[:most], total

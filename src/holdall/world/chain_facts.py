"""What properties of the chain are judged by: a node's rows, and what a turn's change of them means.

Source: chain specification, section 4 (books, invariant I1) and section 8 (the meter of overtaking).
"""

import msgspec

from holdall.protocols.chain.rows import Mem, Row
from holdall.protocols.vocabulary import ClaimId
from holdall.world.clients import Overtaken, Waits


class NodeFacts(msgspec.Struct, frozen=True, cache_hash=True):
    """What a node knows: everything that properties look at."""

    node: str
    epoch: int
    rows: tuple[Row, ...]
    mems: tuple[tuple[ClaimId, Mem], ...]
    buried: tuple[tuple[ClaimId, int], ...]
    capacity: tuple[tuple[str, int], ...]


def used(facts: NodeFacts) -> dict[str, int]:
    """Pool -> units of active rows."""
    use: dict[str, int] = {}
    for row in facts.rows:
        if row.active:
            for pool, units in row.vector:
                use[pool] = use.get(pool, 0) + units
    return use


def stands_on(row: Row, nodes: dict[str, NodeFacts]) -> bool:
    """Invariant I1 for one row at a later node, as far as the node before still knows the claim."""
    visit = row.need[row.index - 1]
    before = nodes.get(visit.node)
    if before is None:
        return True  # that node is gone for ever
    if before.epoch != visit.epoch or dict(before.buried).get(row.claim, 0) >= row.attempt:
        return True  # that node has lost all it had, or the claim is ending
    if any(claim == row.claim and mem.attempt > row.attempt for claim, mem in before.mems):
        return True  # a later attempt has ended this one there
    return any(
        other.claim == row.claim and (other.attempt > row.attempt or (other.active and other.n == row.pn))
        for other in before.rows
    )


def _is_try(row: Row) -> bool:
    return row.stamp.clock == 0


def waits(before: NodeFacts, after: NodeFacts) -> list[Waits]:
    """Rows that came in this turn and wait or may have to wait again, with those in front of them."""
    known = {(row.claim, row.attempt) for row in before.rows}
    found: list[Waits] = []
    for row in after.rows:
        if (row.active and row.last) or (row.claim, row.attempt) in known:
            continue
        pools = {pool for pool, _ in row.most}
        ahead = sum(
            1
            for other in before.rows
            if not other.active and other.age < row.age and pools & {pool for pool, _ in other.most}
        )
        found.append(Waits(after.node, row.claim, row.attempt, ahead))
    return found


def overtaken(before: NodeFacts, after: NodeFacts) -> list[Overtaken]:
    """For each row that became active: the older waiting ones that it took something from."""
    active_before = {(row.claim, row.attempt, row.n) for row in before.rows if row.active}
    waiting = sorted((row for row in after.rows if not row.active), key=lambda row: row.age)
    capacity, use = dict(after.capacity), used(after)
    found: list[Overtaken] = []
    for row in after.rows:
        if not row.active or (row.claim, row.attempt, row.n) in active_before:
            continue
        for place, other in enumerate(waiting):
            if not _is_try(row) and row.age < other.age:
                break
            keep = _kept(waiting[: place + 1])
            shared = {pool for pool, _ in row.vector} & {pool for pool, _ in other.most}
            if any(use[pool] + keep[pool] > capacity.get(pool, 0) for pool in shared):
                found.append(Overtaken(after.node, other.claim, other.attempt))
    return found


def _kept(rows: list[Row]) -> dict[str, int]:
    keep: dict[str, int] = {}
    for row in rows:
        for pool, units in row.most:
            keep[pool] = keep.get(pool, 0) + units
    return keep

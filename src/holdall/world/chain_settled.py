"""Whether a node's turn has settled everything, judged by its rows alone with the plainest reading of the rules.

The shipped manager looks only at rows whose pools have changed; here every waiting row is looked at. Source: chain
specification, 2.3 (passed, blocked) and 2.4 (scan, wound).
"""

from collections.abc import Iterable, Mapping, Sequence

from holdall.protocols.chain.rows import Killing, Row
from holdall.protocols.vocabulary import Vector


def unsettled(node: str, rows: Sequence[Row], capacity: Mapping[str, int]) -> str:
    """A waiting row that could start, or an active one that should have been called back; empty: neither."""
    use = _sums(row.vector for row in rows if row.active)
    line = sorted((row for row in rows if not row.active), key=lambda row: row.age)
    for place, row in enumerate(line):
        if any(_may_take(row, vector, line[:place], use, capacity) for vector in row.wants):
            return f"settled: {row.claim} waits at {node} and could start"
    for active in rows:
        if active.active and not active.last and active.kill is Killing.NO:
            for place, row in enumerate(line):
                if row.age < active.age and _stands_before(active, row, line[:place], use, capacity):
                    return (
                        f"settled: {active.claim} at {node} stands in the way of {row.claim}, not called back"
                    )
    return ""


def _sums(vectors: Iterable[Vector]) -> dict[str, int]:
    total: dict[str, int] = {}
    for vector in vectors:
        for pool, units in vector:
            total[pool] = total.get(pool, 0) + units
    return total


def _may_take(
    row: Row, vector: Vector, front: Sequence[Row], use: Mapping[str, int], capacity: Mapping[str, int]
) -> bool:
    if any(use.get(pool, 0) + units > capacity.get(pool, 0) for pool, units in vector):
        return False
    passed = [
        other
        for place, other in enumerate(front)
        if _is_passed(other, vector, front[: place + 1], use, capacity)
    ]
    return not passed or (row.last and all(other.left > 0 for other in passed))


def _is_passed(
    row: Row, vector: Vector, up_to: Sequence[Row], use: Mapping[str, int], capacity: Mapping[str, int]
) -> bool:
    """Definition 2.3: `vector` takes something that the row, or one in front of it, will need."""
    keep, wants = _sums(other.most for other in up_to), dict(row.most)
    return any(
        pool in wants and use.get(pool, 0) + units + keep.get(pool, 0) > capacity.get(pool, 0)
        for pool, units in vector
    )


def _stands_before(
    active: Row, row: Row, front: Sequence[Row], use: Mapping[str, int], capacity: Mapping[str, int]
) -> bool:
    keep, taken = _sums(other.most for other in front), dict(active.vector)
    return any(
        pool in taken and use.get(pool, 0) + units + keep.get(pool, 0) > capacity.get(pool, 0)
        for pool, units in row.most
    )

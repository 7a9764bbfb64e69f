"""Putting needs on pools so that overlapping needs get distinct units: a flow from needs to places, each bounded."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Spot: TypeAlias = tuple[str, str]
"""(node, pool id): where units are."""
Spread: TypeAlias = tuple[tuple[int, Spot, int], ...]
"""(index of the need, spot, units > 0), ascending."""


def spread(
    amounts: Sequence[int], reachable: Sequence[Sequence[Spot]], bound: Mapping[Spot, int]
) -> Spread | None:
    """Each need's units on its spots within `bound`, earlier ones moved where that makes room; None: impossible.

    A need fills its spots in their order, so what stands first is used first.
    """
    given: list[dict[Spot, int]] = [{} for _ in amounts]
    left = dict(bound)
    for need, amount in enumerate(amounts):
        missing = amount
        while missing:
            path = _room(need, reachable, given, left)
            if path is None:
                return None
            missing -= _push(need, path, missing, given, left)
    return tuple(
        (need, spot, count) for need, row in enumerate(given) for spot, count in sorted(row.items()) if count
    )


def first_short(
    amounts: Sequence[int], reachable: Sequence[Sequence[Spot]], bound: Mapping[Spot, int]
) -> int:
    """The first need that can't be served beside those before it."""
    for need in range(len(amounts)):
        if spread(amounts[: need + 1], reachable, bound) is None:
            return need
    return len(amounts) - 1


def _room(
    need: int,
    reachable: Sequence[Sequence[Spot]],
    given: Sequence[Mapping[Spot, int]],
    left: Mapping[Spot, int],
) -> list[tuple[Spot, int]] | None:
    """A chain (spot, need that moves on from there), …, (spot with room, -1): breadth first, so a shortest one."""
    came: dict[Spot, tuple[Spot, int] | None] = dict.fromkeys(reachable[need])
    queue = list(reachable[need])
    moved = {need}
    for spot in queue:
        if left.get(spot, 0) > 0:
            path: list[tuple[Spot, int]] = [(spot, -1)]
            step = came[spot]
            while step is not None:
                path.append(step)
                step = came[step[0]]
            return path[::-1]
        for other, row in enumerate(given):
            if other not in moved and row.get(spot, 0) > 0:
                moved.add(other)
                for further in reachable[other]:
                    if further not in came:
                        came[further] = (spot, other)
                        queue.append(further)
    return None


def _push(
    need: int,
    path: Sequence[tuple[Spot, int]],
    missing: int,
    given: Sequence[dict[Spot, int]],
    left: dict[Spot, int],
) -> int:
    """Move as many units along the chain as fit; returns how many."""
    amount = min(missing, left[path[-1][0]])
    for spot, other in path[:-1]:
        amount = min(amount, given[other][spot])
    mover = need
    for spot, other in path:
        given[mover][spot] = given[mover].get(spot, 0) + amount
        if other >= 0:
            given[other][spot] -= amount
            mover = other
    left[path[-1][0]] -= amount
    return amount

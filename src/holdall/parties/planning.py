"""From needs to places: which pools can serve a claim on this node, in which order of preference.

A claim's needs are put on pools so that overlapping needs get distinct units: a flow from needs to pools, each pool
bounded by the units it has. What can't be put on the units that exist (those in quarantine, cooling down or draining
counted as existing) can never be granted and is refused with the facts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

import msgspec

from holdall.model.frames import Need, Selector
from holdall.model.names import NEEDS_MAX, is_name, pool_id
from holdall.model.spec import ALL_COUNT
from holdall.parties.records import Share
from holdall.protocols.vocabulary import ALL, Vector

VECTORS_MAX = 4
"""Alternatives of one claim on one node."""
COMBINATIONS_MAX = 64
"""Combinations of `--or` alternatives that are looked at, preferred ones first."""
UNITS_MAX = 256
"""Units of one lease: more fit into no frame."""


class PoolFacts(msgspec.Struct, frozen=True):
    """What planning knows of a pool: units that exist, and units that can be given now."""

    pool: str
    name: str
    labels: tuple[tuple[str, str], ...]
    total: int
    free: int


class Placement(msgspec.Struct, frozen=True):
    """Up to four ways to serve all needs here, preferred first, and who gets what in each."""

    vectors: tuple[Vector, ...]
    shares: tuple[tuple[Share, ...], ...]
    narrow: bool
    """More ways exist, so it is worth planning again when units come free."""


class Unplaceable(msgspec.Struct, frozen=True):
    """The first combination of alternatives that can't be served, and the need that can't."""

    need: int
    selector: Selector
    matching: tuple[PoolFacts, ...]
    overlap: bool
    """True: each need alone could be served, but not all with distinct units."""


def readable(needs: Sequence[Need]) -> bool:
    """Whether these are needs at all: 1 to 32, each with alternatives that name pools."""
    return 0 < len(needs) <= NEEDS_MAX and all(
        need.options and all(option.pools and all(map(is_name, option.pools)) for option in need.options)
        for need in needs
    )


def matching(selector: Selector, pools: Iterable[PoolFacts], node: str) -> list[PoolFacts]:
    """The pools of this node that a SPEC names, in the order in which it names them, then by pool id."""
    if selector.node and selector.node != node:
        return []
    wanted = dict(selector.labels)
    found = [
        facts
        for facts in pools
        if facts.name in selector.pools and wanted.items() <= dict(facts.labels).items()
    ]
    return sorted(found, key=lambda facts: (selector.pools.index(facts.name), facts.pool))


def place(
    needs: Sequence[Need], pools: Sequence[PoolFacts], node: str, *, allow_future: bool = False
) -> Placement | Unplaceable:
    """Where a claim can be served on this node.

    With `allow_future` a need that can't be served now is put on pools that may come: the ones that match, or one
    of the name that was asked for.
    """
    ways: list[tuple[Share, ...]] = []
    seen: set[Vector] = set()
    failed: Unplaceable | None = None
    more = False
    for combination in _combinations(needs):
        found = _serve(combination, pools, node)
        if isinstance(found, Unplaceable):
            failed = failed or found
            continue
        for shares in found.ways:
            vector = vector_of(shares)
            if vector not in seen:
                seen.add(vector)
                ways.append(shares)
        more = more or found.more
    if not ways and failed is not None:
        if not allow_future:
            return failed
        first = next(_combinations(needs))
        ways, more = [_hope(first, pools, node)], True
    chosen = _preferred(ways, {facts.pool: facts.free for facts in pools})
    return Placement(
        vectors=tuple(vector_of(shares) for shares in chosen),
        shares=tuple(chosen),
        narrow=more or len(ways) > len(chosen),
    )


def vector_of(shares: Iterable[Share]) -> Vector:
    """The sums, pool by pool. A pool that one need wants whole is wanted whole."""
    sums: dict[str, int] = {}
    for share in shares:
        sums[share.pool] = ALL if share.count == ALL else sums.get(share.pool, 0) + share.count
    return tuple(sorted(sums.items()))


def free_now(vector: Vector, free: Mapping[str, int]) -> bool:
    """Whether so many units are free (of a pool that is wanted whole: one)."""
    return all(free.get(pool, 0) >= max(count, 1) for pool, count in vector)


class _Ways(msgspec.Struct):
    ways: list[tuple[Share, ...]]
    more: bool


def _combinations(needs: Sequence[Need]) -> Iterator[tuple[Selector, ...]]:
    """All choices among the needs' alternatives; the one with all first alternatives first."""
    return islice(product(*(need.options for need in needs)), COMBINATIONS_MAX)


def _serve(combination: Sequence[Selector], pools: Sequence[PoolFacts], node: str) -> _Ways | Unplaceable:
    found = [matching(selector, pools, node) for selector in combination]
    total = {facts.pool: facts.total for facts in pools}
    free = {facts.pool: facts.free for facts in pools}
    whole: list[Share] = []
    for index, selector in enumerate(combination):
        if selector.count == ALL_COUNT:
            existing = [facts for facts in found[index] if facts.total]
            if not existing or any(not total[facts.pool] for facts in existing):
                return _unplaceable(index, combination, found, overlap=bool(existing))
            for facts in existing:
                whole.append(Share(index, facts.pool, ALL))
                total[facts.pool] = free[facts.pool] = 0
    amounts = [0 if selector.count == ALL_COUNT else selector.count for selector in combination]
    reachable = [[facts.pool for facts in row] for row in found]
    ways: list[tuple[Share, ...]] = []
    for order, bound in _orders(reachable, free, total):
        flow = _flow(amounts, order, bound)
        if flow is not None:
            ways.append((*whole, *flow))
    if not ways:
        return _unplaceable(_short(amounts, reachable, total), combination, found, overlap=False)
    return _Ways(ways, _may_be_more(amounts, reachable, total))


def _orders(
    reachable: Sequence[Sequence[str]], free: Mapping[str, int], total: Mapping[str, int]
) -> Iterator[tuple[list[list[str]], Mapping[str, int]]]:
    """Ways to spread needs over their pools: first what is free, then each pool preferred in turn, freest first."""
    by_free = [sorted(row, key=lambda pool: -free[pool]) for row in reachable]
    yield by_free, free
    for shift in range(min(VECTORS_MAX, max(map(len, by_free), default=1))):
        yield [row[shift % len(row) :] + row[: shift % len(row)] if row else row for row in by_free], total


def _may_be_more(
    amounts: Sequence[int], reachable: Sequence[Sequence[str]], total: Mapping[str, int]
) -> bool:
    """Whether needs could be spread in more ways than `_orders` tries."""
    choices = [
        (amount, sum(1 for pool in row if total[pool]))
        for amount, row in zip(amounts, reachable, strict=True)
        if amount
    ]
    flexible = [(amount, pools) for amount, pools in choices if pools > 1]
    if len(flexible) == 1 and flexible[0][0] == 1:
        return flexible[0][1] > VECTORS_MAX
    return bool(flexible)


def _flow(
    amounts: Sequence[int], reachable: Sequence[Sequence[str]], bound: Mapping[str, int]
) -> tuple[Share, ...] | None:
    """Put each need's units on its pools within `bound`, moving earlier ones where that makes room; None: impossible."""
    given: list[dict[str, int]] = [{} for _ in amounts]
    left = dict(bound)
    for need, amount in enumerate(amounts):
        missing = amount
        while missing:
            path = _room(need, reachable, given, left)
            if path is None:
                return None
            missing -= _push(need, path, missing, given, left)
    return tuple(
        Share(need, pool, count)
        for need, row in enumerate(given)
        for pool, count in sorted(row.items())
        if count
    )


def _room(
    need: int, reachable: Sequence[Sequence[str]], given: Sequence[Mapping[str, int]], left: Mapping[str, int]
) -> list[tuple[str, int]] | None:
    """A chain (pool, need that moves on from there), …, (pool with room, -1): breadth first, so a shortest one."""
    came: dict[str, tuple[str, int] | None] = dict.fromkeys(reachable[need])
    queue = list(reachable[need])
    for pool in queue:
        if left.get(pool, 0) > 0:
            path: list[tuple[str, int]] = [(pool, -1)]
            step = came[pool]
            while step is not None:
                path.append(step)
                step = came[step[0]]
            return path[::-1]
        for other, row in enumerate(given):
            if row.get(pool, 0) > 0:
                for further in reachable[other]:
                    if further not in came:
                        came[further] = (pool, other)
                        queue.append(further)
    return None


def _push(
    need: int,
    path: Sequence[tuple[str, int]],
    missing: int,
    given: Sequence[dict[str, int]],
    left: dict[str, int],
) -> int:
    """Move as many units along the chain as fit; returns how many."""
    amount = min(missing, left[path[-1][0]])
    for pool, other in path[:-1]:
        amount = min(amount, given[other][pool])
    mover = need
    for pool, other in path:
        given[mover][pool] = given[mover].get(pool, 0) + amount
        if other >= 0:
            given[other][pool] -= amount
            mover = other
    left[path[-1][0]] -= amount
    return amount


def _short(amounts: Sequence[int], reachable: Sequence[Sequence[str]], total: Mapping[str, int]) -> int:
    """The first need that can't be served beside those before it."""
    for need in range(len(amounts)):
        if _flow(amounts[: need + 1], reachable, total) is None:
            return need
    return len(amounts) - 1


def _unplaceable(
    need: int, combination: Sequence[Selector], found: Sequence[Sequence[PoolFacts]], *, overlap: bool
) -> Unplaceable:
    selector = combination[need]
    exist = sum(facts.total for facts in found[need])
    fits_alone = exist >= max(1, selector.count)
    return Unplaceable(need, selector, tuple(found[need]), overlap=overlap or fits_alone)


def _hope(combination: Sequence[Selector], pools: Sequence[PoolFacts], node: str) -> tuple[Share, ...]:
    """All of a need on its largest matching pool, or on the pool that its SPEC would name."""
    shares: list[Share] = []
    for index, selector in enumerate(combination):
        found = matching(selector, pools, node)
        best = max(found, key=lambda facts: facts.total, default=None)
        name = next((pool for pool in selector.pools if is_name(pool)), selector.pools[0])
        pool = pool_id(name, dict(selector.labels)) if best is None else best.pool
        shares.append(Share(index, pool, ALL if selector.count == ALL_COUNT else selector.count))
    return tuple(shares)


def _preferred(ways: Sequence[tuple[Share, ...]], free: Mapping[str, int]) -> list[tuple[Share, ...]]:
    """At most four; a combination that is asked for first stays first, else one that is free now."""
    if len(ways) <= VECTORS_MAX:
        return list(ways)
    ready = [shares for shares in ways if free_now(vector_of(shares), free)]
    rest = [shares for shares in ways if shares not in ready]
    return [*ready, *rest][:VECTORS_MAX]

"""Ways to serve one choice of SPECs with the pools of one node or of several, and why there is none."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

import msgspec

from holdall.model.frames import Need, Selector
from holdall.model.spec import ALL_COUNT
from holdall.parties.planning.spreading import Spot, first_short, spread
from holdall.parties.records import Share, Way
from holdall.protocols.vocabulary import ALL, Vector

VECTORS_MAX = 4
"""Alternatives of one claim on one node."""
COMBINATIONS_MAX = 64
"""Combinations of `--or` alternatives that are looked at, preferred ones first."""
MODES_MAX = 8
"""Choices of needs that go to pools of reach `host` here or to pools of reach `system` anywhere."""


class PoolFacts(msgspec.Struct, frozen=True):
    """What planning knows of a pool: units that exist, and units that can be given now."""

    pool: str
    name: str
    labels: tuple[tuple[str, str], ...]
    total: int
    free: int
    node: str = ""
    """Its node's id,"""
    at: str = ""
    """and what people call it."""
    host_only: bool = False
    """`reach = "host"`: useful only for what runs on its node."""
    tier: int = 0
    """0: its node serves; 1: it is in quarantine, so it gives units later; 2: draining, silent or stopped."""

    @property
    def spot(self) -> Spot:
        """Where that is."""
        return (self.node, self.pool)


class Unplaceable(msgspec.Struct, frozen=True):
    """The first combination of alternatives that can't be served, and the need that can't."""

    need: int
    selector: Selector
    matching: tuple[PoolFacts, ...]
    overlap: bool = False
    """Each need alone could be served, but not all with distinct units."""
    apart: bool = False
    """Units enough exist, but not on one node, and pools of reach `host` are among them."""
    elsewhere: tuple[PoolFacts, ...] = ()
    """Pools of reach `host` on other nodes that would match."""


class Ways(msgspec.Struct, frozen=True):
    """Ways to serve one combination, preferred first."""

    ways: tuple[Way, ...]
    more: bool
    """Needs could be spread in further ways."""


def matching(selector: Selector, pools: Iterable[PoolFacts]) -> list[PoolFacts]:
    """The pools that a SPEC names, in the order in which it names them, then by node and pool id."""
    wanted = dict(selector.labels).items()
    found = [
        facts
        for facts in pools
        if facts.name in selector.pools
        and selector.node in {"", facts.at}
        and wanted <= dict(facts.labels).items()
    ]
    return sorted(found, key=lambda facts: (selector.pools.index(facts.name), facts.node, facts.pool))


def combinations(needs: Sequence[Need]) -> Iterator[tuple[Selector, ...]]:
    """All choices among the needs' alternatives; the one with all first alternatives first."""
    return islice(product(*(need.options for need in needs)), COMBINATIONS_MAX)


def vector_of(shares: Iterable[Share]) -> Vector:
    """The sums, pool by pool, of shares on one node. A pool that one need wants whole is wanted whole."""
    sums: dict[str, int] = {}
    for share in shares:
        sums[share.pool] = ALL if share.count == ALL else sums.get(share.pool, 0) + share.count
    return tuple(sorted(sums.items()))


def vectors_of(way: Way) -> tuple[tuple[str, Vector], ...]:
    """(node, vector) of a way, nodes ascending."""
    nodes = sorted({share.node for share in way})
    if len(nodes) == 1:
        return ((nodes[0], vector_of(way)),)
    return tuple((node, vector_of(share for share in way if share.node == node)) for node in nodes)


def free_now(vector: Vector, free: Mapping[str, int]) -> bool:
    """Whether so many units of one node's pools are free (of a pool that is wanted whole: one)."""
    return all(free.get(pool, 0) >= max(count, 1) for pool, count in vector)


def is_free(way: Way, free: Mapping[Spot, int]) -> bool:
    """Whether so many units are free (of a pool that is wanted whole: one)."""
    return all(
        free.get((node, pool), 0) >= max(count, 1)
        for node, vector in vectors_of(way)
        for pool, count in vector
    )


def serve(
    combination: Sequence[Selector],
    pools: Sequence[PoolFacts],
    own: str,
    rank: Mapping[str, int],
    *,
    free_only: bool = False,
) -> Ways | Unplaceable:
    """Spread the needs over these pools; nodes of low `rank` are filled first.

    A need that uses a pool of reach `host` (all of those are on the node `own`) stays on that node. `free_only`: with
    units that are free now, or not at all.
    """
    found = [matching(selector, pools) for selector in combination]
    total = {facts.spot: facts.total for facts in pools}
    free = {facts.spot: facts.free for facts in pools}
    whole: list[Share] = []
    for index, selector in enumerate(combination):
        if selector.count == ALL_COUNT:
            existing = [facts for facts in found[index] if facts.total]
            if not existing or any(not total[facts.spot] for facts in existing):
                return _unplaceable(index, combination, found, own, overlap=bool(existing))
            for facts in existing:
                if free_only and not facts.free:
                    return Ways((), more=True)
                whole.append(Share(index, facts.node, facts.pool, ALL))
                total[facts.spot] = free[facts.spot] = 0
    amounts = [selector.count for selector in combination]  # `all` counts 0
    ways: list[Way] = []
    more = False
    for rows in _modes(combination, found, own):
        reachable = [[facts.spot for facts in row] for row in rows]
        for order, bound in _orders(reachable, free, total, rank, free_only=free_only):
            flow = spread(amounts, order, bound)
            if flow is not None:
                ways.append((*whole, *(Share(need, *spot, count) for need, spot, count in flow)))
                if all(len(row) <= 1 for row in order):
                    break  # there is no other way
        more = more or _may_be_more(amounts, reachable, total)
    if not ways and not free_only:
        split = [index for index in range(len(found)) if _is_apart(combination[index], found[index], own)]
        short = first_short(amounts, [[facts.spot for facts in row] for row in found], total)
        return _unplaceable(min([*split[:1], short]), combination, found, own, overlap=False)
    return Ways(tuple(dict.fromkeys(ways)), more)


def _modes(
    combination: Sequence[Selector], found: Sequence[Sequence[PoolFacts]], own: str
) -> Iterator[list[Sequence[PoolFacts]]]:
    """Which pools each need may use together.

    One that may use a pool of reach `host` is served wholly on this node, or wholly by pools of reach `system`.
    """
    choices: list[list[Sequence[PoolFacts]]] = []
    for selector, row in zip(combination, found, strict=True):
        mixed = any(facts.host_only for facts in row) and any(facts.node != own for facts in row)
        if not mixed or selector.count == ALL_COUNT:
            choices.append([row])
        else:
            here = [facts for facts in row if facts.node == own]
            choices.append([here, [facts for facts in row if not facts.host_only]])
    yield from (list(rows) for rows in islice(product(*choices), MODES_MAX))


def _orders(
    reachable: Sequence[Sequence[Spot]],
    free: Mapping[Spot, int],
    total: Mapping[Spot, int],
    rank: Mapping[str, int],
    *,
    free_only: bool,
) -> Iterator[tuple[list[list[Spot]], Mapping[Spot, int]]]:
    """Orders of filling: first what is free, then each spot preferred in turn; nodes by rank, their pools freest first."""
    by_free = [sorted(row, key=lambda spot: (rank.get(spot[0], 0), -free[spot])) for row in reachable]
    yield by_free, free
    if free_only:
        return
    for shift in range(min(VECTORS_MAX, max(map(len, by_free), default=1))):
        yield [row[shift % len(row) :] + row[: shift % len(row)] if row else row for row in by_free], total


def _may_be_more(
    amounts: Sequence[int], reachable: Sequence[Sequence[Spot]], total: Mapping[Spot, int]
) -> bool:
    """Whether needs could be spread in more ways than `_orders` tries."""
    choices = [
        (amount, sum(1 for spot in row if total[spot]))
        for amount, row in zip(amounts, reachable, strict=True)
        if amount
    ]
    flexible = [(amount, spots) for amount, spots in choices if spots > 1]
    if len(flexible) == 1 and flexible[0][0] == 1:
        return flexible[0][1] > VECTORS_MAX
    return bool(flexible)


def _unplaceable(
    need: int,
    combination: Sequence[Selector],
    found: Sequence[Sequence[PoolFacts]],
    own: str,
    *,
    overlap: bool,
) -> Unplaceable:
    selector, row = combination[need], found[need]
    fits = sum(facts.total for facts in row) >= max(1, selector.count)
    apart = _is_apart(selector, row, own)
    return Unplaceable(need, selector, tuple(row), overlap=(overlap or fits) and not apart, apart=apart)


def _is_apart(selector: Selector, row: Sequence[PoolFacts], own: str) -> bool:
    """Whether there are units enough, but some only for this node and too few of the others."""
    wanted = max(1, selector.count)
    here = sum(facts.total for facts in row if facts.node == own)
    anywhere = sum(facts.total for facts in row if not facts.host_only)
    return sum(facts.total for facts in row) >= wanted > max(here, anywhere)

"""From needs to places: which pools of which nodes can serve a claim, in which order of preference.

A claim's needs are put on pools so that overlapping needs get distinct units (`spreading`). What can't be put on the
units that exist (those in quarantine, cooling down, draining or of silent nodes counted as existing) can never be
granted and is refused with the facts. What is known of other nodes may be stale: the nodes decide.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from holdall.model.frames import Need, Selector
from holdall.model.names import NEEDS_MAX, POOLS_MAX, is_name, pool_id
from holdall.model.spec import ALL_COUNT
from holdall.parties.planning.spreading import Spot
from holdall.parties.planning.ways import (
    VECTORS_MAX,
    PoolFacts,
    Unplaceable,
    Ways,
    combinations,
    is_free,
    matching,
    serve,
    vectors_of,
)
from holdall.parties.records import Share, Way
from holdall.protocols.vocabulary import ALL, Vector

NOWHERE = ""
"""As a claim's own node: its command runs on the host of none."""
PLACEMENTS_MAX = 4
"""Places of one claim that are asked at a time; one at each node at most, and one over several nodes."""
NODES_LOOKED_AT = 16
"""Nodes that are tried as the only one of a claim, those with most free units first."""
UNITS_MAX = 256
"""Units of one lease: more fit into no frame."""

Asking: TypeAlias = tuple[tuple[str, tuple[Vector, ...]], ...]
"""One placement: (node, alternatives there), nodes ascending."""


class Placement(msgspec.Struct, frozen=True):
    """Ways to serve all needs, to be asked for together; preferred first, those on one node together."""

    ways: tuple[Way, ...]
    narrow: bool
    """More ways exist, so it is worth planning again when units come free or when it takes long."""
    ready: int | None = None
    """By what is known, units for one of them are free now: for which choice of alternatives, the first ones being 0."""


def within(placed: Placement, *, one: bool, pools_max: int | None) -> Placement | None:
    """What the protocol can serve of it: ways over at most so many pools, and with `one` the first of them only.

    None: it can serve none.
    """
    ways = [way for way in placed.ways if pools_max is None or len(way) <= pools_max]
    if not ways:
        return None
    kept = tuple(ways[:1] if one else ways)
    ready = placed.ready if kept == placed.ways else None
    return Placement(kept, narrow=placed.narrow or len(kept) < len(placed.ways), ready=ready)


class _Place(msgspec.Struct, frozen=True):
    """One node, or several that serve a claim together: its ways, with the combination that each serves."""

    ways: tuple[tuple[int, Way], ...]
    ready: int | None
    """The first combination that units are free for now."""
    more: bool = False

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(share.node for share in self.ways[0][1])


def readable(needs: Sequence[Need]) -> bool:
    """Whether these are needs at all: 1 to 32, each with alternatives that name pools."""
    return 0 < len(needs) <= NEEDS_MAX and all(
        need.options and all(option.pools and all(map(is_name, option.pools)) for option in need.options)
        for need in needs
    )


def place(
    needs: Sequence[Need],
    pools: Sequence[PoolFacts],
    own: str,
    *,
    allow_future: bool = False,
    wide: bool = False,
    now: bool = False,
    untold: bool = False,
) -> Placement | Unplaceable:
    """Where a claim of the node `own` can be served.

    The one place whose units are free now, if there is one; else, and if `wide`, up to four places. Nodes that don't
    serve now are used only where no others can serve the claim. `now`: the claim does not wait, so only one placement over
    several nodes is tried, as two would take units from each other. With `allow_future` a need that can't be served is put
    on pools that may come: the ones that match, or one of the name that was asked for; that one on the own node, unless
    other nodes are `untold`, of whose pools nothing is known yet.
    """
    near = [facts for facts in pools if facts.node == own or not facts.host_only]
    tiers = sorted({facts.tier for facts in near}) or [0]
    failed: Unplaceable | None = None
    for tier in tiers:
        found = _place(
            [facts for facts in near if facts.tier <= tier],
            needs,
            own,
            wide=wide,
            turns=1 if now else PLACEMENTS_MAX,
        )
        if isinstance(found, Placement):
            return found if tier == tiers[-1] else msgspec.structs.replace(found, narrow=True)
        failed = found
    if failed is None:
        raise AssertionError("no tier was tried")
    if allow_future:
        return Placement((_hope(next(combinations(needs)), near, "" if untold else own),), narrow=True)
    far = [facts for facts in pools if facts.node != own and facts.host_only]
    return msgspec.structs.replace(failed, elsewhere=tuple(matching(failed.selector, far)))


def size_of(way: Way, total: Mapping[Spot, int]) -> tuple[int, int]:
    """(units, pools) of a lease of this way; of a pool that is wanted whole all that exist."""
    units = sum(
        total.get((share.node, share.pool), 1) if share.count == ALL else share.count for share in way
    )
    return units, len({(share.node, share.pool) for share in way})


def fits_a_lease(way: Way, total: Mapping[Spot, int]) -> bool:
    """Whether one lease may be so large."""
    units, pools = size_of(way, total)
    return units <= UNITS_MAX and pools <= POOLS_MAX


def placements(ways: Iterable[Way]) -> tuple[Asking, ...]:
    """What is asked for: a node's ways are alternatives there, each way over several nodes stands by itself."""
    single: dict[str, dict[Vector, None]] = {}
    found: list[Asking | str] = []
    for way in ways:
        parts = vectors_of(way)
        if len(parts) > 1:
            found.append(tuple((node, (vector,)) for node, vector in parts))
            continue
        for node, vector in parts:
            if node not in single:
                single[node] = {}
                found.append(node)
            single[node][vector] = None
    return tuple(((one, tuple(single[one])),) if isinstance(one, str) else one for one in found)


def place_number(ways: Sequence[Way], chosen: Way) -> int:
    """Which of the claim's placements serves this way, as the claimant numbers them.

    Its place among `placements`; those over several nodes take turns in the place of the first of them.
    """
    if len(ways) == 1:
        return 0
    asked = placements(ways)
    nodes = tuple(node for node, _ in vectors_of(chosen))
    if len(nodes) > 1:
        return next(number for number, one in enumerate(asked) if len(one) > 1)
    return next(number for number, one in enumerate(asked) if tuple(node for node, _ in one) == nodes)


def _place(
    pools: Sequence[PoolFacts], needs: Sequence[Need], own: str, *, wide: bool, turns: int
) -> Placement | Unplaceable:
    by_node: dict[str, list[PoolFacts]] = {}
    for facts in pools:
        by_node.setdefault(facts.node, []).append(facts)
    free = {node: sum(one.free for one in here) for node, here in by_node.items()}
    # Of equal ones those that come next after the own id: so that not all nodes think of the same one first.
    nodes = sorted(by_node, key=lambda node: (node != own, -free[node], node < own, node))
    places: list[_Place] = []
    failed: Unplaceable | None = None
    more = len(nodes) > NODES_LOOKED_AT
    whole = [option for need in needs for option in need.options if option.count == ALL_COUNT]
    for node in nodes[:NODES_LOOKED_AT]:
        others = [facts for facts in pools if facts.node != node] if whole else []
        found = _on_one(needs, by_node[node], own, others)
        if isinstance(found, _Place):
            places.append(found)
            if found.ready == 0 and (not wide or len(places) == PLACEMENTS_MAX):
                more = node != nodes[-1]
                break
        elif len(nodes) == 1:
            failed = found
    if len(nodes) != 1 and not any(one.ready == 0 for one in places):
        over, failed = _over_several(needs, pools, own, nodes, free_only=bool(places))
        places += over
    if not places:
        if failed is None:
            raise AssertionError("nothing was found, and nothing failed")
        return failed
    return _chosen(places, own, wide=wide, turns=turns, more=more)


def _on_one(
    needs: Sequence[Need], pools: Sequence[PoolFacts], own: str, others: Sequence[PoolFacts]
) -> _Place | Unplaceable | None:
    """Up to four ways on the one node that these pools are of; None: `all` means those of `others`, too."""
    free = {facts.spot: facts.free for facts in pools}
    ways: dict[Vector, tuple[int, Way]] = {}
    failed: Unplaceable | None = None
    more = False
    for number, combination in enumerate(combinations(needs)):
        if any(
            facts.total
            for selector in combination
            if selector.count == ALL_COUNT
            for facts in matching(selector, others)
        ):
            continue
        found = serve(combination, pools, own, {})
        if isinstance(found, Unplaceable):
            failed = failed or found
            continue
        for way in found.ways:
            ways.setdefault(vectors_of(way)[0][1], (number, way))
        more = more or found.more
    if not ways:
        return failed
    ready = [number for number, way in ways.values() if is_free(way, free)]
    chosen = _preferred(list(ways.values()), free)
    return _Place(tuple(chosen), min(ready, default=None), more or len(ways) > len(chosen))


def _over_several(
    needs: Sequence[Need], pools: Sequence[PoolFacts], own: str, nodes: Sequence[str], *, free_only: bool
) -> tuple[list[_Place], Unplaceable | None]:
    """Up to four placements over several nodes; what fails first when there is none."""
    free = {facts.spot: facts.free for facts in pools}
    wanted = [name for need in needs for name in need.options[0].pools]
    there: dict[str, set[str]] = {node: set() for node in nodes}
    for facts in pools:
        there[facts.node].add(facts.name)
    # Few nodes: those that have most of what is asked for come first.
    order = sorted(nodes, key=lambda node: (node != own, -sum(name in there[node] for name in wanted)))
    rank = {node: number for number, node in enumerate(order)}
    places: dict[tuple[tuple[str, Vector], ...], _Place] = {}
    failed: Unplaceable | None = None
    for number, combination in enumerate(combinations(needs)):
        found: Ways | Unplaceable = serve(combination, pools, own, rank, free_only=free_only)
        if isinstance(found, Unplaceable):
            failed = failed or found
            continue
        for way in found.ways:
            parts = vectors_of(way)
            if len(parts) > 1:
                ready = number if is_free(way, free) else None
                places.setdefault(parts, _Place(((number, way),), ready, found.more))
    return list(places.values()), failed


def _chosen(places: Sequence[_Place], own: str, *, wide: bool, turns: int, more: bool) -> Placement:
    """What is asked: one place that is ready, or up to four at distinct nodes; the own node's comes first.

    When all are over several nodes, `turns` of them take turns.
    """
    order = sorted(
        range(len(places)),
        key=lambda index: (places[index].ready is None, places[index].ready or 0, index),
    )
    best = [places[index] for index in order]
    if not wide and best[0].ready is not None and len(best[0].nodes) == 1:
        chosen = best[:1]
    elif all(len(one.nodes) > 1 for one in best):
        chosen = best[:turns]
    else:
        chosen = best[:1] if not wide and best[0].ready is not None else _apart(best)
        chosen.sort(key=lambda one: one.nodes != frozenset({own}))
    return Placement(
        ways=tuple(way for one in chosen for _, way in one.ways),
        narrow=more or len(chosen) < len(places) or any(one.more for one in chosen),
        ready=best[0].ready,
    )


def _apart(best: Sequence[_Place]) -> list[_Place]:
    """At most four, one at each node, one of them over several nodes."""
    chosen: list[_Place] = []
    taken: set[str] = set()
    for one in best:
        over_several = len(one.nodes) > 1 and any(len(other.nodes) > 1 for other in chosen)
        if len(chosen) < PLACEMENTS_MAX and not over_several and taken.isdisjoint(one.nodes):
            chosen.append(one)
            taken |= one.nodes
    return chosen


def _hope(combination: Sequence[Selector], pools: Sequence[PoolFacts], own: str) -> Way:
    """All of a need on its largest matching pool, or on the pool of this node that its SPEC would name.

    Not on a node that nothing is known of, and not on several nodes, some of whose units it would hold meanwhile:
    such a way has no node and stands in no line.
    """
    shares: list[Share] = []
    for index, selector in enumerate(combination):
        found = matching(selector, pools)
        best = max(found, key=lambda facts: (facts.total, facts.node == own), default=None)
        name = next((pool for pool in selector.pools if is_name(pool)), selector.pools[0])
        spot: Spot = (own, pool_id(name, dict(selector.labels))) if best is None else best.spot
        if best is None and selector.node:
            at = next((facts.node for facts in pools if facts.at == selector.node), "")
            spot = (at, spot[1])
        shares.append(Share(index, *spot, ALL if selector.count == ALL_COUNT else selector.count))
    if len({share.node for share in shares}) == 1:
        return tuple(shares)
    return tuple(Share(share.need, "", share.pool, share.count) for share in shares)


def _preferred(ways: Sequence[tuple[int, Way]], free: dict[Spot, int]) -> list[tuple[int, Way]]:
    """At most four; a combination that is asked for first stays first, else one that is free now."""
    if len(ways) <= VECTORS_MAX:
        return list(ways)
    ready = [one for one in ways if is_free(one[1], free)]
    rest = [one for one in ways if one not in ready]
    return [*ready, *rest][:VECTORS_MAX]

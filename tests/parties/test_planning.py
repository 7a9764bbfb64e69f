"""Needs on pools: which placements there are, in which order, and what can never be."""

from collections.abc import Collection, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.model.spec import parse_needs
from holdall.parties.planning.places import Placement, place, place_number, placements
from holdall.parties.planning.ways import PoolFacts, Unplaceable, vector_of
from holdall.protocols.vocabulary import ALL, Vector


def facts(
    name: str,
    total: int,
    free: int | None = None,
    *,
    node: str = "n0",
    host_only: bool = False,
    tier: int = 0,
    **labels: str,
) -> PoolFacts:
    text = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    pool = f"{name}{{{text}}}" if text else name
    return PoolFacts(
        pool,
        name,
        tuple(sorted(labels.items())),
        total,
        total if free is None else free,
        node=node,
        at=node.replace("n", "lab-"),
        host_only=host_only,
        tier=tier,
    )


def placing(specs: list[str], *pools: PoolFacts, **wishes: bool) -> Placement:
    needs = parse_needs([spec.split(" or ") if " or " in spec else spec for spec in specs])
    placed = place(needs, pools, "n0", **wishes)
    assert isinstance(placed, Placement), placed
    return placed


def vectors_at(placed: Placement) -> list[Vector]:
    """Of a placement that is on one node."""
    return [vector_of(way) for way in placed.ways]


def vectors(specs: list[str], *pools: PoolFacts) -> list[dict[str, int]]:
    found = vectors_at(placing(specs, *pools))
    assert len(found) <= 4
    return [dict(vector) for vector in found]


def test_one_pool_one_vector() -> None:
    assert vectors(["gpu:2", "psu:1"], facts("gpu", 4), facts("psu", 1)) == [{"gpu": 2, "psu": 1}]


def test_needs_of_one_pool_are_added_up() -> None:
    assert vectors(["gpu:2", "gpu:1"], facts("gpu", 4)) == [{"gpu": 3}]


def test_free_pools_come_first_and_placements_beyond_are_remembered() -> None:
    pools = (facts("b1", 1, 0), facts("b2", 1, 1), facts("b3", 1, 1))
    placed = placing(["b1+b2+b3:2"], *pools)
    assert vectors_at(placed)[0] == (("b2", 1), ("b3", 1))
    assert placed.narrow


def test_all_is_the_whole_of_each_pool_that_matches() -> None:
    assert vectors(["gpu:all"], facts("gpu", 2, model="a"), facts("gpu", 3, model="b")) == [
        {"gpu{model=a}": ALL, "gpu{model=b}": ALL}
    ]


def test_an_alternative_is_another_vector_in_the_order_of_preference() -> None:
    pools = (facts("gpu", 1, model="h100"), facts("gpu", 2, model="a100"))
    assert vectors(["gpu,model=h100 or gpu,model=a100:2"], *pools) == [
        {"gpu{model=h100}": 1},
        {"gpu{model=a100}": 2},
    ]
    # an alternative that can never be is left out
    assert vectors(["gpu,model=h100:2 or gpu,model=a100:2"], *pools) == [{"gpu{model=a100}": 2}]


@pytest.mark.parametrize(
    ("specs", "need", "overlap"),
    [
        (["gpu:5"], 0, False),
        (["psu:1", "gpu:5"], 1, False),
        (["gpu:3", "gpu:2"], 1, True),
        (["gpu:all", "gpu:1"], 1, True),
        (["gpu:all", "gpu:all"], 1, True),
        (["laser:1"], 0, False),
        (["gpu,@n9:1"], 0, False),
    ],
)
def test_what_can_never_be_names_the_need(specs: list[str], need: int, overlap: bool) -> None:
    found = place(parse_needs(specs), (facts("gpu", 4), facts("psu", 1)), "n0")
    assert isinstance(found, Unplaceable)
    assert (found.need, found.overlap) == (need, overlap)


def test_what_may_come_is_hoped_for() -> None:
    pools = (facts("gpu", 1, model="a"),)
    placed = placing(["gpu,model=b:2", "gpu:4"], *pools, allow_future=True)
    assert dict(vectors_at(placed)[0]) == {"gpu{model=b}": 2, "gpu{model=a}": 4}
    assert placed.narrow


POOLS = ("a", "b", "c")


@settings(max_examples=200, deadline=None)
@given(
    totals=st.tuples(*(st.integers(0, 3) for _ in POOLS)),
    free=st.tuples(*(st.integers(0, 3) for _ in POOLS)),
    needs=st.lists(
        st.tuples(st.sets(st.sampled_from(POOLS), min_size=1), st.integers(1, 4)), min_size=1, max_size=3
    ),
)
def test_a_claim_is_placeable_exactly_when_some_distribution_exists(
    totals: tuple[int, ...], free: tuple[int, ...], needs: list[tuple[set[str], int]]
) -> None:
    pools = [
        facts(name, total, min(total, left)) for name, total, left in zip(POOLS, totals, free, strict=True)
    ]
    asked = parse_needs([f"{'+'.join(sorted(names))}:{count}" for names, count in needs])
    placed = place(asked, pools, "n0")
    assert isinstance(placed, Unplaceable) != exists(needs, dict(zip(POOLS, totals, strict=True)))
    if isinstance(placed, Unplaceable):
        return
    for shares in placed.ways:
        vector = vector_of(shares)
        for pool, count in vector:
            assert count == sum(share.count for share in shares if share.pool == pool)
            assert count <= totals[POOLS.index(pool)]
        for index, (names, count) in enumerate(needs):
            mine = [share for share in shares if share.need == index]
            assert sum(share.count for share in mine) == count
            assert {share.pool for share in mine} <= names
    now = {name: min(total, left) for name, total, left in zip(POOLS, totals, free, strict=True)}
    if exists(needs, now):
        assert any(all(count <= now[pool] for pool, count in vector) for vector in vectors_at(placed)), (
            "free now"
        )


def exists(needs: list[tuple[set[str], int]], bound: dict[str, int]) -> bool:
    """By trying every distribution."""
    choices: list[list[dict[str, int]]] = []
    for names, count in needs:
        pools = sorted(names)
        choices.append(
            [
                dict(zip(pools, split, strict=True))
                for split in product(range(count + 1), repeat=len(pools))
                if sum(split) == count
            ]
        )
    return any(
        all(sum(one.get(pool, 0) for one in combination) <= bound[pool] for pool in bound)
        for combination in product(*choices)
    )


def test_one_unit_of_few_pools_has_all_its_placements() -> None:
    pools = (facts("b1", 1, 0), facts("b2", 1, 1), facts("b3", 1, 0))
    placed = placing(["b1+b2+b3:1"], *pools)
    assert vectors_at(placed) == [(("b2", 1),), (("b1", 1),), (("b3", 1),)]
    assert not placed.narrow, "there is no other placement"


# ------------------------------------------------------------ over nodes


def nodes_of(placed: Placement) -> list[tuple[str, ...]]:
    """Of each placement its nodes, in the order in which they are numbered."""
    return [tuple(node for node, _ in asking) for asking in placements(placed.ways)]


def test_what_is_free_on_the_own_node_is_asked_for_there_alone() -> None:
    placed = placing(["gpu"], facts("gpu", 4, 1), facts("gpu", 4, 4, node="n1"))
    assert nodes_of(placed) == [("n0",)]
    assert placed.narrow, "should it wait after all, there is another place"
    assert placed.ready == 0


def test_what_is_free_elsewhere_is_asked_for_there_alone_at_first() -> None:
    pools = (facts("gpu", 4, 0), facts("gpu", 4, 1, node="n1"), facts("gpu", 4, 2, node="n2"))
    assert nodes_of(placing(["gpu"], *pools)) == [("n2",)]
    assert nodes_of(placing(["gpu"], *pools, wide=True)) == [("n0",), ("n2",), ("n1",)]


def test_when_nothing_is_free_four_places_are_asked_the_own_node_among_them() -> None:
    pools = [facts("gpu", 1, 0, node=f"n{number}") for number in (3, 1, 4, 0, 2, 5)]
    placed = placing(["gpu"], *pools)
    assert nodes_of(placed) == [("n0",), ("n1",), ("n2",), ("n3",)]
    assert placed.narrow


def test_an_alternative_that_is_free_waits_for_none_that_is_preferred_but_taken() -> None:
    pools = (facts("gpu", 1, 0, node="n1", model="h"), facts("gpu", 1, 1, node="n2", model="a"))
    assert nodes_of(placing(["gpu,model=h or gpu,model=a"], *pools)) == [("n2",)]
    free = (facts("gpu", 1, 1, model="a"), facts("gpu", 1, 1, node="n2", model="h"))
    assert nodes_of(placing(["gpu,model=h or gpu,model=a"], *free)) == [("n2",)], (
        "the preferred one is free there"
    )


def test_over_several_nodes_as_few_as_serve_and_others_take_turns() -> None:
    pools = [facts("gpu", 2, 2, node=f"n{number}") for number in range(4)]
    placed = placing(["gpu:3"], *pools)
    assert nodes_of(placed)[0] == ("n0", "n1")
    assert 1 < len(placed.ways) <= 4
    assert all(len(nodes) == 2 for nodes in nodes_of(placed))
    assert {place_number(placed.ways, way) for way in placed.ways} == {0}, "they take turns as one placement"
    assert len(placing(["gpu:3"], *pools, now=True).ways) == 1


def test_units_that_are_free_apart_are_asked_for_before_those_that_are_taken_together() -> None:
    pools = (facts("gpu", 2, 1, node="n1"), facts("gpu", 2, 1, node="n2"))
    assert nodes_of(placing(["gpu:2"], *pools)) == [("n1", "n2")]
    assert nodes_of(placing(["gpu:2"], *pools, wide=True)) == [("n1", "n2")], "one placement at each node"
    third = facts("gpu", 2, 0, node="n3")
    assert nodes_of(placing(["gpu:2"], *pools, third, wide=True)) == [("n1", "n2"), ("n3",)]


def test_nodes_that_give_nothing_now_are_used_only_without_others() -> None:
    away = facts("gpu", 4, 0, node="n1", tier=2)
    later = facts("gpu", 4, 0, node="n2", tier=1)
    serving = facts("gpu", 4, 0, node="n3")
    assert nodes_of(placing(["gpu"], away, later, serving)) == [("n3",)]
    assert nodes_of(placing(["gpu"], away, later)) == [("n2",)]
    assert nodes_of(placing(["gpu"], away)) == [("n1",)]
    assert placing(["gpu"], away, serving).narrow
    assert nodes_of(placing(["gpu:8"], away, later))[0] == ("n1", "n2"), "satisfiable, so it waits"


def test_all_of_pools_on_several_nodes_is_one_placement_over_them() -> None:
    pools = (facts("gpu", 2, node="n1"), facts("gpu", 3, node="n2"), facts("gpu", 0, node="n3"))
    placed = placing(["gpu:all"], *pools)
    assert nodes_of(placed) == [("n1", "n2")]
    assert {share.count for share in placed.ways[0]} == {ALL}


def test_a_pool_of_reach_host_serves_only_its_own_node() -> None:
    far = facts("gpu", 4, node="n1", host_only=True)
    found = place(parse_needs(["gpu"]), [far], "n0")
    assert isinstance(found, Unplaceable)
    assert found.elsewhere == (far,)
    assert nodes_of(placing(["gpu"], far, facts("gpu", 1, 0))) == [("n0",)]


def test_a_hope_over_several_nodes_stands_in_no_line() -> None:
    pools = (facts("gpu", 1, node="n1"), facts("psu", 1, node="n2"))
    placed = placing(["gpu:2", "psu:2"], *pools, allow_future=True)
    assert {share.node for share in placed.ways[0]} == {""}
    assert {share.node for share in placing(["gpu,@nowhere"], *pools, allow_future=True).ways[0]} == {""}


NODES = ("n0", "n1", "n2")


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_over_nodes_a_claim_is_placeable_exactly_when_some_distribution_exists(data: st.DataObject) -> None:
    number = st.integers(0, 2)
    pools = [
        facts(
            name,
            total := data.draw(number),
            min(total, data.draw(number)),
            node=node,
            host_only=data.draw(st.booleans()),
        )
        for node in NODES
        for name in ("a", "b")
    ]
    needs = data.draw(
        st.lists(
            st.tuples(st.sets(st.sampled_from(("a", "b")), min_size=1), st.integers(1, 3)),
            min_size=1,
            max_size=3,
        )
    )
    asked = parse_needs([f"{'+'.join(sorted(names))}:{count}" for names, count in needs])
    wide = data.draw(st.booleans())
    placed = place(asked, pools, "n0", wide=wide)
    totals = {one.spot: one.total for one in pools if one.node == "n0" or not one.host_only}
    host = {one.spot for one in pools if one.host_only and one.node == "n0"}
    assert isinstance(placed, Unplaceable) != can_be_served(needs, totals, host)
    if isinstance(placed, Unplaceable):
        return
    for way in placed.ways:
        for index, (names, count) in enumerate(needs):
            mine = [share for share in way if share.need == index]
            assert sum(share.count for share in mine) == count
            assert {share.pool for share in mine} <= names
            if any((share.node, share.pool) in host for share in mine):
                assert {share.node for share in mine} == {"n0"}, "one need on host pools stays on its node"
        for spot in {(share.node, share.pool) for share in way}:
            assert sum(share.count for share in way if (share.node, share.pool) == spot) <= totals[spot]
    groups = nodes_of(placed)
    assert len(groups) <= 4
    single = [nodes for nodes in groups if len(nodes) == 1]
    over = [nodes for nodes in groups if len(nodes) > 1]
    assert len(set(single)) == len(single)
    assert not (single and len(over) > 1), "one over several nodes at a time, unless all are"
    if single and over:
        assert set(over[0]).isdisjoint(nodes[0] for nodes in single), "one at each node"
    if ("n0",) in groups:
        assert groups[0] == ("n0",)
    free = {one.spot: one.free for one in pools if one.spot in totals}
    if can_be_served(needs, free, host) and not any(one.free < one.total for one in pools):
        assert placed.ready == 0


def can_be_served(
    needs: Sequence[tuple[Collection[str], int]],
    bound: dict[tuple[str, str], int],
    host: set[tuple[str, str]],
) -> bool:
    """By trying every distribution."""
    if not needs:
        return True
    (names, count), *rest = needs
    spots = [spot for spot in sorted(bound) if spot[1] in names]
    for split in product(range(count + 1), repeat=len(spots)):
        used = {spot: units for spot, units in zip(spots, split, strict=True) if units}
        if sum(split) != count or any(units > bound[spot] for spot, units in used.items()):
            continue
        if any(spot in host for spot in used) and any(node != "n0" for node, _ in used):
            continue
        if can_be_served(rest, {spot: units - used.get(spot, 0) for spot, units in bound.items()}, host):
            return True
    return False

"""Needs on pools: which placements there are, in which order, and what can never be."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.model.spec import parse_needs
from holdall.parties.planning import Placement, place
from holdall.parties.ways import PoolFacts, Unplaceable, vector_of
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

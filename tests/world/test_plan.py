"""Worlds and faults as people write them: what is read, and what is refused with a next step."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.world.faults import KINDS, budget, read_faults, spend, text_of
from holdall.world.named import named, places, vector, worlds
from holdall.world.plan import BadWorld, Place, PoolSize, checked, read_claim, read_pool, read_world


def test_a_world_of_pools_and_claims() -> None:
    world = read_world(["gpu@n1=2", "bench@n2=1"], ["gpu@n1:1,bench@n2", "gpu@n1:2"], repeat=3, passes=2)
    assert world.pools == (PoolSize("n1", "gpu", 2), PoolSize("n2", "bench", 1))
    first, second = world.claims
    assert first.need == (Place("n1", ((("gpu", 1),),)), Place("n2", ((("bench", 1),),)))
    assert second.need == (Place("n1", ((("gpu", 2),),)),)
    assert (first.host, second.host, first.repeat, world.passes) == ("c1", "c2", 3, 2)


def test_pools_of_one_node_are_one_visit_in_the_order_of_the_first() -> None:
    claim = read_claim("b@n2:1,a@n1:1,a@n2:2", 1)
    assert [place.node for place in claim.need] == ["n2", "n1"]
    assert claim.need[0].alternatives == ((("a", 2), ("b", 1)),)


@pytest.mark.parametrize(
    ("pools", "claims", "text"),
    [
        (["gpu@n1"], ["gpu@n1:1"], "POOL@NODE=UNITS"),
        (["gpu@n1=0"], ["gpu@n1:1"], "1 to 1000 units"),
        (["gpu@n1=" + "9" * 30], ["gpu@n1:1"], "1 to 1000 units"),
        (["gpu@n1=1", "gpu@n1=2"], ["gpu@n1:1"], "named twice"),
        (["gpu@n1=1"], [], "at least one claim"),
        (["gpu@n1=1"], ["gpu:1"], "POOL@NODE:COUNT"),
        (["gpu@n1=1"], ["gpu@n1:2"], "1 to 1 can be had"),
        (["gpu@n1=1"], ["gpu@n1:0"], "1 to 1 can be had"),
        (["gpu@n1=1"], ["tpu@n1:1"], "no pool of this world (gpu@n1)"),
        (["gpu@n1=1"], ["gpu@n1:1,gpu@n1:1"], "add the counts"),
        (["gpu@n1=1"], ["gpu@n1:1"] * 20, "needs a smaller world"),
    ],
)
def test_a_bad_world_is_refused_with_the_next_step(pools: list[str], claims: list[str], text: str) -> None:
    with pytest.raises(BadWorld, match=text.replace("(", r"\(").replace(")", r"\)")):
        read_world(pools, claims)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(BadWorld):
        read_pool(text)
    with suppress(BadWorld):
        read_faults(text)
    with suppress(BadWorld):
        read_claim(text, 1)
    with suppress(BadWorld):
        named(text)


def test_faults_are_budgets() -> None:
    left = read_faults("crash=1,loss=2")
    assert left == budget(crash=1, loss=2)
    assert text_of(left) == "crash=1,loss=2"
    assert spend(left, "loss") == budget(crash=1, loss=1)
    assert read_faults("") == budget()
    assert read_faults("cancel") == budget(cancel=1)
    assert len(set(KINDS)) == len(left)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("crsh=1", "no fault 'crsh'; the faults are crash"),
        ("crash=x", "write crash=NUMBER"),
        ("crash=-1", "write crash=NUMBER"),
        ("crash=99", "at most 9"),
        ("crash=1,crash=1", "named twice"),
    ],
)
def test_a_bad_fault_is_refused_with_the_next_step(text: str, says: str) -> None:
    with pytest.raises(BadWorld, match=says):
        read_faults(text)


def test_the_specifications_notation() -> None:
    assert vector("2a,b") == (("a", 2), ("b", 1))
    assert places("0:a|b->1") == (Place("n0", ((("a", 1),), (("b", 1),))), Place("n1", ((("a", 1),),)))


def test_every_named_world_is_sound_with_stamps_or_without() -> None:
    for name, world in worlds().items():
        assert world.name == name
        checked(world)
        oldest, youngest = named(f"{name}@oldest"), named(f"{name}@reversed")
        clocks = [claim.clock for claim in oldest.claims]
        assert clocks == list(range(1, len(clocks) + 1))
        assert [claim.clock for claim in youngest.claims] == clocks[::-1]


@pytest.mark.parametrize(("name", "says"), [("x9", "--world list"), ("x2@young", "x2@oldest")])
def test_an_unknown_world_is_refused_with_the_next_step(name: str, says: str) -> None:
    with pytest.raises(BadWorld, match=says):
        named(name)

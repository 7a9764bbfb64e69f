from typing import Any

import pytest

from holdall.simulator.workload import Client, Load, Wish, Workload


def wishes(workload: Workload, number: int, count: int, *, seed: int = 1) -> list[Wish]:
    client = Client(workload, number, seed)
    return [client.next() for _ in range(count)]


def test_a_client_draws_from_its_own_generator() -> None:
    workload = Workload()
    assert wishes(workload, 3, 50) == wishes(workload, 3, 50)
    assert wishes(workload, 3, 50) != wishes(workload, 4, 50)
    assert wishes(workload, 3, 50) != wishes(workload, 3, 50, seed=2)


def test_where_pools_lie_changes_no_draw() -> None:
    near, far = (
        [(wish.think, wish.hold, sorted(p for visit in wish.need for p in visit.alternatives[0])) for wish in some]
        for some in (wishes(Workload(nodes=1), 0, 50), wishes(Workload(nodes=8), 0, 50))
    )  # fmt: skip
    assert near == far


@pytest.mark.parametrize(
    ("load", "pools", "clients", "think"),
    [("low", 8, 8, 30), ("medium", 8, 16, 15), ("saturated", 8, 24, 1), ("saturated", 40, 120, 1)],
)
def test_loads_of_the_specification(load: Load, pools: int, clients: int, think: float) -> None:
    workload = Workload(pools=pools, load=load)
    assert (workload.client_count, workload.think_mean) == (clients, think)
    some = wishes(workload, 0, 4000)
    assert sum(wish.think for wish in some) / 4000 == pytest.approx(think, rel=0.05)
    assert sum(wish.hold for wish in some) / 4000 == pytest.approx(5, rel=0.05)


def test_long_holds_stretch_the_pauses() -> None:
    assert Workload(load="medium", hold=50).think_mean == 150


def test_nodes_are_visited_in_order_and_pools_lie_in_blocks() -> None:
    workload = Workload(pools=8, nodes=4, k=5)
    assert workload.pools_on("n001") == {"p002": 1, "p003": 1}
    assert workload.pools_on("c0000") == {}
    for wish in wishes(workload, 0, 100):
        names = [visit.node for visit in wish.need]
        assert names == sorted(set(names))
        for visit in wish.need:
            assert dict(visit.alternatives[0]).keys() <= workload.pools_on(visit.node).keys()
        assert sum(len(visit.alternatives[0]) for visit in wish.need) == 5


def test_claims_take_up_to_all_units_of_their_pools() -> None:
    counts = {
        n for wish in wishes(Workload(units=3), 0, 200) for v in wish.need for _, n in v.alternatives[0]
    }
    assert counts == {1, 2, 3}


def test_the_local_share_lies_on_one_node() -> None:
    workload = Workload(pools=40, nodes=4, local=0.8, k=3)
    local = sum(len(wish.need) == 1 for wish in wishes(workload, 0, 2000)) / 2000
    assert local == pytest.approx(0.8 + 0.2 * 0.05, abs=0.03)


def test_one_wide_claim_among_small_ones() -> None:
    workload = Workload(wide=True)
    assert all(len(wish.need[0].alternatives[0]) == 8 for wish in wishes(workload, 0, 20))
    assert all(len(wish.need[0].alternatives[0]) == 1 for wish in wishes(workload, 1, 20))


@pytest.mark.parametrize(
    "wrong", [{"pools": 0}, {"nodes": 9}, {"k": 9}, {"units": 0}, {"hold": 0}, {"pools": 500_000}]
)
def test_a_workload_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a workload needs"):
        Workload(**wrong)

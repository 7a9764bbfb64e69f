from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.simulator.workload import Client, Workload, load_workload, named_workload


def pools_of(workload: Workload, number: int, count: int = 30) -> set[tuple[int, ...]]:
    """The different sets of pools that a client claims."""
    client = Client(workload, number, 1)
    return {
        tuple(int(pool[1:]) for visit in client.next().need for pool, _ in visit.alternatives[0])
        for _ in range(count)
    }


def test_philosophers_on_a_ring_want_their_two_forks() -> None:
    ring = named_workload("ring-5-saturated")
    assert (ring.client_count, ring.think_mean, ring.nodes) == (5, 1, 5)
    assert [pools_of(ring, number) for number in range(5)] == [
        {(0, 1)}, {(1, 2)}, {(2, 3)}, {(3, 4)}, {(0, 4)},
    ]  # fmt: skip


def test_a_line_has_ends() -> None:
    line = named_workload("line-4-k2-low")
    assert line.client_count == 3
    assert [pools_of(line, number) for number in range(3)] == [{(0, 1)}, {(1, 2)}, {(2, 3)}]


def test_everybody_on_a_star_wants_the_hub_and_one_of_its_own() -> None:
    star = named_workload("star-4-medium")
    assert star.client_count == 3
    assert [pools_of(star, number) for number in range(3)] == [{(0, 1)}, {(0, 2)}, {(0, 3)}]


def test_the_hot_pool_is_in_its_share_of_the_claims_and_in_no_other() -> None:
    client = Client(named_workload("hot-8"), 3, 1)
    hot = [
        any(pool == "p000" for visit in client.next().need for pool, _ in visit.alternatives[0])
        for _ in range(2000)
    ]
    assert sum(hot) / 2000 == pytest.approx(0.5, abs=0.04)
    assert all(len(pools) == 2 for pools in pools_of(named_workload("hot-8"), 0))


def test_claims_of_one_to_three_pools_and_few_units() -> None:
    workload = Workload(pools=10, nodes=10, k=3, k_least=1, units=4, need_most=2)
    client = Client(workload, 0, 1)
    needs = [client.next().need for _ in range(300)]
    assert {len(need) for need in needs} == {1, 2, 3}
    assert {units for need in needs for visit in need for _, units in visit.alternatives[0]} == {1, 2}


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("random-8-medium", {"pools": 8, "nodes": 8}),
        ("random-40-k3-u2-n4-saturated", {"pools": 40, "nodes": 4, "k": 3, "units": 2, "load": "saturated"}),
        ("random-40-n4-local80", {"pools": 40, "nodes": 4, "local": 0.8}),
        ("wide-8-n1-low", {"pools": 8, "nodes": 1, "wide": True, "load": "low"}),
        ("ring-50-hold10-think100", {"pools": 50, "nodes": 50, "shape": "ring", "hold": 10, "think": 100}),
        ("random-8-c3", {"pools": 8, "nodes": 8, "clients": 3}),
    ],
)
def test_a_name_says_it_all(name: str, same: dict[str, Any]) -> None:
    assert named_workload(name) == Workload(**same)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "ring",
        "ring-",
        "ring-x",
        "square-8",
        "ring-8-busy",
        "ring-8-k9",
        "ring-0",
        "ring-8-k",
        "wide-8-local200",
    ],
)
def test_what_is_no_name_is_refused_with_the_grammar(wrong: str) -> None:
    with pytest.raises(ValueError, match="SHAPE-POOLS"):
        named_workload(wrong)


@given(st.text(alphabet="ringstahodmluk-0123456789wxé²", max_size=30))
def test_any_text_is_a_workload_or_refused(text: str) -> None:
    try:
        workload = named_workload(text)
    except ValueError:
        return
    assert workload.client_count >= 1


def test_a_file_has_the_fields_of_a_workload(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('shape = "star"\npools = 9\nnodes = 3\nhold = 2.5\n', encoding="utf-8")
    assert load_workload(str(file)) == Workload(shape="star", pools=9, nodes=3, hold=2.5)
    assert load_workload("star-9-n3") == Workload(shape="star", pools=9, nodes=3)


@pytest.mark.parametrize("text", ["pools = 0", "pool = 3", "pools = 'x'", "pools ="])
def test_a_wrong_file_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"mine\.toml"):
        load_workload(str(file))
    with pytest.raises(ValueError, match="can't read"):
        load_workload(str(tmp_path / "none.toml"))


def test_nodes_of_any_number_are_visited_in_the_order_of_their_names() -> None:
    workload = named_workload("ring-12000")
    assert list(workload.node_names()) == sorted(workload.node_names())
    assert workload.pools_on("n11999") == {"p11999": 1}
    assert Client(workload, 11999, 1).next().need[0].node == "n00000"

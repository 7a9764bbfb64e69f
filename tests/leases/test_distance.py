"""The closest proposal, exactly."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.leases.distance import Proposed, closest, distance, unmet
from holdall.model.terms import RequestedTerm, Value

SEED = {"ttl": RequestedTerm(2_000_000), "net.tx": RequestedTerm(51_200)}
WORKED = {
    "gpu": RequestedTerm(4, weight=3),
    "net.tx": RequestedTerm(1_000_000),
    "db": RequestedTerm(amount=True),
}
HOSTS: dict[str, dict[str, Value]] = {
    "h1": {"gpu": 3, "net.tx": 1_000_000, "db": True},
    "h2": {"gpu": 4, "net.tx": 200_000, "db": True},
    "h3": {"gpu": 4, "net.tx": 1_000_000},
    "h4": {"gpu": 4, "net.tx": 250_000, "db": True},
}


def shortfall(request: dict[str, RequestedTerm], terms: dict[str, Value]) -> Fraction | None:
    found = distance(request, Proposed("h", terms))
    return None if found is None else found.shortfall


def test_d1_two_hosts_of_the_seed() -> None:
    proposals = [
        Proposed("h1", {"ttl": 2_000_000, "net.tx": 15_360}),
        Proposed("h2", {"ttl": 2_000_000, "net.tx": 30_720}),
    ]
    assert [shortfall(SEED, dict(one.terms)) for one in proposals] == [Fraction(7, 10), Fraction(2, 5)]
    assert closest(SEED, proposals) == proposals[1]


def test_d1_three_terms_with_a_weight() -> None:
    found = [shortfall(WORKED, HOSTS[host]) for host in sorted(HOSTS)]
    assert found == [Fraction(3, 4), Fraction(4, 5), None, Fraction(3, 4)]
    assert unmet(WORKED, HOSTS["h3"]) == ("db",)


@pytest.mark.parametrize(
    ("h1", "h4", "winner"),
    [
        ((0, Fraction(1, 2)), (0, Fraction(1, 2)), "h1"),  # By name.
        ((0, Fraction(1, 3)), (0, Fraction(1, 2)), "h4"),  # More is left.
        ((-1, Fraction(1, 3)), (0, Fraction(1, 2)), "h1"),  # Rank comes before it.
        ((1, Fraction(1)), (0, Fraction(0)), "h4"),
    ],
)
def test_d1_a_tie_is_broken_in_order(h1: tuple[int, Fraction], h4: tuple[int, Fraction], winner: str) -> None:
    proposals = [Proposed("h1", HOSTS["h1"], *h1), Proposed("h4", HOSTS["h4"], *h4)]
    found = closest(WORKED, proposals)
    assert found is not None
    assert found.host == winner
    assert closest(WORKED, reversed(proposals)) == found


def test_a_floor_makes_a_proposal_invalid_and_excess_counts_where_marked() -> None:
    floored = {"net.tx": RequestedTerm(100, floor=50)}
    assert shortfall(floored, {"net.tx": 49}) is None
    assert shortfall(floored, {"net.tx": 50}) == Fraction(1, 2)
    marked = distance({"mem": RequestedTerm(100, exact=True, weight="3/2")}, Proposed("h", {"mem": 140}))
    assert marked is not None
    assert (marked.shortfall, marked.excess) == (Fraction(0), Fraction(3, 5))


def test_of_what_should_be_low_too_much_counts() -> None:
    request = {"delay": RequestedTerm(10, prefer="low")}
    assert shortfall(request, {"delay": 40}) == Fraction(3, 4)
    assert shortfall(request, {"delay": 5}) == 0


def test_a_function_is_not_there_because_one_unit_is() -> None:
    assert unmet({"db": RequestedTerm(amount=True)}, {"db": 1}) == ("db",)
    assert unmet({"db": RequestedTerm(1)}, {"db": True}) == ("db",)
    assert unmet({"arch": RequestedTerm("arm64")}, {"arch": "amd64"}) == ("arch",)
    assert unmet({"gpu": RequestedTerm(1)}, {"gpu": 0}) == ("gpu",)


AMOUNTS = st.integers(1, 50)


@given(AMOUNTS, AMOUNTS, st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=5), st.randoms())
def test_the_closest_is_nearest_whatever_the_order_and_the_units(
    gpu: int, net: int, given: list[tuple[int, int]], chance: object
) -> None:
    request = {"gpu": RequestedTerm(gpu, weight=2), "net.tx": RequestedTerm(net)}
    proposals = [
        Proposed(f"h{n}", {"gpu": min(gpu, a), "net.tx": min(net, b)}) for n, (a, b) in enumerate(given)
    ]
    found = closest(request, proposals)
    assert found is not None
    distances = [distance(request, one) for one in proposals]
    assert distance(request, found) == min(one for one in distances if one is not None)
    assert closest(request, sorted(proposals, key=lambda one: str(hash((one.host, chance))))) == found
    scaled = {"gpu": RequestedTerm(gpu, weight=2), "net.tx": RequestedTerm(net * 1024)}
    other = [
        Proposed(one.host, {"gpu": one.terms["gpu"], "net.tx": 1024 * int(one.terms["net.tx"])})
        for one in proposals
    ]
    again = closest(scaled, other)
    assert again is not None
    assert again.host == found.host

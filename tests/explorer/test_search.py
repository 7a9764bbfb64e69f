"""The search itself, on a lock server that is small enough to check by hand."""

import pytest
from explorer.lock_server import LockServer
from explorer.plain_search import PlainSearch

from holdall.explorer.search import Result, explore
from holdall.explorer.space import Space
from holdall.world.faults import budget
from holdall.world.named import world


def customers(count: int, rule: str = "") -> LockServer:
    return LockServer(world("lock", "a", ["0:a"] * count), rule)


def search(count: int, rule: str = "", faults: dict[str, int] | None = None) -> Result:
    return explore(Space(customers(count, rule), budget(**faults or {})))


def test_one_customer_has_seven_states() -> None:
    # idle, asked, given, inside, brought back, ended (the answer under way), over
    result = search(1)
    assert (result.states, result.transitions, result.complete) == (7, 6, True)
    assert not result.violations


@pytest.mark.parametrize(
    ("count", "faults"),
    [
        (1, {}),
        (2, {}),
        (3, {}),
        (2, {"loss": 1}),
        (2, {"duplicate": 1}),
        (2, {"cancel": 1}),
        (2, {"restart": 1}),
        (2, {"restart": 1, "loss": 1}),
    ],
)
def test_tables_find_exactly_the_states_of_a_plain_search(count: int, faults: dict[str, int]) -> None:
    result = search(count, faults=faults)
    assert result.complete
    assert not result.violations
    timers = any(faults.get(kind) for kind in ("loss", "duplicate", "restart"))
    assert result.states == PlainSearch(customers(count), budget(**faults), timers=timers).count()


def test_a_search_cut_at_a_number_of_states_says_so() -> None:
    result = explore(Space(customers(3), budget()), states_max=100)
    assert not result.complete
    assert not result.violations
    assert result.states >= 100


@pytest.mark.parametrize(
    ("rule", "faults", "name", "steps"),
    [
        ("wait", {}, "exclusion", 6),  # two claim, two are asked for and two are given
        ("save", {"crash": 1}, "exclusion", 7),  # given, forgotten, given again
        ("bury", {"duplicate": 1}, "row stays", 14),  # an old question arrives when all is over
    ],
)
def test_a_rule_left_out_is_found_on_a_shortest_path(
    rule: str, faults: dict[str, int], name: str, steps: int
) -> None:
    result = search(2, rule, faults)
    (violation,) = result.violations
    assert (violation.name, violation.steps) == (name, steps)


@pytest.mark.parametrize(
    "faults", [{"expiry": 1}, {"departure": 2}, {"crash": 1, "loss": 1}, {"expiry": 1, "crash": 1}]
)
def test_every_fault_leaves_a_way_to_be_served(faults: dict[str, int]) -> None:
    result = search(2, faults=faults)
    assert result.complete
    assert not result.violations

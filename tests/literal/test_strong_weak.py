"""The two-resource algorithm as printed: the rows of the strong-weak specification, section 2, that are traces."""

import pytest
from literal.found import Clean, Wrong, guided, params, search
from literal.walk import Whole, whole

from holdall.explorer.space import Space
from holdall.protocols.literal.strong_weak import StrongWeakRules
from holdall.world.faults import NONE
from holdall.world.literal.strong_weak import L1, L2, L5, L6, ROWS, StrongWeakSystem

STRONG_WEAK = "literal-strong-weak"

# Where the specification gives another number: L9 it follows to the deadlock, here the destroyed request ends the
# search; L11 it shows on a ring of three with two more clients, here the ring alone is enough.
WRONG = [
    Wrong("L1", "deadlock", 12),
    Wrong("L2", "two tokens", 5),
    Wrong("L5", "rmin", 6),
    Wrong("L6", "deadlock", 18),
    Wrong("L8", "nothing to move", 20),
    Wrong("L9", "destroyed", 18, specified=27),
    Wrong("L10", "rotated", 19),
    Wrong("L11", "ended by its client", 28),
]


@pytest.mark.parametrize("row", params(WRONG))
def test_the_explorer_finds_what_is_wrong(row: Wrong) -> None:
    (violation,) = search(STRONG_WEAK, row.world).violations
    assert (violation.name, violation.steps) == (row.property, row.steps)


# The specification has 405 states (978 before the repair, 124 of them doomed; here 357 and 30): it does not tell
# which blocks of the loop are one step of its model. Here a message and all flags that it raises are one.
@pytest.mark.parametrize("row", params([Clean("L6-repaired", 297)]))
def test_repaired_rows_are_complete_and_clean(row: Clean) -> None:
    result = search(STRONG_WEAK, row.world)
    assert (result.violations, result.complete, result.states) == ((), True, row.states)


def test_l7_a_correct_kill_and_then_nothing_more() -> None:
    # 26 steps in the specification, whose token passes by once; here the root keeps it.
    (violation,) = guided(STRONG_WEAK, "L7").violations
    assert (violation.name, violation.steps) == ("deadlock", 25)


def test_l7_the_search_finds_an_unserved_client_first() -> None:
    (violation,) = search(STRONG_WEAK, "L7").violations
    assert (violation.name, violation.steps) == ("ended by its client", 24)


def test_l12_two_clients_are_inside() -> None:
    # 37 and 43 steps in the specification, with three clients; two clients and two kills of one cycle are enough.
    (violation,) = guided(STRONG_WEAK, "L12").violations
    assert (violation.name, violation.steps) == ("exclusion", 28)


def test_l1_one_client_alone_has_no_run_that_ends() -> None:
    found = graph("L1", ROWS["L1"].rules)  # 20 states in the specification, all doomed as well
    assert found.states == found.hopeless == 13


def test_l6_dooms_a_part_of_the_states() -> None:
    found = graph("L6", L5)
    assert (found.states, found.hopeless) == (357, 30)
    assert dict(found.wrong) == {"deadlock": 4}


@pytest.mark.parametrize(
    ("world", "rules"), [("L1", L1), ("L2", L2), ("L6", L6)], ids=["done_target", "holder_sends", "ready_id"]
)
def test_its_repair_cures_a_row(world: str, rules: StrongWeakRules) -> None:
    found = graph(world, rules)
    assert (found.wrong.total(), found.hopeless) == (0, 0)


def test_l5_a_local_rmin_is_never_infinite_by_accident() -> None:
    assert "rmin" not in graph("L5", L5).wrong


def graph(world: str, rules: StrongWeakRules) -> Whole:
    row = ROWS[world]
    return whole(Space(StrongWeakSystem(row.world, rules, row.judged), NONE))

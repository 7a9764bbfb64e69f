"""The slotting protocol as printed: every row of the history of lanes, section 2, found or replayed."""

import msgspec
import pytest
from literal.found import Clean, Wrong, guided, params, search
from literal.walk import whole

from holdall.explorer.space import Space
from holdall.protocols.literal.lanes import PoolState
from holdall.world.faults import NONE
from holdall.world.literal.lanes import PROMISED, ROWS, TAKES, WITHDRAWS, LaneSystem

LANES = "literal-lanes"

# The same numbers of steps as in the history of lanes; P1 has none there.
WRONG = [
    Wrong("L1", "collision", 20),
    Wrong("L2", "deadlock", 24),
    Wrong("L3", "collision", 19),
    Wrong("L4", "collision", 20),
    Wrong("L5", "collision", 20),
    Wrong("L6", "deadlock", 24),
    Wrong("L7", "deadlock", 29),
    Wrong("L9", "not accepted", 18),
    Wrong("P1", "deadlock", 201),  # one claim, fifty rounds of two requests and two replies
    Wrong("P2", "deadlock", 16),
    Wrong("P3", "deadlock", 20),
]

# The history's model has 356,579 states for L8 and 22,452 for P4. The note has no release and no withdrawal, and how
# that model has them is not told: here unlocks are messages, and all pools hear of a withdrawal, as no reply names
# its sender. The shortest ways above are the same, so the printed steps are.
CLEAN = [Clean("L4-lucky", 1119), Clean("P4", 32212), Clean("L8", 538320)]


@pytest.mark.parametrize("row", params(WRONG))
def test_the_explorer_finds_what_is_wrong(row: Wrong) -> None:
    (violation,) = search(LANES, row.world).violations
    assert (violation.name, violation.steps) == (row.property, row.steps)


@pytest.mark.parametrize("row", params(CLEAN))
def test_repaired_rows_are_complete_and_clean(row: Clean) -> None:
    result = search(LANES, row.world)
    assert (result.violations, result.complete, result.states) == ((), True, row.states)


@pytest.mark.parametrize("name", ["LL", "LL-unique"])
def test_ll_each_outdates_the_other_on_a_fair_cycle(name: str) -> None:
    (violation,) = guided(LANES, name).violations
    assert (violation.name, violation.steps, violation.again) == ("livelock", 19, 16)


@pytest.mark.long
def test_ll_is_no_deadlock_within_two_rounds_somebody_can_always_be_served() -> None:
    row = ROWS["L2"]
    found = whole(Space(LaneSystem(row.world, WITHDRAWS, (0, 1)), NONE), most=400_000)
    assert (found.wrong.total(), found.hopeless) == (0, 0)


def test_l2_unique_pointers_never_collide_here_but_can_deadlock() -> None:
    found = whole(Space(LaneSystem(ROWS["L2"].world, ROWS["L2"].rules, (0, 1)), NONE))
    # The history counts 6,214 states, with another end of a claim.
    assert found.states == 6781
    assert dict(found.wrong) == {"deadlock": 12}


@pytest.mark.parametrize("name", ["L1", "L3", "L4", "L5"])
def test_an_index_that_is_taken_once_cures_every_collision(name: str) -> None:
    row = ROWS[name]
    found = whole(Space(LaneSystem(row.world, TAKES, row.pointers), NONE))
    assert set(found.wrong) <= {"deadlock"}


@pytest.mark.parametrize("name", ["L3", "L4"])
def test_with_all_repairs_these_worlds_are_clean(name: str) -> None:
    row = ROWS[name]
    found = whole(Space(LaneSystem(row.world, WITHDRAWS, row.pointers), NONE))
    assert (found.wrong.total(), found.hopeless) == (0, 0)


def test_p1_alone_no_pool_is_ever_written_in_fifty_rounds() -> None:
    row = ROWS["P1"]
    space = Space(LaneSystem(row.world, row.rules, row.pointers), NONE)
    found = whole(space)
    assert (found.states, found.hopeless) == (402, 402)
    pools = [host.parts["manager"].key() for table in space.tables[:2] for host in table.hosts]
    assert pools
    assert not any(pool.written for pool in pools if isinstance(pool, PoolState))


def test_p1_equal_pointers_are_all_that_it_needs() -> None:
    row = ROWS["P1"]
    found = whole(Space(LaneSystem(row.world, row.rules, (0, 0)), NONE))
    assert (found.wrong.total(), found.hopeless) == (0, 0)


def test_p3_is_cured_by_withdrawing_not_by_the_order_alone() -> None:
    row = ROWS["P3"]
    found = whole(Space(LaneSystem(row.world, PROMISED, row.pointers), NONE))
    assert set(found.wrong) == {"deadlock"}
    assert ROWS["P4"].rules == msgspec.structs.replace(PROMISED, withdraw=True)

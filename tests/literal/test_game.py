"""The game of tasks as printed: the traces of the game specification, section 3, found or replayed."""

import pytest
from literal.found import Clean, Wrong, guided, params, search

from holdall.explorer.search import explore
from holdall.explorer.space import Space
from holdall.world.faults import budget
from holdall.world.literal.game import ROWS, game_system

GAME = "literal-game"

# The specification gives no numbers of steps but for B1 (20-odd) and B6 (both are WINNING after four deliveries:
# here after two claims and four deliveries, and the second winning form arrives two deliveries later).
WRONG = [
    Wrong("B1", "no effect", 23, long=True),
    Wrong("B2", "deadlock", 20, long=True),
    Wrong("B3", "deadlock", 14),
    Wrong("B5", "no effect", 11),
    Wrong("B6", "no effect", 8),
    Wrong("B6-rest", "no effect", 12),
    Wrong("B8a", "deadlock", 25, long=True),
    Wrong("G9", "inconsistent", 4),
    Wrong("G10", "deadlock", 3),
    Wrong("G11", "deadlock", 18),
    Wrong("G12", "deadlock", 14),
    Wrong("G14", "inconsistent", 10),
]
CLEAN = [Clean("G21", 42), Clean("B7", 89004), Clean("B9", 88791), Clean("B3-printed", 265331)]


@pytest.mark.parametrize("row", params(WRONG))
def test_the_explorer_finds_what_is_wrong(row: Wrong) -> None:
    (violation,) = search(GAME, row.world).violations
    assert (violation.name, violation.steps) == (row.property, row.steps)


@pytest.mark.parametrize("row", params(CLEAN))
def test_rows_that_do_no_harm_are_complete_and_clean(row: Clean) -> None:
    result = search(GAME, row.world)
    assert (result.violations, result.complete, result.states) == ((), True, row.states)


@pytest.mark.parametrize(
    ("world", "name", "steps"),
    [("B1", "no effect", 23), ("B2", "deadlock", 20), ("B8a", "deadlock", 25)],
)
def test_long_ones_replay_step_by_step(world: str, name: str, steps: int) -> None:
    (violation,) = guided(GAME, world).violations
    assert (violation.name, violation.steps) == (name, steps)


def test_g16_alarms_that_ring_too_early_can_do_so_for_ever() -> None:
    (violation,) = guided(GAME, "G16").violations
    assert (violation.name, violation.steps, violation.again) == ("livelock", 76, 37)


def test_g21_a_task_that_is_given_up_stays_registered() -> None:
    space = Space(game_system(ROWS["G21"].world), budget(cancel=1))
    (violation,) = explore(space).violations
    assert (violation.name, violation.steps) == ("row stays", 4)


def test_every_row_is_told_and_tested() -> None:
    tested = {row.world for row in WRONG} | {row.world for row in CLEAN} | {"G16"}
    assert set(ROWS) == tested
    assert all(row.shows for row in ROWS.values())

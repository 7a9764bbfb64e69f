"""Lanes, searched exhaustively: every order of events, every fault, exact numbers of states; and their mutants."""

import pytest
from explorer.by_pool_rows import Run, check, small

from holdall.explorer.mutants.lanes import LANES_MUTANTS
from holdall.explorer.mutants.mutant import Mutant
from holdall.explorer.runs import lanes
from holdall.explorer.search import explore
from holdall.explorer.space import Space


@pytest.mark.parametrize("run", small(lanes.RUNS))
def test_lanes_are_safe_and_everybody_can_be_served(run: Run) -> None:
    check("lanes", run)


@pytest.mark.parametrize("run", small(lanes.LENDING))
def test_lanes_that_lend_are_safe_and_everybody_can_be_served(run: Run) -> None:
    check("lanes-lending", run)


@pytest.mark.parametrize("mutant", LANES_MUTANTS, ids=[mutant.name for mutant in LANES_MUTANTS])
def test_each_rule_is_missed_when_it_is_taken_away(mutant: Mutant) -> None:
    assert mutant.system is not None
    assert mutant.world is not None
    result = explore(Space(mutant.system(mutant.world()), mutant.budget(), timers=mutant.timers))
    assert result.violations
    assert result.violations[0].name in mutant.found_as

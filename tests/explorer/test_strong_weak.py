"""Strong/weak, searched exhaustively: every order of events, every fault, exact numbers of states (SW1, SW4, SW5, SW8)."""

import msgspec
import pytest
from explorer.by_pool_rows import Run, check, params
from explorer.strong_weak_runs import LONG_FROM, TABLES

from holdall.explorer.fair import explore_fairly
from holdall.explorer.mutants.mutant import Mutant
from holdall.explorer.mutants.strong_weak import STRONG_WEAK_MUTANTS
from holdall.explorer.search import explore
from holdall.explorer.space import Space
from holdall.explorer.systems import system_of, world_of
from holdall.world.faults import read_faults

ROWS = [row for name, table in TABLES.items() for row in params(table, LONG_FROM, name)]


@pytest.mark.parametrize(("name", "run"), ROWS)
def test_sw1_every_order_of_events_is_safe_and_everybody_can_be_served(name: str, run: Run) -> None:
    check(name, run)


@pytest.mark.parametrize("name", ["strong-weak-named", "strong-weak-probe", "strong-weak-probe-token"])
@pytest.mark.parametrize("world", ["opposite-ever", "chain3pairs"])
def test_no_fair_cycle_in_which_somebody_waits_for_ever(name: str, world: str) -> None:
    result = explore_fairly(Space(system_of(name, world_of(name, world)), read_faults("")))
    assert not result.violations
    assert result.complete


def test_enough_is_searched_every_time() -> None:
    for name, table in TABLES.items():
        assert len(set(map(str, table))) == len(table)
        if name != "strong-weak":
            assert sum(run.states for run in table if run.states <= LONG_FROM) >= 300_000


STEPS = {
    "wound": 8,
    "wound-younger": 11,
    "kill-granted": 12,
    "early-kill": 9,
    "killed-n": 14,
    "killed-frees": 10,
    "tombstones": 12,
    "try-ends": 18,
    "epoch-asked": 10,
    "quarantine": 9,
    "attempt": 8,
    "promote-unsaved": 13,
    "killed-unsaved": 11,
    "allowed-unsaved": 7,
    "probe": 8,
    "probe-kill-granted": 16,
}


@pytest.mark.parametrize("mutant", STRONG_WEAK_MUTANTS, ids=lambda mutant: mutant.name)
def test_each_rule_is_needed(mutant: Mutant) -> None:
    assert mutant.world is not None
    world = msgspec.structs.replace(mutant.world(), mutant=mutant.name)
    space = mutant.options().space(system_of(mutant.protocol, world), mutant.budget())
    result = explore_fairly(space) if mutant.name not in STEPS else explore(space)
    found = result.violations[0]
    assert found.name in mutant.found_as
    if mutant.name in STEPS:
        assert found.steps == STEPS[mutant.name]

"""The ring token, searched exhaustively: every order of events, every fault, exact numbers of states."""

import msgspec
import pytest
from explorer import token_runs
from explorer.by_pool_rows import Run, check, params
from explorer.token_runs import LONG_FROM

from holdall.explorer.mutants.mutant import Mutant
from holdall.explorer.mutants.token import TOKEN_MUTANTS
from holdall.explorer.search import explore
from holdall.explorer.space import Space
from holdall.explorer.systems import system_of


@pytest.mark.parametrize("run", params(token_runs.LIST, LONG_FROM))
def test_sw1_the_list_is_safe_and_everybody_can_be_served(run: Run) -> None:
    check("token", run)


@pytest.mark.parametrize("run", params(token_runs.TICKETS, LONG_FROM))
def test_sw1_the_tickets_are_safe_and_everybody_can_be_served(run: Run) -> None:
    check("token-tickets", run)


def test_enough_is_searched_every_time() -> None:
    for table in (token_runs.LIST, token_runs.TICKETS):
        assert len(set(map(str, table))) == len(table)
        assert sum(run.states for run in table if run.states <= LONG_FROM) >= 300_000


STEPS = {
    "rests-with-list": ("deadlock", 5),
    "call-kept": ("deadlock", 15),
    "copy": ("number", 9),
    "passed-kept": ("unserved", 3),
    "save-passed": ("number", 4),
    "listed-first": ("order", 7),
    "buried": ("deadlock", 16),
    "fence": ("order", 12),
    "joins-first": ("unserved", 1),
    "lists-missing": ("unserved", 3),
    "lists-no-lost": ("row stays", 24),
    "numbers-go-on": ("number", 10),
    "recovers": ("unserved", 1),
    "gap": ("deadlock", 10),
    "move-again": ("unserved", 3),
    "save-ticket": ("unserved", 2),
    "save-counter": ("number", 5),
    "void": ("deadlock", 15),
    "save-served": ("unserved", 2),
    "old-move": ("order", 12),
    "tickets-anew": ("unserved", 4),
}
"""What breaks, and after how many steps of a shortest path; of `unserved`: to a state from which it can't be mended."""
LARGE = {"lists-no-lost"}


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, id=mutant.name, marks=[pytest.mark.long] if mutant.name in LARGE else [])
        for mutant in TOKEN_MUTANTS
    ],
)
def test_every_rule_that_is_taken_away_is_missed(mutant: Mutant) -> None:
    assert mutant.world is not None
    world = msgspec.structs.replace(mutant.world(), mutant=mutant.name)
    space = Space(system_of(mutant.protocol, world), mutant.budget(), timers=mutant.timers)
    (violation,) = explore(space).violations
    assert (violation.name, violation.steps) == STEPS[mutant.name]
    assert mutant.found_as == (violation.name,)


def test_every_mutant_has_its_number_of_steps() -> None:
    assert set(STEPS) == {mutant.name for mutant in TOKEN_MUTANTS}

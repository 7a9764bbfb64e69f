"""The game of tasks, searched exhaustively: every order of events, single faults, exact numbers of states (GM2, GM5).

After every turn each claim's own sums are compared with the guards over the whole queue (`properties`).
"""

import msgspec
import pytest
from explorer.by_pool_rows import Run, check, small

from holdall.explorer.fair import explore_fairly
from holdall.explorer.mutants.game import GAME_MUTANTS
from holdall.explorer.mutants.mutant import Mutant
from holdall.explorer.options import Options, read_reduce
from holdall.explorer.runs import game
from holdall.explorer.search import Violation
from holdall.explorer.systems import system_of, world_of
from holdall.world.faults import read_faults


@pytest.mark.parametrize("run", small(game.RUNS))
def test_gm2_gm5_the_restricted_game_is_safe_and_everybody_can_be_served(run: Run) -> None:
    check("game", run)


@pytest.mark.parametrize("run", small(game.COMPLETE))
def test_gm2_gm5_the_complete_game_is_safe_and_everybody_can_be_served(run: Run) -> None:
    check("game-complete", run)


STEPS = {
    "tickets-alone": ("whole grant", 7),
    "marks-seen": ("whole grant", 5),
    "round": ("refused", 31),
    "old-view": ("deadlock", 16),
    "old-form": ("refused", 33),
    "repair": ("unserved", 3),
    "save-request": ("exclusion", 7),
    "save-release": ("books", 7),
    "quarantine": ("exclusion", 9),
    "withdraw": ("deadlock", 18),
    "same-attempt": ("deadlock", 11),
}
LATE = {"doorway": ("starved", 56), "alone": ("starved", 34)}
"""Those that take a complete search for fair cycles."""


def search(mutant: Mutant, reduce: str | None = None) -> Violation:
    assert mutant.system is not None
    assert mutant.world is not None
    world = msgspec.structs.replace(mutant.world(), mutant=mutant.name)
    options = mutant.options() if reduce is None else Options(reduce=read_reduce(reduce))
    space = options.space(mutant.system(world), mutant.budget())
    (violation,) = explore_fairly(space, states_max=mutant.states_max).violations
    return violation


def named(name: str) -> Mutant:
    (mutant,) = [one for one in GAME_MUTANTS if one.name == name]
    return mutant


@pytest.mark.parametrize("name", [*STEPS, *LATE])
def test_a_rule_taken_away_is_found(name: str) -> None:
    found = search(named(name))
    assert (found.name, found.steps) == (STEPS | LATE)[name]
    assert found.name in named(name).found_as


@pytest.mark.parametrize(
    ("name", "reduce"),
    [
        ("tickets-alone", "late,ignored"),
        ("marks-seen", "late,ignored"),
        ("save-request", "ignored"),
        ("save-release", "ignored"),
        ("quarantine", "ignored"),
        ("repair", "ignored"),
    ],
)
def test_what_is_found_without_reductions_is_found_with_them(name: str, reduce: str) -> None:
    assert search(named(name), reduce).name in named(name).found_as


@pytest.mark.parametrize("protocol", ["game", "game-complete"])
def test_gm7_with_the_doorway_a_stream_of_claims_of_higher_priority_starves_nobody(protocol: str) -> None:
    """Two clients that come again and again, each at a pool of its own, and a claim over both."""
    world = world_of(protocol, "stream@oldest")
    shipped = Options(reduce=read_reduce("late,ignored")).space(system_of(protocol, world), read_faults(""))
    result = explore_fairly(shipped)
    assert (result.complete, result.fair, result.violations) == (True, True, ())
    assert result.states == {"game": 35946, "game-complete": 44580}[protocol]


def test_every_mutant_has_its_number_of_steps() -> None:
    assert {mutant.name for mutant in GAME_MUTANTS} == set(STEPS | LATE)

"""Every necessary rule of the chain, taken away once: the search finds the property that breaks, on a shortest path.

The numbers of steps are those of the shipped messages; the chain specification, section 9, has those of its model.
"""

import msgspec
import pytest

from holdall.explorer.mutants.chain import CHAIN_MUTANTS, HARMLESS
from holdall.explorer.search import Violation, explore
from holdall.explorer.space import Space
from holdall.explorer.systems import system_of
from holdall.explorer.trace import steps_of, told, world_from, world_value
from holdall.machine.trace import replay
from holdall.world.chain import ChainSystem
from holdall.world.faults import budget
from holdall.world.named import named

MUTANTS = {mutant.name: mutant for mutant in CHAIN_MUTANTS}

STEPS = {
    "wound": ("deadlock", 6),
    "holders-wound": ("deadlock", 8),
    "kill-granted": ("exclusion", 10),
    "early-kill": ("deadlock", 7),
    "killed-middle": ("invariant", 10),
    "count": ("deadlock", 29),
    "bounded-passing": ("bound", 12),
    "pass-anywhere": ("deadlock", 12),
    "try-passes": ("bound", 12),
    "shrink-buries": ("exclusion", 12),
    "kill-epoch": ("exclusion", 11),
    "epoch-asked": ("row stays", 10),
    "quarantine": ("exclusion", 9),
    "every-pass-counts": ("bound", 22),
    "passes-kept": ("bound", 22),
    "save-promote": ("invariant", 4),
    "save-killed": ("invariant", 9),
    "save-allowed": ("exclusion", 7),
    "save-tried": ("exclusion", 7),
    "save-end": ("row stays", 7),
    "any-attempt": ("deadlock", 13),
    "buried-too": ("row stays", 8),
    "tombstones": ("row stays", 8),
}


def found(name: str) -> tuple[Space, Violation]:
    mutant = MUTANTS[name]
    assert mutant.world is not None
    world = msgspec.structs.replace(mutant.world(), mutant=name)
    space = Space(system_of("chain", world), mutant.budget(), timers=mutant.timers)
    (violation,) = explore(space).violations
    return space, violation


def test_every_mutant_has_its_number_of_steps() -> None:
    assert set(STEPS) == set(MUTANTS)
    assert {name: mutant.found_as for name, mutant in MUTANTS.items()} == {
        name: (property_,) for name, (property_, _) in STEPS.items()
    }


@pytest.mark.parametrize("name", STEPS)
def test_a_rule_taken_away_is_found_and_its_trace_replays(name: str) -> None:
    space, violation = found(name)
    assert (violation.name, violation.steps) == STEPS[name]
    assert len(list(told(space, violation.moves))) == violation.steps
    # The same hosts, built from what the trace's header says, do the same again.
    again = system_of("chain", world_from(world_value(space.system.world)))
    assert replay(steps_of(space, violation.moves), again.build) is None


@pytest.mark.parametrize(
    "name", [name for name in STEPS if not MUTANTS[name].faults and name != "every-pass-counts"]
)
def test_the_shipped_rule_keeps_the_mutants_trace_from_being_followed(name: str) -> None:
    """The same events given to the shipped machines are answered otherwise somewhere: the rule has a say in them."""
    space, violation = found(name)
    where = MUTANTS[name].world
    assert where is not None
    shipped = ChainSystem(where())
    assert replay(steps_of(space, violation.moves), shipped.build) is not None


@pytest.mark.parametrize(("world", "states"), [("x2", 40044)])
def test_nothing_need_be_saved_before_a_kill(world: str, states: int) -> None:
    space = Space(ChainSystem(named(world), manager=HARMLESS), budget(crash=1))
    result = explore(space)
    assert result.complete
    assert not result.violations
    assert result.states == states

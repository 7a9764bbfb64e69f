"""What the explorer finds by itself in a row's world, and how the tables of the tests state it."""

from typing import NamedTuple

import pytest

from holdall.explorer.guided import replay
from holdall.explorer.options import Options
from holdall.explorer.search import Result, explore
from holdall.explorer.space import Space
from holdall.explorer.systems import PROTOCOLS
from holdall.world.faults import NONE
from holdall.world.literal.scripts import read_script

LONG_FROM = 100_000
"""Runs with more states are for the night."""


class Wrong(NamedTuple):
    """A row whose property is violated, and the length of a shortest way there."""

    world: str
    property: str
    steps: int
    specified: int | None = None
    """What the specification's model needed, where it is another number; the test says why."""
    long: bool = False

    def __str__(self) -> str:
        return f"{self.world}-{self.property.replace(' ', '-')}"


class Clean(NamedTuple):
    """A row that is complete without a violation, and its number of states."""

    world: str
    states: int

    def __str__(self) -> str:
        return f"{self.world}-{self.states}"


def space_of(protocol: str, world: str) -> Space:
    """The moves of a named world, alarms and reduction as its row says."""
    entry = PROTOCOLS[protocol]
    row = entry.literal.get(world)
    made = entry.worlds(None)[world]
    if row is None:
        return Options().space(entry.make(made), NONE)
    options = Options(timers=row.timers, reduce=("late",) if row.reduced else ())
    return options.space(entry.make(made), NONE)


def search(protocol: str, world: str) -> Result:
    """A search, whether the row has a script or not."""
    return explore(space_of(protocol, world))


def guided(protocol: str, world: str) -> Result:
    """The row's script, each step checked."""
    return replay(space_of(protocol, world), read_script(PROTOCOLS[protocol].literal[world].script))


def params(table: list[Wrong] | list[Clean]) -> list[object]:
    """Parameters of a test; the long ones are marked."""
    return [
        pytest.param(one, id=str(one), marks=[pytest.mark.long] if _is_long(one) else []) for one in table
    ]


def _is_long(one: Wrong | Clean) -> bool:
    return one.long if isinstance(one, Wrong) else one.states > LONG_FROM

"""A row of the tables of protocols by pool: one world that is explored to the end, with its exact number of states.

A number that changes without a reason that can be told is a finding: more states mean new behaviour, fewer mean
that something is not reached any more.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import pytest

from holdall.explorer.options import Options, read_reduce
from holdall.explorer.runs import run as listing
from holdall.explorer.search import explore
from holdall.explorer.systems import system_of, world_of
from holdall.world.faults import read_faults


class Run(NamedTuple):
    """One world with its faults. `reduce` as `--reduce` takes it."""

    world: str
    states: int
    faults: str = ""
    variant: str = ""
    """leases: the lease book behind the manager."""
    reduce: str = ""
    cut: bool = False
    """Larger than is searched here; nothing is found up to that many states."""

    def __str__(self) -> str:
        parts = (self.world, self.faults, self.variant, self.reduce, "cut" if self.cut else "")
        return "-".join(filter(None, parts))


def params(table: Iterable[Run], long_from: int, *before: str) -> list[object]:
    """For `parametrize`, after the values `before`; rows with more states than `long_from` are for the night."""
    return [
        pytest.param(
            *before,
            run,
            id="-".join((*before, str(run))),
            marks=[pytest.mark.long] if run.states > long_from else [],
        )
        for run in table
    ]


SMALL = 3_000


def small(listed: Iterable[listing.Run]) -> list[object]:
    """For `parametrize`: the small ones of a list that `lab explore --world all` explores whole, fair cycles included."""
    rows = [Run(row.world, row.states, row.faults, reduce=row.reduce) for row in listed if row.states]
    return params([row for row in rows if row.states <= SMALL], SMALL)


def check(protocol: str, run: Run) -> None:
    """Explore it: clean, and exactly as many states; a cut one clean as far as it goes."""
    world = world_of(protocol, run.world)
    if run.variant == "leases":
        world = msgspec.structs.replace(world, book="leases")
    space = Options(reduce=read_reduce(run.reduce)).space(system_of(protocol, world), read_faults(run.faults))
    result = explore(space, states_max=run.states if run.cut else None)
    assert not result.violations
    assert result.complete is not run.cut
    assert result.states == run.states or (run.cut and result.states >= run.states)

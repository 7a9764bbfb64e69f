"""One exploration of the lists, and lists of many."""

from collections.abc import Iterable

import msgspec

from holdall.explorer.links import Order
from holdall.explorer.moves import Timers


class Run(msgspec.Struct, frozen=True):
    """One exploration of the usual list. `world` may end in `@oldest` or `@reversed`."""

    world: str
    faults: str = ""
    states: int | None = None
    """How many there are when it is complete and clean; None: not stated, or cut."""
    timers: Timers | None = None
    repeat: int | None = None
    states_max: int | None = None
    """Cut there: clean up to that number of states."""
    passes: int | None = None
    """The chain's bound of overtaking; None: 1."""
    links: Order = "any"
    reduce: str = ""
    """As `--reduce` takes it; what each keeps is said in `options`."""
    falls_at: str = ""
    compact: bool = False


FOR_THE_NIGHT = 30_000
"""Of the worlds with one fault each, those with more states are of `--world long`."""


def single(world: str, *, reduce: str = "", compact: bool = False, **states: int) -> tuple[Run, ...]:
    """Runs of one world with one fault each: its kind, and how many states there are."""
    return tuple(
        Run(world, f"{kind}=1", count, reduce=reduce, compact=compact) for kind, count in states.items()
    )


def divided(runs: Iterable[Run]) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    """Those that are explored each time, and those for the night."""
    every = tuple(runs)
    small = tuple(run for run in every if (run.states or 0) <= FOR_THE_NIGHT)
    return small, tuple(run for run in every if run not in small)

"""One exploration of the lists."""

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

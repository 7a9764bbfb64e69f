"""One row of the counter-examples: a world, what it shows, and how it is replayed where it is long."""

from typing import Literal

import msgspec

from holdall.world.plan import World


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A named world; each algorithm adds its rules."""

    world: World
    shows: str
    script: str = ""
    """A guided script (see `scripts`); empty: the search finds it."""
    timers: Literal["off", "quiet", "any"] = "off"
    """When alarms ring: never, when nothing is in flight, or at any time."""
    reduced: bool = False
    """What makes no difference whenever it comes is delivered first (see `explorer.moves.Space`)."""

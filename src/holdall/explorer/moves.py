"""States and moves of a closed world, as values.

A state is a tuple of numbers: the local state of each host, the messages in flight (see `links`), the scene (clients
and faults left). Moves that need not happen are faults; all others happen in the end, so being served is judged by
them.
"""

from typing import Literal, NamedTuple, TypeAlias

State: TypeAlias = tuple[int, ...]
Timers: TypeAlias = Literal["off", "quiet", "any"]

BOOT_KIND = {"crash": "same", "restart": "same", "reboot": "reboot", "wipe": "lost"}


class Move(NamedTuple):
    """One move, as much as is needed to tell it. `host` is a number, `what` a message, an event or -1."""

    kind: str
    """deliver, act, timer, lose, repeat, or crash, restart, reboot, wipe, gone."""
    host: int
    what: int = -1
    timer: str = ""
    lost: int = 0
    """Bits of messages in flight that vanish with it."""
    within: str = ""
    """With crash: kind of the turn that it cut, whose message, event or timer stands here; empty: between turns."""
    cut: int = 0
    """So many messages of that turn have left."""
    text: str = ""


class Step(NamedTuple):
    """A move and the state it leads to; `wrong` when a machine refused what a neighbour sent."""

    move: Move
    state: State
    progress: bool
    wrong: str = ""

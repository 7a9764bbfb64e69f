"""The words of a job's machine: what happens, what is to be done, where an instance is."""

from typing import TypeAlias

import msgspec

from holdall.jobs.entries import Entry, Outcome
from holdall.jobs.spec import Verdict

# ---------------------------------------------------------------- what happened


class AttemptGranted(msgspec.Struct, frozen=True):
    """An attempt has its needs."""

    instance: str
    attempt: int
    lease: str
    units: tuple[str, ...] = ()


class AttemptEnded(msgspec.Struct, frozen=True):
    """An attempt is over, and no process of it is left."""

    instance: str
    attempt: int
    outcome: Outcome


class PauseOver(msgspec.Struct, frozen=True):
    """The pause before the next attempt is over."""

    instance: str
    attempt: int
    """The one before the pause."""


class Cancel(msgspec.Struct, frozen=True):
    """Somebody wants the job to end."""

    reason: str


Happening: TypeAlias = AttemptGranted | AttemptEnded | PauseOver | Cancel

# ---------------------------------------------------------------- what to do


class Record(msgspec.Struct, frozen=True):
    """Keep this entry, before anything is done that follows in the answer."""

    entry: Entry


class Launch(msgspec.Struct, frozen=True):
    """Begin this attempt, unless it has begun already (after a restart): then watch it."""

    instance: str
    attempt: int
    round: int


class Pause(msgspec.Struct, frozen=True):
    """Give a PauseOver after so long."""

    instance: str
    attempt: int
    ms: int


class Stop(msgspec.Struct, frozen=True):
    """End this attempt: its command is to be stopped, its claim to be given up."""

    instance: str
    attempt: int
    why: str


Effect: TypeAlias = Record | Launch | Pause | Stop

# ---------------------------------------------------------------- where an instance is


class Waiting(msgspec.Struct, frozen=True):
    """For other tasks."""


class Running(msgspec.Struct, frozen=True):
    """An attempt is under way, waiting for its needs or running. `charged`: retries used in this round."""

    attempt: int
    round: int
    charged: int = 0
    unstarted: int = 0
    lease: str = ""


class Pausing(msgspec.Struct, frozen=True):
    """Between two attempts. `round`, `charged` and `unstarted` are the next one's."""

    attempt: int
    round: int
    charged: int
    unstarted: int
    ms: int


class Over(msgspec.Struct, frozen=True):
    """Nothing more comes."""

    verdict: Verdict
    status: int | None = None
    text: str = ""


Phase: TypeAlias = Waiting | Running | Pausing | Over

"""What a client of a run has, and what it asks of the run: its claim, its lease, its alarms, the world around it."""

from enum import IntEnum
from typing import Protocol, TypeVar

import msgspec

from holdall.model import frames

Who_contra = TypeVar("Who_contra", contravariant=True)


class Alarm(IntEnum):
    """What a client does when a time of its own has come."""

    CLAIM = 0
    BEAT = 1
    DEADLINE = 2
    """Seen also by a client that stands still: what it believes is over then, whoever looks."""
    GIVE_BACK = 3
    CANCEL = 4
    RETRY = 5
    PATIENT = 6
    """Send a release that nobody waits for."""


class Asking(msgspec.Struct):
    """A claim without a final answer."""

    name: str
    """In the history."""
    frame: frames.Claim
    n: int
    sent: float | None = None
    """By the client's clock, like all times here."""
    base: float = 0.0
    """When that message was sent from which a grant would count."""
    asked: float = 0.0
    """True time."""
    attach: frames.Attach | None = None
    """It was granted, but too long ago: this asks once more."""
    cancelled: bool = False
    queued: bool = False


class Tenure(msgspec.Struct):
    """A lease."""

    key: str
    lease: str
    units: tuple[frames.HeldUnit, ...]
    ttl_ms: int
    sent: float
    born: float
    deadline: float
    hard_end: float | None = None

    @property
    def end(self) -> float:
        """When its use must have stopped."""
        return self.deadline if self.hard_end is None else min(self.deadline, self.hard_end)


class Around(Protocol[Who_contra]):
    """What a client asks of the run."""

    @property
    def now(self) -> float:
        """True time."""
        ...

    def alarm(self, client: Who_contra, what: Alarm, after: float, token: int) -> None:
        """After so many ms of the client's clock."""
        ...

    def connect(self, client: Who_contra) -> bool:
        """Open a connection to its node. False: nobody is there."""
        ...

    def say(self, client: Who_contra, frame: frames.ToNode) -> None:
        """Over the connection."""
        ...

    def hang_up(self, client: Who_contra) -> None:
        """End the connection; the process lives on."""
        ...

    def asked(self, client: Who_contra, asking: Asking) -> None:
        """A claim is about to be sent for the first time."""
        ...

    def queued(self, client: Who_contra, asking: Asking, queued: frames.Queued) -> None:
        """It learned that the claim waits."""
        ...

    def granted(self, client: Who_contra, asking: Asking, tenure: Tenure) -> None:
        """It begins to use the units."""
        ...

    def renewed(self, client: Who_contra, tenure: Tenure) -> None:
        """A renewal was confirmed."""
        ...

    def denied(self, client: Who_contra, asking: Asking, code: str, text: str) -> None:
        """The claim's final answer."""
        ...

    def stopped(self, client: Who_contra, tenure: Tenure, how: str) -> None:
        """It uses the units no longer: `released` (about to be said), `deadline`, `end` (its hard one) or `lost`."""
        ...

    def released(self, client: Who_contra, lease: str, call: float) -> None:
        """The answer to a release that was said at `call` (true time)."""
        ...

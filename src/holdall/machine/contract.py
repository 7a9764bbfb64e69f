"""The contract of all machines: two kinds of event in, five kinds of effect out; no clock, no chance, no I/O.

A machine is a small object whose handlers change it and return effects. A driver (explorer, simulator or
node) delivers events and carries out effects. Its duties, in this order, once per turn:

1. deliver everything that arrived; 2. make all `Save` and `Forget` of the turn durable in one transaction;
3. set and cancel timers; 4. let the `Send`s go. So a message never tells what a crash could still undo.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol, Self, TypeAlias

import msgspec

Message: TypeAlias = msgspec.Struct
"""Any value of a closed union of messages; each protocol and each neighbour has its own union."""

Record: TypeAlias = msgspec.Struct
"""What a `Save` keeps; each machine has a closed union of records of its own."""


class Address(msgspec.Struct, frozen=True, order=True):
    """Where a machine lives: the node and the part of it, e.g. `Address("lab-1", "manager")`."""

    node: str
    part: str

    def __str__(self) -> str:
        return f"{self.node}/{self.part}"


class Received(msgspec.Struct, frozen=True, tag="received"):
    """A message has arrived. The sender comes from the connection, never from the message."""

    sender: Address
    message: Message


class TimerFired(msgspec.Struct, frozen=True, tag="timer"):
    """A timer that this machine set has run out."""

    timer: str


Event: TypeAlias = Received | TimerFired


class Send(msgspec.Struct, frozen=True, tag="send"):
    """Deliver `message`, after this turn's records are durable."""

    to: Address
    message: Message


class SetTimer(msgspec.Struct, frozen=True, tag="set"):
    """Fire `timer` after `after_ms` milliseconds of CLOCK_BOOTTIME; replaces one of the same name.

    With `spread_ms` the driver adds a whole number drawn from 0..spread_ms.
    """

    timer: str
    after_ms: int
    spread_ms: int = 0


class CancelTimer(msgspec.Struct, frozen=True, tag="cancel"):
    """Forget `timer`; no effect when it is not set."""

    timer: str


class Save(msgspec.Struct, frozen=True, tag="save"):
    """Keep `record` under `key` over a crash, in place of an earlier one."""

    key: str
    record: Record


class Forget(msgspec.Struct, frozen=True, tag="forget"):
    """Drop what is kept under `key`; no effect when there is nothing.

    `why`: why there is no such thing any more, for whoever keeps account of it; the record says no more.
    """

    key: str
    why: str = ""


Effect: TypeAlias = Send | SetTimer | CancelTimer | Save | Forget


class ClockRead(msgspec.Struct, frozen=True, tag="clock"):
    """What the driver's wall clock showed when a turn began, in Unix milliseconds.

    A driver may deliver it to every part that asks for it before the other events of a turn. It serves
    display and ages, never expiry. The explorer never delivers it.
    """

    wall_ms: int
    boot_ms: int = 0
    """CLOCK_BOOTTIME in milliseconds (0: not told), for what is left of a hard end; never for expiry."""


class Boot(msgspec.Struct, frozen=True, tag="boot"):
    """How a machine comes up again; the driver puts it among the records under `BOOT_KEY`.

    `kind` is "same" (process died, journal complete), "reboot" (another kernel boot; the journal is complete
    at level power) or "lost" (nothing kept but `fence_base`). `quarantine_ms` > 0: nothing may be set aside or
    granted for so long. `epoch` is the manager's epoch from now on, `incarnation` the number of this process start.
    """

    kind: str
    epoch: int
    incarnation: int
    quarantine_ms: int = 0
    fence_base: int = 0


BOOT_KEY = "boot"


class Machine(Protocol):
    """One deterministic part of a node. Handlers change it and return what the driver has to do."""

    def start(self) -> Sequence[Effect]:
        """First start, with nothing kept."""
        ...

    def handle(self, event: Event) -> Sequence[Effect]:
        """One event and its whole answer."""
        ...

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """Start again from what was saved (keys as this machine saved them) and `records[BOOT_KEY]`."""
        ...

    def key(self) -> Hashable:
        """Equal keys behave alike: what the explorer compares."""
        ...

    def copy(self) -> Self:
        """An independent twin; frozen values may be shared."""
        ...


class ProtocolViolation(Exception):
    """A message that no correct neighbour can send in this state. A driver refuses it, counts it and goes on."""

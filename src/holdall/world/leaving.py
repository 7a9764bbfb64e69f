"""Claimants' hosts of a closed world, which can be told that a node has left the system for good.

On a node the directory tells it, after an operator has had the other one forgotten; here a part of its own does.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol, Self, cast

from holdall.machine.contract import Effect, Event, Machine, Received, Record, Save
from holdall.machine.host import Arrival, Host
from holdall.world.from_world import NodeLeft, of_world

MEMBERS = "members"
"""Part of a claimant's host that knows who has left the system."""
CLAIMANT = "claimant"


class Asking(Machine, Protocol):
    """A claimant, which asks whether a node that owes it an answer has left the system."""

    is_gone: Callable[[str], bool]


class Members:
    """Who has left the system, as the directory tells it on a node; kept over a crash."""

    def __init__(self) -> None:
        self.left: frozenset[str] = frozenset()

    def start(self) -> Sequence[Effect]:
        """Nobody has left."""
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """Who had left by then."""
        self.left = frozenset(record.node for record in records.values() if isinstance(record, NodeLeft))
        return ()

    def handle(self, event: Event) -> Sequence[Effect]:
        """NodeLeft from the world."""
        if not isinstance(event, Received) or not isinstance(event.message, NodeLeft):
            return ()
        self.left |= {event.message.node}
        return (Save(event.message.node, event.message),)

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return tuple(sorted(self.left))

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.left = self.left
        return twin

    def has_left(self, node: str) -> bool:
        """Whether a node is known to have left."""
        return node in self.left


class ClaimingHost(Host):
    """A claimant's host: its claimant asks the part beside it who has left."""

    def __init__(self, node: str, claimant: Asking) -> None:
        super().__init__(node, {CLAIMANT: claimant, MEMBERS: Members()})
        _join(self)

    def copy(self) -> Self:
        """An independent twin, whose claimant asks its own part."""
        twin = super().copy()
        _join(twin)
        return twin


def _join(host: Host) -> None:
    claimant, members = cast("Asking", host.parts[CLAIMANT]), cast("Members", host.parts[MEMBERS])
    claimant.is_gone = members.has_left


def told_of(host: str, node: str) -> Arrival:
    """A claimant's host is told that a node has left."""
    return Arrival(MEMBERS, Received(of_world(host), NodeLeft(node)))

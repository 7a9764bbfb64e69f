"""Whom other parties believe what: users by their nodes, hosts and managers by where they are.

A node speaks for its own users and for no others. What it says of them is checked against what the directory knows
of the node: its name, and the location that it belongs to.
"""

from typing import TypeVar

import msgspec

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Asker
from holdall.machine.contract import Address, Message, ProtocolViolation
from holdall.parties.location.messages import HOST, LOCATION, NEGOTIATOR, OnBehalf
from holdall.parties.neighbours import Neighbours

Said = TypeVar("Said", bound=Message)
AFFILIATION, GROUP = "affiliation", "group"
GROUPS_MAX = 64


class Whom:
    """Implements `Askers` for the one message that is handled at the time."""

    def __init__(self) -> None:
        self.current = Asker("")

    def asker(self, sender: Address) -> Asker:
        """Whoever said what is being handled."""
        del sender
        return self.current


class Vouching:
    """What a node of `location` believes of senders."""

    def __init__(self, node: str, location: str, neighbours: Neighbours) -> None:
        self._node, self._location, self._neighbours = node, location, neighbours

    def location_of(self, node: str) -> str | None:
        """Of a node; None: it is not known (yet)."""
        if node == self._node:
            return self._location
        known = self._neighbours.node(node)
        return None if known is None else known.location

    def is_of(self, sender: Address, part: str) -> bool:
        """Whether it is that part of a node of this location."""
        return sender.part == part and self.location_of(sender.node) == self._location

    def is_manager(self, sender: Address) -> bool:
        """Whether it can manage this location."""
        return self.is_of(sender, LOCATION)

    def check_behalf(self, sender: Address, said: OnBehalf) -> None:
        """Raises ProtocolViolation where the node may not speak for that user."""
        if sender.part != NEGOTIATOR:
            raise _not_for(sender, said)
        name, location = self._neighbours.name_of(sender.node), self.location_of(sender.node)
        user, at, there = said.asker.holder.rpartition("@")
        believed = tuple(value for key, value in said.asker.attributes if key == AFFILIATION)
        if location is None or not user or not at or there != name or believed not in {(), (location,)}:
            raise ProtocolViolation(f"{sender} does not vouch for {said.asker.holder[:80]!r}")

    def holder(self, claimed: Asker, at: Address) -> Asker:
        """Somebody to whom another one gives something, with what is known here; without a name where he is of no known node."""
        user, _, there = claimed.holder.rpartition("@")
        location = self.location_of(at.node)
        if (
            at.part != NEGOTIATOR
            or location is None
            or not user
            or there != self._neighbours.name_of(at.node)
        ):
            return Asker("")
        return asker_of(user, there, location, ())

    def with_holder(self, message: Said) -> Said:
        """Of the new holder of a part nobody is believed but this node itself."""
        if not isinstance(message, m.SplitLease):
            return message
        return msgspec.structs.replace(message, to=self.holder(message.to, message.to_address))

    def check_host(self, sender: Address, message: Message, host: str) -> None:
        """Raises ProtocolViolation where it is not that host of this location."""
        if not self.is_of(sender, HOST) or host != sender.node:
            raise _not_for(sender, message)


def asker_of(user: str, name: str, location: str, groups: tuple[str, ...]) -> Asker:
    """A user of the node called `name`, as other nodes are told."""
    listed = [(GROUP, group) for group in sorted(set(groups))[:GROUPS_MAX]]
    if location:
        listed.append((AFFILIATION, location))
    return Asker(f"{user}@{name}", tuple(sorted(listed)))


def _not_for(sender: Address, message: Message) -> ProtocolViolation:
    return ProtocolViolation(f"{type(message).__name__} from {sender}: that is not for it to say")

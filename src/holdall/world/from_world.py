"""What a world says to a node's manager, so that traces can tell it, and the pool's side that hears it."""

from typing import Any, TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Event, Received
from holdall.parties.side import Side
from holdall.protocols.counting_book import CapacityIs, Departed
from holdall.protocols.hooks import Effects


class NodeLeft(msgspec.Struct, frozen=True, tag="node_left"):
    """A node has left the system for good: nothing of it will be heard again."""

    node: str


FromWorld: TypeAlias = CapacityIs | Departed | NodeLeft

CODEC.register("from the world", FromWorld)


def of_world(node: str) -> Address:
    """The world as a sender, at this node."""
    return Address(node, "world")


class InWorld(Side[Any]):
    """A part of a pool's side with its shipped lease book, whose peers' silence the world plays."""

    def handle(self, event: Event) -> Effects:
        """As a pool's side, and Departed from the world."""
        if isinstance(event, Received) and isinstance(event.message, Departed):
            out: Effects = []
            self.manager.departed(event.message.claim, out, event.message.reason)
            return out
        return super().handle(event)

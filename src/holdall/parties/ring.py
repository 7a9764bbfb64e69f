"""The machine `ring` of a node whose protocol passes a token round: who is in the ring, as the directory knows it.

It decides nothing about the token. It tells its own manager whom to ask to be taken in, and which members have been
silent for so long that every lease they gave or had is over, so that the ring may go on without them. Both sides of a
wall do that; when it has gone, what each side knows comes into one ring again. Source: strong/weak specification,
section 5 (recovery after the absent node's membership lease has ended).
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Self

from holdall.machine.contract import (
    Address,
    Effect,
    Event,
    ProtocolViolation,
    Received,
    Record,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.parties.by_pool.pools import PoolsByPool
from holdall.parties.directory.view import DirectoryView
from holdall.parties.messages import MANAGER
from holdall.parties.neighbours import Neighbour
from holdall.protocols.token.messages import RingAbsent, RingJoin
from holdall.protocols.token.recovery import Recovering
from holdall.protocols.token.ring import NO_EPOCH

RING = "ring"
"""The part of a node that keeps it in the ring."""
LOOK_TIMER = "look"
LOOK_MS = 1000


class RingKeeper:
    """Looks at the directory and at the own manager (`side`), of which it only reads, once a second.

    `absent_ms`: a member that is silent for longer is left out.
    """

    def __init__(self, node: str, side: PoolsByPool, neighbours: DirectoryView, *, absent_ms: int) -> None:
        self.node = node
        self._side = side
        self._neighbours = neighbours
        self._absent_ms = absent_ms

    def start(self) -> Sequence[Effect]:
        """Look soon."""
        return [SetTimer(LOOK_TIMER, LOOK_MS)]

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """Nothing is kept."""
        del records
        return self.start()

    def handle(self, event: Event) -> Sequence[Effect]:
        """Its timer only."""
        match event:
            case TimerFired():
                return [*self._look(), SetTimer(LOOK_TIMER, LOOK_MS)]
            case Received(sender, message):
                raise ProtocolViolation(
                    f"{type(message).__name__} from {sender} is no message for a ring's keeper"
                )

    def key(self) -> Hashable:
        """It keeps nothing."""
        return ()

    def copy(self) -> Self:
        """Shared: nothing in it changes."""
        return self

    def _look(self) -> list[Effect]:
        manager = self._side.manager
        if not isinstance(manager, Recovering):
            raise TypeError(f"the protocol of {self.node} has no ring")
        own = Address(self.node, MANAGER)
        known = {one.node: one for one in self._neighbours.nodes()}
        members = frozenset(manager.ring.members) if manager.ring.epoch != NO_EPOCH else frozenset[str]()
        live = [node for node in sorted(known) if known[node].state not in {"silent", "stopped"}]
        # A node that lives and is not in this ring is in another one: one of the two will come into the other.
        contacts = tuple(node for node in live if node not in members)
        absent = tuple(
            node for node in manager.ring.members if node in members and self._is_absent(node, known)
        )
        out: list[Effect] = []
        if contacts:
            out.append(Send(own, RingJoin(contacts=contacts)))
        if absent:
            out.append(Send(own, RingAbsent(absent)))
        return out

    def _is_absent(self, node: str, known: Mapping[str, Neighbour]) -> bool:
        if self._neighbours.is_forgotten(node):
            return True
        return node in known and known[node].silent_ms > self._absent_ms

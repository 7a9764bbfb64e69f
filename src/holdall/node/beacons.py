"""How nodes find each other where nobody joins by a code: on servers that somebody else runs.

A node tells all others that it is there when it reaches the bus and every half minute; who hears that of a node that it
has not met answers it alone. Who sends it is the bus's word. A beacon carries what all nodes of a system must have
alike, which joining checks elsewhere: with a node that has it otherwise this one does not deal.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from holdall.machine.codec import CODEC, CodecError

BEACON_S = 30.0
FIRST_ANSWERS_S = 0.5
"""A node that starts listens so long for who else is there."""
MET_MAX = 10_000


class Beacon(msgspec.Struct, frozen=True, tag="beacon"):
    """Here I am."""

    name: str
    protocol: str
    ttl_max_ms: int
    rho_ppm: int
    is_answer: bool = False


CODEC.register("beacons", Beacon)


class Speaks(Protocol):
    """What this file needs of a bus."""

    def announce(self, body: bytes) -> None:
        """Tell all nodes of the system."""
        ...

    def post(self, to: str, frame: bytes) -> None:
        """Tell one node."""
        ...


class Beacons:
    """Sends them, hears them. `met` gets id and name of each node once, `differs` id, name and what is otherwise."""

    def __init__(
        self, own: Beacon, *, met: Callable[[str, str], None], differs: Callable[[str, str, str], None]
    ) -> None:
        self.bus: Speaks | None = None
        """Set before `begin`."""
        self._own = own
        self._met = met
        self._differs = differs
        self._known: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Announce, and hear for a moment who answers; go on announcing."""
        self._task = asyncio.create_task(self._announce(), name="beacons")
        await asyncio.sleep(FIRST_ANSWERS_S)

    def close(self) -> None:
        """Say no more."""
        if self._task is not None:
            self._task.cancel()

    def announced(self, sender: str, body: bytes) -> None:
        """Something that was told to all; nonsense is passed over."""
        try:
            message = CODEC.decode(body)
        except CodecError:
            return
        if isinstance(message, Beacon):
            self.heard(sender, message)

    def heard(self, sender: str, beacon: Beacon) -> None:
        """A node is there."""
        if not beacon.is_answer and self.bus is not None:
            answer = msgspec.structs.replace(self._own, is_answer=True)
            self.bus.post(sender, CODEC.encode(answer))
        if sender in self._known or len(self._known) >= MET_MAX:
            return
        self._known.add(sender)
        difference = self._difference(beacon)
        if difference:
            self._differs(sender, beacon.name[:63], difference)
        else:
            self._met(sender, beacon.name[:63])

    def _difference(self, other: Beacon) -> str:
        mine = self._own
        pairs = (
            ("protocol", mine.protocol, other.protocol[:63]),
            ("ttl_max (ms)", mine.ttl_max_ms, other.ttl_max_ms),
            ("clock bound (ppm)", mine.rho_ppm, other.rho_ppm),
        )
        return ", ".join(
            f"{what} is {own} here and {their} there" for what, own, their in pairs if own != their
        )

    async def _announce(self) -> None:
        while self.bus is not None:
            self.bus.announce(CODEC.encode(self._own))
            await asyncio.sleep(BEACON_S)

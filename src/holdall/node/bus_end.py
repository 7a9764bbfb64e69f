"""The node's end of its bus: frames of the link out and in, and one line in the log for each change of the bus.

Only frames between nodes come here. What the parts of one node tell each other, and so every claim on its own
pools, never leaves its host machine.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TypeAlias

from holdall.bus.interface import Bus
from holdall.machine.codec import CODEC, CodecError
from holdall.machine.contract import Address, Message
from holdall.machine.link import LINK
from holdall.machine.link_frames import LinkFrame, LinkOpen
from holdall.node.beacons import Beacon, Beacons
from holdall.node.clock import boottime_ms
from holdall.node.figures import Figures
from holdall.node.log import claims_in
from holdall.parties.directory.messages import BUS, DIRECTORY, Presence

REFUSED_LOG_MS = 60_000
"""Of frames that can't be read one is logged so often; all are counted."""

Put: TypeAlias = Callable[[str, Address, Message], None]
BusState: TypeAlias = Literal["none", "opening", "connected", "lost"]


class Log(Protocol):
    """What this file needs of a logger."""

    def info(self, event: str, **values: object) -> object:
        """News that needs nobody."""
        ...

    def warning(self, event: str, **values: object) -> object:
        """Something a person may want to look at."""
        ...


class BusEnd:
    """Frames to and from the other nodes. Without a bus every frame is dropped and counted."""

    def __init__(self, node: str, bus: Bus | None, log: Log, beacons: Beacons | None = None) -> None:
        self.put: Put = _nowhere
        self.posted = 0
        self.heard = 0
        self.unsent = 0
        """Frames for which there is no bus, or that no frame can be made of."""
        self.refused = 0
        """What came from other nodes and is no frame of the link."""
        self.state: BusState = "none" if bus is None else "opening"
        self.text = ""
        self._node = node
        self._bus = bus
        self._beacons = beacons
        self._log = log
        self._reached = asyncio.Event()
        self._refused_logged_ms: int | None = None

    async def open(self) -> None:
        """Begin. Raises BadConfig for what waiting can't mend."""
        if self._bus is not None:
            await self._bus.open(self._on_frame, self._on_state)

    async def reached(self, *, within_s: float) -> None:
        """Return when frames can go out and who is there has had a moment to answer, or after this time."""
        if self._bus is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._reached.wait()
        if self._beacons is not None:
            await self._beacons.begin()

    async def close(self) -> None:
        """What was posted is written if it can be; nothing comes any more."""
        self.put = _nowhere
        if self._beacons is not None:
            self._beacons.close()
        bus, self._bus = self._bus, None
        if bus is not None:
            await bus.close()

    def post(self, to: str, message: Message) -> None:
        """Send a frame of the link to a node, or a presence to the node's own id; it may be lost."""
        if self._bus is None:
            self.unsent += 1
            return
        try:
            data = CODEC.encode(message)
        except CodecError as error:
            self.unsent += 1
            self._log.warning(
                "a frame is too large for the bus", to=to, claims=claims_in(message), why=str(error)
            )
            return
        self.posted += 1
        self._bus.post(to, data)

    def shown(self) -> Mapping[str, object]:
        """For `/healthz`."""
        return {"state": self.state, "text": self.text, "posted": self.posted, "heard": self.heard}

    def figures(self) -> Figures:
        """What is counted here."""
        # A bus inside one process has no distance to measure.
        latency_s: float | None = getattr(self._bus, "latency_s", None)
        return Figures(posted=self.posted, heard=self.heard, bus_s=latency_s)

    def _on_frame(self, sender: str, data: bytes) -> None:
        try:
            message: Message = CODEC.decode(data)
        except CodecError as error:
            self._refuse(sender, str(error))
            return
        if sender == self._node and isinstance(message, Presence):
            # A process with this node's key, perhaps this one.
            self.put(DIRECTORY, Address(self._node, BUS), message)
        elif sender != self._node and isinstance(message, Beacon) and self._beacons is not None:
            self._beacons.heard(sender, message)
        elif sender != self._node and isinstance(message, LinkFrame | LinkOpen):
            self.heard += 1
            self.put(LINK, Address(sender, LINK), message)
        else:
            self._refuse(sender, f"{type(message).__name__} is nothing that comes from there")

    def _refuse(self, sender: str, why: str) -> None:
        self.refused += 1
        now = boottime_ms()
        if self._refused_logged_ms is None or now - self._refused_logged_ms > REFUSED_LOG_MS:
            self._refused_logged_ms = now
            self._log.warning("refused from the bus", sender=sender, why=why, refused=self.refused)

    def _on_state(self, connected: bool, text: str) -> None:  # noqa: FBT001
        fresh: BusState = "connected" if connected else "lost"
        was, self.state, self.text = self.state, fresh, text
        if connected:
            self._reached.set()
        if fresh == was:
            return
        if connected:
            self._log.info("bus reached", text=text)
        else:
            self._log.warning(
                "bus lost: claims on pools of other nodes wait, those on this node's own go on", text=text
            )


def _nowhere(part: str, sender: Address, message: Message) -> None:
    del part, sender, message

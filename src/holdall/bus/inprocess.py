"""A bus that joins nodes of one process: nothing is lost, doubled or reordered. For tests and demonstrations."""

import asyncio
from collections import deque

from holdall.bus.interface import OnFrame, OnState
from holdall.bus.subjects import FRAME_BYTES_MAX
from holdall.model.errors import BadConfig


class Hub:
    """Where the nodes of one process meet. `cut` and `heal` part and join two of them."""

    def __init__(self) -> None:
        self.delivered = 0
        self.dropped = 0
        """Frames to nodes that are not here or cut off, and frames that are too long."""
        self._here: dict[str, InProcessBus] = {}
        self._cuts: set[frozenset[str]] = set()

    def bus(self, node: str) -> "InProcessBus":
        """The access of the node with this id."""
        return InProcessBus(self, node)

    def cut(self, one: str, other: str) -> None:
        """Frames between these two are lost from now on, both ways."""
        self._cuts.add(frozenset((one, other)))
        self._tell(one, other)

    def heal(self, one: str, other: str) -> None:
        """The opposite of `cut`."""
        self._cuts.discard(frozenset((one, other)))
        self._tell(one, other)

    def enter(self, bus: "InProcessBus") -> None:
        """Raises BadConfig when a node with this id is here already."""
        if bus.node in self._here:
            raise BadConfig(
                f"two nodes with the id {bus.node} in one process; give each its own state folder."
            )
        self._here[bus.node] = bus

    def leave(self, bus: "InProcessBus") -> None:
        """Nothing reaches this node any more."""
        if self._here.get(bus.node) is bus:
            del self._here[bus.node]

    def carry(self, sender: str, to: str, frame: bytes) -> None:
        """Hand over in a later callback of the event loop, in the order of posting."""
        target = self._here.get(to)
        if target is None or len(frame) > FRAME_BYTES_MAX or frozenset((sender, to)) in self._cuts:
            self.dropped += 1
            return
        self.delivered += 1
        target.take(sender, frame)

    def _tell(self, *nodes: str) -> None:
        for node in nodes:
            if bus := self._here.get(node):
                cut_off = sum(node in pair for pair in self._cuts)
                bus.tell(f"in one process, cut off from {cut_off} nodes" if cut_off else "in one process")


class InProcessBus:
    """One node's access to a hub; see `interface.Bus`."""

    def __init__(self, hub: Hub, node: str) -> None:
        self.node = node
        self._hub = hub
        self._on_frame: OnFrame | None = None
        self._on_state: OnState | None = None
        self._arrived: deque[tuple[str, bytes]] = deque()

    async def open(self, on_frame: OnFrame, on_state: OnState) -> None:
        self._hub.enter(self)
        self._on_frame, self._on_state = on_frame, on_state
        self.tell("in one process")

    def post(self, to: str, frame: bytes) -> None:
        if self._on_frame is not None:
            self._hub.carry(self.node, to, frame)

    async def close(self) -> None:
        await asyncio.sleep(0)  # what was posted in this turn of the event loop is carried
        self._hub.leave(self)
        self._on_frame = self._on_state = None
        self._arrived.clear()

    def take(self, sender: str, frame: bytes) -> None:
        """From the hub. One callback of the event loop for all that arrives within a turn of it."""
        self._arrived.append((sender, frame))
        if len(self._arrived) == 1:
            asyncio.get_running_loop().call_soon(self._deliver)

    def tell(self, text: str) -> None:
        """From the hub: how the node is joined to the others."""
        if self._on_state is not None:
            self._on_state(True, text)

    def _deliver(self) -> None:
        arrived, self._arrived = self._arrived, deque()
        for sender, frame in arrived:
            if self._on_frame is not None:
                self._on_frame(sender, frame)

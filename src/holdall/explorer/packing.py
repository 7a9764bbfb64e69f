"""States as byte strings of one width, and back: four bytes for each number, and as many as messages in flight need."""

from struct import Struct

from holdall.explorer.moves import State

GROWS_BY = 8
"""Bytes by which all states become wider when a message has a number that needs it; the further bytes are 0."""


class Packing:
    """Packs the states of one space."""

    def __init__(self, hosts: int) -> None:
        self._net = GROWS_BY
        layout = Struct(f"<{hosts + 1}I")
        self._pack, self._unpack, self._head = layout.pack, layout.unpack_from, layout.size

    @property
    def width(self) -> int:
        """Bytes of a state that is packed now; it may grow with each one."""
        return self._head + self._net

    def pack(self, state: State) -> bytes:
        """Locals of the hosts, the scene, the messages in flight -> bytes."""
        try:
            return self._pack(*state[:-2], state[-1]) + state[-2].to_bytes(self._net, "little")
        except OverflowError:
            self._net += GROWS_BY
            return self.pack(state)

    def unpack(self, packed: bytes) -> State:
        """The state of these bytes, packed at any time."""
        *locals_, scene = self._unpack(packed)
        return (*locals_, int.from_bytes(packed[self._head :], "little"), scene)

"""What a node asks of a bus: three calls, and two that it hears.

A bus may lose, repeat and reorder frames, and says nothing about it: order and repetition are the link's.
It never lies about the sender: that comes from the connection, never from the frame.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

OnFrame: TypeAlias = Callable[[str, bytes], None]
"""(id of the node that sent it, frame); called on the event loop."""

OnState: TypeAlias = Callable[[bool, str], None]
"""(whether frames can go out now, text for people); called on the event loop when it changes."""


class Bus(Protocol):
    """One node's access to its system's bus."""

    async def open(self, on_frame: OnFrame, on_state: OnState) -> None:
        """Begin. Returns at once also when nothing is reachable yet; goes on trying with growing pauses.

        Raises BadConfig for what waiting can't mend (keys, files, permissions).
        """
        ...

    def post(self, to: str, frame: bytes) -> None:
        """Send to the node with this id. Never blocks, never raises; may lose the frame."""
        ...

    async def close(self) -> None:
        """Everything that was posted is written if it can be; then nothing comes any more. Idempotent."""
        ...

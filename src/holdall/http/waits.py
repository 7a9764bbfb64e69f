"""Who waits and why, for those who look again and again: the answer may come a moment after the rest."""

import asyncio
import time
from collections.abc import Callable

from holdall.http.reading import Reading
from holdall.model import frames

MOMENT_S = 0.05
"""So long others wait for an answer that is under way."""
SHARE = 4.0
"""After an answer the node is left alone for so many times what it took."""


class Waits:
    """The newest answer to one question that takes the node long where thousands wait."""

    def __init__(self, reading: Reading, late: Callable[[], None]) -> None:
        """`late` is called when an answer has come for which nobody waited any more."""
        self._reading = reading
        self._late = late
        self._asking: asyncio.Task[list[frames.Listing]] | None = None
        self._told: list[frames.Listing] | None = None
        self._due_s = 0.0

    async def soon(self) -> list[frames.Listing]:
        """The newest answer; the first one is waited for, later ones only for a moment. Raises HoldallError."""
        told = self._told
        if told is not None and self._asking is None and time.monotonic() < self._due_s:
            return told
        asking = self._asking = self._asking or asyncio.get_running_loop().create_task(self._ask())
        await asyncio.wait([asking], timeout=None if told is None else MOMENT_S)
        if told is not None and not asking.done():
            asking.add_done_callback(self._come)
            return told
        self._asking = None
        self._told = told = asking.result()
        return told

    def forget(self) -> None:
        """Nobody looks any more: what was told gets old."""
        self._told = None

    def close(self) -> None:
        """End the question that is under way."""
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self) -> list[frames.Listing]:
        began = time.monotonic()
        try:
            return await self._reading.get("queue")
        finally:
            now = time.monotonic()
            self._due_s = now + SHARE * (now - began)

    def _come(self, asking: asyncio.Task[list[frames.Listing]]) -> None:
        if not asking.cancelled():
            asking.exception()  # raised where it is asked for next, if anybody does
            self._late()

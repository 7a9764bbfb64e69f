"""Units that guard themselves, as a device or a store would that is sent a fence with each use."""

import socket
import threading
from pathlib import Path

import msgspec
from system.stress_worker import Use

from holdall.client.history import HistoryWriter


class GuardedUnits(threading.Thread):
    """The units themselves: each refuses numbers below the highest it saw, and records what it did."""

    def __init__(self, path: Path, history: Path) -> None:
        super().__init__(daemon=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._history = history
        self._highest: dict[tuple[str, str], int] = {}

    def run(self) -> None:
        with HistoryWriter(self._history, "units") as history:
            while body := self._socket.recv(4096):
                use = msgspec.json.decode(body, type=Use)
                highest = self._highest.get((use.pool, use.unit), 0)
                accepted = use.fence >= highest
                self._highest[use.pool, use.unit] = max(use.fence, highest)
                history.use(use.pool, use.unit, fence=use.fence, start=history.now(), accepted=accepted)

    def stop(self) -> None:
        """An empty message ends it."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.connect(self._socket.getsockname())
            last.send(b"")
        self.join()
        self._socket.close()

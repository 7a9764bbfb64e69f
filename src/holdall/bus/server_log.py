"""Follows the log file of the nats-server, so that what it refused shows in the node's log.

A file and no pipe: a node that is stopped for a while would let a pipe fill, and its server would stand still too.
"""

import re
from collections.abc import Callable
from pathlib import Path

LEVELS = {"ERR": "error", "WRN": "warning", "FTL": "fatal"}
EXPECTED = ('Clients that are not using "TLS Handshake First" option',)
"""Warnings about what is wanted here."""
READ_BYTES_MAX = 256 * 1024
_LINE = re.compile(rb"^\[\d+\] \S+ \S+ \[(ERR|WRN|FTL)\] (.*)$", re.MULTILINE)


class LogTail:
    """`read` passes on each line of trouble that is new since the last time."""

    def __init__(self, path: Path, told: Callable[[str, str], None]) -> None:
        """`told` gets (level, text of the line)."""
        self.last = ""
        """The last line of an error."""
        self._path = path
        self._told = told
        self._at = 0

    def from_end(self) -> None:
        """Leave out what is there already."""
        self._at = self._size()

    def read(self) -> None:
        """A file that became shorter was begun anew."""
        size = self._size()
        if size < self._at:
            self._at = 0
        if size == self._at:
            return
        try:
            with self._path.open("rb") as file:
                file.seek(max(self._at, size - READ_BYTES_MAX))
                data = file.read(READ_BYTES_MAX)
        except OSError:
            return
        whole = data.rpartition(b"\n")[0]
        self._at = size - (len(data) - len(whole) - 1) if whole else size
        for level, text in _LINE.findall(whole):
            told = text.decode(errors="replace")[:500]
            if any(part in told for part in EXPECTED):
                continue
            if level != b"WRN":
                self.last = told
            self._told(LEVELS[level.decode()], told)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

"""The log of the HTTP server: one JSON object a line on standard error, in the form of the node's log."""

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

WHY_MAX = 2000
"""Letters of what a library says."""


def make_log() -> "Lines":
    """Writes to standard error; what the libraries say comes there, too, in the same form."""
    lines = Lines()
    logging.getLogger().addHandler(_OfLibraries(lines))
    return lines


class Lines:
    """A line is one write, so lines of the node and of this process don't mix."""

    def __call__(self, event: str, *, level: str = "info", **values: Any) -> None:
        at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        line = {**values, "event": event, "level": level, "timestamp": at, "part": "http"}
        sys.stderr.buffer.write(msgspec.json.encode(line, enc_hook=repr) + b"\n")
        sys.stderr.buffer.flush()


class _OfLibraries(logging.Handler):
    """A line for each record: what went wrong, not where in their code."""

    def __init__(self, lines: Lines) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        problem = record.exc_info[1] if record.exc_info else None
        why = record.getMessage().strip() + ("" if problem is None else f": {problem!r}")
        self._lines("a library says", level=record.levelname.lower(), library=record.name, why=why[:WHY_MAX])

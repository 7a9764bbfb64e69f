"""The log of the HTTP server: one JSON object a line on standard error, in the form of the node's log."""

import sys
from datetime import UTC, datetime
from typing import Any

import msgspec


def make_log() -> "Lines":
    """Writes to standard error."""
    return Lines()


class Lines:
    """A line is one write, so lines of the node and of this process don't mix."""

    def __call__(self, event: str, *, level: str = "info", **values: Any) -> None:
        at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        line = {**values, "event": event, "level": level, "timestamp": at, "part": "http"}
        sys.stderr.buffer.write(msgspec.json.encode(line, enc_hook=repr) + b"\n")
        sys.stderr.buffer.flush()

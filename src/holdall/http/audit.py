"""The audit log: one JSON line for each change by an operator or a job's user, and for each way in; chained by hashes.

Kicks, drains, cleared units, forgotten nodes, invitations, jobs that are begun, cancelled or forgotten, tokens, log-in links.
Each line has a hash over itself and the chain before it; whoever changes or removes a line breaks the chain from there
on. It shows tampering to who has kept a later hash; it does not keep the node's own user from writing all anew.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec

from holdall.model.decoding import decoded

NAME = "audit.jsonl"
_lines: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
LAST_BYTES_MAX = 64 * 1024
"""The last line is looked for in so much of the end of the file; lines are far shorter."""
TEXT_MAX = 1000


class Audit:
    """Appends; the file is opened for each line, so it may be rotated between two of them."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / NAME

    def write(self, line: dict[str, Any]) -> None:
        """One line, on the disk when this returns."""
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            before = _last_chain(descriptor)
            short = {
                name: value[:TEXT_MAX] if isinstance(value, str) else value for name, value in line.items()
            }
            chained = {**short, "chain": chain_of(before, short)}
            os.write(descriptor, msgspec.json.encode(chained) + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def chain_of(before: str, line: dict[str, Any]) -> str:
    """The hash that stands in a line: over the chain before it and the line without it."""
    return hashlib.sha256(before.encode() + b"\0" + msgspec.json.encode(line)).hexdigest()


def first_broken(text: bytes) -> int:
    """The number (from 1) of the first line that does not follow from the ones before; 0: none."""
    before = ""
    for number, raw in enumerate(text.splitlines(), start=1):
        try:
            line = decoded(_lines.decode, raw)
        except msgspec.DecodeError:
            return number
        chain = line.pop("chain", "")
        if chain != chain_of(before, line):
            return number
        before = chain
    return 0


def _last_chain(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    start = max(0, size - LAST_BYTES_MAX)
    lines = os.pread(descriptor, size - start, start).splitlines()
    if not lines:
        return ""
    try:
        return str(decoded(_lines.decode, lines[-1]).get("chain", ""))
    except msgspec.DecodeError:
        return "broken"

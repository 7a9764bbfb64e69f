"""Results of single runs in a file, so that a comparison that was broken off goes on where it was.

A line for each run: what was run, and what it showed. A run that is in the file is not made again; a line that was cut
off half way, or that another version of the lab wrote, is passed over, and its run is made anew. Whether the code of the
protocols is still the same the file does not know: begin with a new file after a change.
"""

from pathlib import Path
from typing import Generic, TypeVar

import msgspec

Job = TypeVar("Job", bound=msgspec.Struct)
Found = TypeVar("Found")


class _Line(msgspec.Struct, frozen=True):
    """One run as it stands in the file."""

    kind: str
    """Of the job: its class."""
    job: msgspec.Raw
    found: msgspec.Raw


class Keeper(Generic[Job, Found]):
    """The runs of one kind in the file at `path`; without a path nothing is kept. Raises OSError."""

    def __init__(self, path: Path | None, kind: type[Job], found: type[Found]) -> None:
        self._path = path
        self._kind = kind.__name__
        self._found = found
        self._known: dict[bytes, Found] = {}
        if path is not None and path.exists():
            for line in path.read_bytes().splitlines():
                self._read(line)

    def _read(self, text: bytes) -> None:
        try:
            line = msgspec.json.decode(text, type=_Line)
            if line.kind == self._kind:
                self._known[bytes(line.job)] = msgspec.json.decode(line.found, type=self._found)
        except msgspec.DecodeError:
            return

    def known(self, job: Job) -> Found | None:
        """What the run showed, where it was made before."""
        return self._known.get(msgspec.json.encode(job))

    def keep(self, job: Job, found: Found) -> None:
        """The run is over; its line is in the file when this returns."""
        if self._path is None:
            return
        line = _Line(
            self._kind, msgspec.Raw(msgspec.json.encode(job)), msgspec.Raw(msgspec.json.encode(found))
        )
        # a line that an earlier process did not finish must not swallow this one
        with self._path.open("ab") as file:
            file.write(b"\n" + msgspec.json.encode(line))

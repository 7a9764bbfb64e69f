"""One job as its node keeps it, and how its log is cut into frames."""

from collections.abc import Sequence

import msgspec

from holdall.model.job_frames import ENTRIES_BYTES_MAX, JobRow
from holdall.parties.jobs.messages import JobBody, JobRecord

LOOK_MS = 1_000
LOOK_MOST_MS = 30_000
"""How soon a job without a runner gets one; after failures less often."""


class Kept(msgspec.Struct):
    """One job."""

    record: JobRecord
    body: JobBody
    log: list[bytes] = []
    runner: tuple[str, int] | None = None
    """Connection that has taken it, and the number of its JobTake."""
    followers: dict[tuple[str, int], bool] = {}
    """(connection, request number)."""
    look_ms: int = LOOK_MS
    notes: tuple[tuple[str, str], ...] = ()

    @property
    def row(self) -> JobRow:
        return msgspec.structs.replace(self.record.row, entries=len(self.log))


def piece_of(entries: Sequence[bytes], *, full: bool) -> tuple[bytes, ...]:
    """As many of the first entries as a frame takes; few beside a job's body, which is in the first one."""
    room = ENTRIES_BYTES_MAX if full else 0
    piece: list[bytes] = []
    for entry in entries:
        room -= len(entry) + 8
        if room < 0:
            break
        piece.append(entry)
    return tuple(piece)

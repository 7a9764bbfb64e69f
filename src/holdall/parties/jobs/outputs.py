"""Forgotten jobs whose output may not be removed yet: each is asked about again until it is, or nobody can know where it is."""

from collections.abc import Iterable

import msgspec

from holdall.machine.contract import Address, Effect, Forget, Record, Save, Send
from holdall.model.job_frames import JobRow
from holdall.parties.jobs.messages import (
    RUNNERS,
    JobGone,
    OutputGone,
    RemoveOutput,
    UserKnown,
    UserUnknown,
)

UNKNOWN_USER_MS = 7 * 24 * 3600 * 1000
"""When its user has been unknown for so long without a break, nobody looks for a forgotten job's output any more."""


class Outputs:
    """A part of the machine `jobs`. Each change gives what is to be done."""

    def __init__(self, node: str) -> None:
        self.gone: dict[str, JobGone] = {}
        """By the job's printed id."""
        self._node = node

    def recover(self, records: Iterable[Record]) -> list[Effect]:
        """Those of before."""
        self.gone = {record.job: record for record in records if isinstance(record, JobGone)}
        return self._remove()

    def forgotten(self, row: JobRow) -> list[Effect]:
        """One more, whose output is to go."""
        return [self._save(JobGone(row.job, row.uid, row.user)), *self._remove()]

    def heard(self, message: OutputGone | UserUnknown | UserKnown, wall_ms: int) -> list[Effect]:
        """The driver's answer about one of them; of one that is settled it changes nothing."""
        gone = self.gone.get(message.job)
        if gone is None:
            return []
        match message:
            case OutputGone():
                return self._over(gone)
            case UserUnknown():
                return self._unknown(gone, wall_ms)
            case UserKnown():
                known = msgspec.structs.replace(gone, unknown_since_ms=None)
                return [] if known == gone else [self._save(known)]

    def _unknown(self, gone: JobGone, wall_ms: int) -> list[Effect]:
        """The list of users may be elsewhere and out of reach today; after long enough there is no such user."""
        if gone.unknown_since_ms is None:
            return [self._save(msgspec.structs.replace(gone, unknown_since_ms=wall_ms))]
        return self._over(gone) if wall_ms - gone.unknown_since_ms >= UNKNOWN_USER_MS else []

    def _over(self, gone: JobGone) -> list[Effect]:
        del self.gone[gone.job]
        return [Forget(f"gone/{gone.job}")]

    def _save(self, gone: JobGone) -> Effect:
        self.gone[gone.job] = gone
        return Save(f"gone/{gone.job}", gone)

    def _remove(self) -> list[Effect]:
        """Those of before, too: the driver tells of what is certainly removed when it is asked again."""
        runners = Address(self._node, RUNNERS)
        return [Send(runners, RemoveOutput(one.job, one.uid, one.user)) for one in self.gone.values()]

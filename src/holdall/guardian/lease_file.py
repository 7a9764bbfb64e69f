"""The file that `HOLDALL_LEASE_FILE` names: the lease as JSON, written anew with every renewal."""

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdall.guardian.clock import boottime_ms
from holdall.guardian.enforcement.figures import Figures, Kept
from holdall.model.frames import HeldUnit, LeaseView
from holdall.model.terms import LeaseDocument, Value

NOTHING = Figures()
NO_LIMITS: Mapping[str, Kept] = {}


def terms_of(document: LeaseDocument) -> dict[str, Value]:
    """What a negotiated lease grants, by term."""
    return {one.name: one.granted for one in document.terms}


class LeaseOnDisk(msgspec.Struct, frozen=True):
    """What the file holds. `*_ms` of the wall clock for people; `deadline_boottime_ms` is what counts."""

    v: int
    lease: str
    state: str
    """active, stopping or ended"""
    units: tuple[HeldUnit, ...]
    ttl_ms: int
    renewed_unix_ms: int
    expires_unix_ms: int | None
    until_unix_ms: int | None
    """The hard end; null: none."""
    deadline_boottime_ms: int | None
    """Stop using the units at this moment of CLOCK_BOOTTIME at the latest."""
    enforced: dict[str, Kept] = {}
    """How each limit of the command is kept."""
    used: Figures = Figures()
    """By the command, until the file was written."""
    terms: dict[str, Value] = {}
    """Of a negotiated lease: what is granted now, in base units."""


class LeaseFile:
    """Replaced as a whole, so a reader never sees half of it. Without a path it does nothing."""

    def __init__(self, path: str, lease: LeaseView) -> None:
        self.path = Path(path) if path else None
        self.lease = lease
        self.terms: Mapping[str, Value] = {}

    def write(
        self,
        *,
        state: str,
        deadline_ms: int | None,
        hard_end_ms: int | None,
        used: Figures = NOTHING,
        enforced: Mapping[str, Kept] = NO_LIMITS,
    ) -> None:
        """A full disk must not end a lease, so a failure is not raised; the old content stays."""
        if self.path is None:
            return
        now, wall = boottime_ms(), time.time_ns() // 1_000_000
        ends = [end for end in (deadline_ms, hard_end_ms) if end is not None]
        content = LeaseOnDisk(
            v=1,
            lease=self.lease.lease,
            state=state,
            units=self.lease.units,
            ttl_ms=self.lease.ttl_ms,
            renewed_unix_ms=wall,
            expires_unix_ms=None if deadline_ms is None else wall + deadline_ms - now,
            until_unix_ms=None if hard_end_ms is None else wall + hard_end_ms - now,
            deadline_boottime_ms=min(ends) if ends else None,
            enforced=dict(enforced),
            used=used,
            terms=dict(self.terms),
        )
        beside = self.path.with_suffix(".new")
        with contextlib.suppress(OSError):
            file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, msgspec.json.encode(content) + b"\n")
            finally:
                os.close(file)
            beside.replace(self.path)

    def remove(self) -> None:
        """With the folder that was made for it."""
        if self.path is None:
            return
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
            self.path.parent.rmdir()

"""What an agent keeps over a crash: sessions that have claims, claims, the node's history."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.model.frames import HeldUnit, LogRow, Need
from holdall.model.names import pool_name
from holdall.protocols.vocabulary import ClaimId, Stamp, UnitGrant

SESSION_PREFIX = "session/"
CLAIM_PREFIX = "claim/"
LOG_PREFIX = "log/"

Phase: TypeAlias = Literal["parked", "waiting", "preparing", "granted", "draining"]
"""`parked`: not sent to the pools yet (too many of its client wait there). `preparing`: has its units, their on_grant
runs. `draining`: revoked, the holder is stopping. A claim that has ended has no record."""


class SessionRecord(msgspec.Struct, frozen=True, tag="session"):
    """A session that has claims. Its secret is kept as a hash only."""

    session: str
    secret_hash: str
    uid: int
    user: str
    holder: str
    pid: int
    started: int


class Share(msgspec.Struct, frozen=True, order=True):
    """How many units of a pool serve a need. `count` ALL: all of the pool."""

    need: int
    pool: str
    count: int


class ClaimRecord(msgspec.Struct, frozen=True, tag="claim"):
    """A claim from its arrival to its end; with its lease once it has one."""

    claim: ClaimId
    """Its id at the pools; another one when it has had to be asked for anew (its age and printed id stay)."""
    printed: str
    session: str
    """Empty: the node holds it (detached)."""
    n: int
    """Number of the request in its session."""
    key_hash: str
    uid: int
    user: str
    holder: str
    pid: int
    needs: tuple[Need, ...]
    shares: tuple[tuple[Share, ...], ...]
    """Which need each unit serves, for each of the vectors asked for, in the same order."""
    ttl_ms: int
    phase: Phase = "waiting"
    for_ms: int | None = None
    """Counted from the grant."""
    wait_ms: int | None = None
    asked_wait_ms: int | None = None
    """For texts: the whole wait, when the claim came here with the rest of it only. None: `wait_ms` is all."""
    now: bool = False
    narrow: bool = False
    """More placements exist than were asked for: plan again when units come free."""
    guarded: bool = False
    in_guard: bool = False
    """A guardian has attached it, so that a command may run under it."""
    detached: bool = False
    allow_future: bool = False
    reason: str = ""
    site: str = ""
    beside: str = ""
    """Printed id of the lease in whose scope it was claimed all the same: outside the guarantee of no deadlock."""
    asked_wall_ms: int = 0
    asked_boot_ms: int = 0
    granted_wall_ms: int = 0
    granted_boot_ms: int = 0
    attempt: int = 0
    stamp: Stamp | None = None
    grants: tuple[UnitGrant, ...] = ()
    serves: tuple[int, ...] = ()
    """For each of `grants` the index of the need that it serves."""
    companions: tuple[ClaimId, ...] = ()
    """Claims of exchanges whose units are part of this lease."""
    revoked: str = ""
    """Why it was kicked."""

    def units(self, name_of: Callable[[str], str]) -> tuple[HeldUnit, ...]:
        """What it holds, for people and programs; `name_of`: what people call a node."""
        return tuple(
            HeldUnit(
                pool=pool_name(grant.pool),
                name=grant.unit,
                node=name_of(grant.node),
                fence=grant.fence,
                need=need,
            )
            for grant, need in zip(self.grants, self.serves, strict=True)
        )

    def parties(self) -> tuple[ClaimId, ...]:
        """All claims whose units are in this lease."""
        return (self.claim, *self.companions)


class LogRecord(msgspec.Struct, frozen=True, tag="log"):
    """One row of the history."""

    row: LogRow


AgentRecord: TypeAlias = SessionRecord | ClaimRecord | LogRecord

CODEC.register("agent", AgentRecord)

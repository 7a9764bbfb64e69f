"""What an agent keeps over a crash: sessions that have claims, claims, the node's history."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.model.frames import HeldUnit, LogRow, Need
from holdall.model.names import pool_name
from holdall.protocols.chain.claims import sibling
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
    unheard_boot_ms: int = 0
    """CLOCK_BOOTTIME of the first start of this node since which nothing was heard of it; 0: it was heard since."""


class Share(msgspec.Struct, frozen=True, order=True):
    """How many units of a node's pool serve a need. `count` ALL: all of the pool."""

    need: int
    node: str
    """Its id; empty: a node that is not known yet."""
    pool: str
    count: int


Way: TypeAlias = tuple[Share, ...]
"""One way to serve all needs of a claim, on one node or over several."""


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
    shares: tuple[Way, ...]
    """The ways to serve it that are asked for: which units serve which need. See `planning.placements`."""
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
    stranded: bool = False
    """Parked because nodes that it needs together are away: it holds nothing anywhere until they are back."""
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
    placed: int = 0
    """Which of its placements has been granted, as the claimant numbers them."""
    preparing: tuple[str, ...] = ()
    """Nodes whose on_grant commands have not ended yet."""
    stamp: Stamp | None = None
    """Its age, where it is known and the claim may have to come again."""
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
        """All claims whose units are in this lease, as the pools know them."""
        return (sibling(self.claim, self.placed), *self.companions)

    def ids(self) -> tuple[ClaimId, ...]:
        """The same as this agent and its claimant know them."""
        return (self.claim, *self.companions)

    @property
    def is_outside(self) -> bool:
        """Its command runs on a host without a node, where no pool of reach `host` is of use to it."""
        return self.guarded and not self.pid

    @property
    def nodes(self) -> tuple[str, ...]:
        """Ids of the nodes that it has units of, ascending."""
        return tuple(sorted({grant.node for grant in self.grants}))


class LogRecord(msgspec.Struct, frozen=True, tag="log"):
    """One row of the history."""

    row: LogRow


AgentRecord: TypeAlias = SessionRecord | ClaimRecord | LogRecord

CODEC.register("agent", AgentRecord)

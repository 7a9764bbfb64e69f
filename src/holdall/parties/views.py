"""What an agent reads of its own node's pools: both live in one process, and reading changes nothing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from holdall.leases.messages import PoolSpec
from holdall.leases.records import LeaseRecord
from holdall.leases.renewal import Quiet
from holdall.model.frames import UnitRow
from holdall.parties.planning.ways import PoolFacts
from holdall.protocols.vocabulary import ClaimId, Stamp, Vector


class Obstacle(msgspec.Struct, frozen=True):
    """A claim in the way of another at one pool: with the units it has there, or (none) waiting in front."""

    claim: ClaimId
    pool: str
    units: tuple[str, ...] = ()


class LineView(msgspec.Struct, frozen=True):
    """A waiting claim's place in line on this node. Words as in `model.why.Why`."""

    position: int
    waiting: int
    ahead: int
    overtaken: int
    passes_left: int
    passes_bound: int
    blocked: tuple[str, ...]
    """Pools where it can't have what it wants; none when it would be served but for the quarantine."""
    kept: tuple[tuple[str, int], ...]
    """(pool, units that are free there and kept for older claims that must not be passed any more), where some are."""
    obstacles: tuple[Obstacle, ...]
    """First those that have units, then those in front; the first few of many."""
    more: int
    """How many obstacles are left out."""
    stamp: Stamp
    parked: bool = False
    """A limit of its holder keeps it back."""


class RowView(msgspec.Struct, frozen=True):
    """What a claim has or waits for at this node by one of its placements. `line` is None once it has its units."""

    claim: ClaimId
    nodes: tuple[str, ...]
    """Of the placement, in order."""
    pools: tuple[str, ...]
    line: LineView | None
    stamp: Stamp
    passes_bound: int
    overtaken: int
    ahead: int


class PoolCounts(msgspec.Struct, frozen=True):
    """One pool in numbers: `total` = `free` + `held` + `unusable`."""

    spec: PoolSpec
    total: int
    free: int
    held: int
    unusable: int
    waiting: int


class AgesView(Protocol):
    """What an agent reads of its node's claimant."""

    def age_of(self, claim: ClaimId) -> Stamp | None:
        """The oldest age that a placement of this claim is known to have; None: none has been told yet."""
        ...


class LifeView(Protocol):
    """What an agent reads of its node's claimant's side about a lease, named by its claims (`ClaimRecord.parties`)."""

    def left_ms(self, claims: Iterable[ClaimId]) -> int | None:
        """How long its other nodes have confirmed it, from now; None: it has units of this node only."""
        ...

    def may_go_on(self, claims: Iterable[ClaimId]) -> bool:
        """False after a restart of this node until all others have confirmed it."""
        ...

    def quiet(self, claims: Iterable[ClaimId]) -> tuple[Quiet, ...]:
        """Nodes where it has units, or waits, that don't answer renewals, by id."""
        ...


class PoolView(Protocol):
    """The pool's side of this node."""

    @property
    def epoch(self) -> int:
        """The manager's."""
        ...

    @property
    def granting(self) -> bool:
        """False in the quarantine after a restart."""
        ...

    @property
    def draining(self) -> bool:
        """Whether the node gives no units any more."""
        ...

    def facts(self, names: Iterable[str] | None = None) -> Sequence[PoolFacts]:
        """The pools of these names (None: all) for planning, by pool id."""
        ...

    def pools(self) -> Sequence[str]:
        """All pool ids, those included that have left the configuration and still have held units."""
        ...

    def spec(self, pool: str) -> PoolSpec | None:
        """How the pool is configured; None: there is none of that id."""
        ...

    def counts(self, pool: str) -> PoolCounts | None:
        """The pool in numbers."""
        ...

    def unit_rows(self, pool: str) -> Sequence[tuple[UnitRow, ClaimId | None]]:
        """The pool's units in order, `lease` and `holder` empty, with the claim that has each."""
        ...

    def free_of(self, vector: Vector) -> bool:
        """Whether so many units are free now."""
        ...

    def line(self, claim: ClaimId, obstacles_max: int) -> LineView | None:
        """A waiting claim's place; None: it doesn't wait here."""
        ...

    def rows_of(self, claim: ClaimId, obstacles_max: int) -> Sequence[RowView]:
        """The places of a claim (as its agent calls it) here, one for each of its placements."""
        ...

    def age_of(self, claim: ClaimId) -> Stamp | None:
        """The age of a claim that waits here; None: it doesn't."""
        ...

    def if_it_came(self, pools: Iterable[str]) -> tuple[int, int]:
        """Of a claim for these pools that would come now: (how many wait before it, how many could pass it)."""
        ...

    def waiting_of_others(self) -> Sequence[ClaimId]:
        """Claims of other nodes that wait here, as their agents call them, oldest first."""
        ...

    def leases_of_others(self) -> Sequence[LeaseRecord]:
        """Leases here of claims of other nodes."""
        ...

    def holders(self, pool: str) -> Mapping[ClaimId, tuple[str, ...]]:
        """Who has which units of the pool, in the order of the units."""
        ...

    def waiting(self) -> Sequence[ClaimId]:
        """All waiting claims, oldest first."""
        ...

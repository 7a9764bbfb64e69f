"""What an agent reads of its own node's pools: both live in one process, and reading changes nothing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from holdall.leases.messages import PoolSpec
from holdall.model.frames import UnitRow
from holdall.parties.planning import PoolFacts
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


class PoolCounts(msgspec.Struct, frozen=True):
    """One pool in numbers: `total` = `free` + `held` + `unusable`."""

    spec: PoolSpec
    total: int
    free: int
    held: int
    unusable: int
    waiting: int


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

    def holders(self, pool: str) -> Mapping[ClaimId, tuple[str, ...]]:
        """Who has which units of the pool, in the order of the units."""
        ...

    def waiting(self) -> Sequence[ClaimId]:
        """All waiting claims, oldest first."""
        ...

"""What can be read of a pool's side without its protocol: facts for planning, numbers and units for listings."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from holdall.leases.messages import PoolSpec
from holdall.leases.records import LeaseRecord
from holdall.leases.units import Unit
from holdall.model.frames import UnitRow
from holdall.parties.planning.ways import PoolFacts, free_now
from holdall.parties.side import Side
from holdall.parties.views import PoolCounts
from holdall.protocols.vocabulary import ClaimId, Vector

S = TypeVar("S", bound=Side[Any])


class BookView(ABC, Generic[S]):
    """The part of `views.PoolView` that the lease book answers. Reads only."""

    def __init__(self, side: S) -> None:
        self._side = side
        self._read_at = -1
        self._named: dict[str, list[str]] = {}
        """Pool name -> pool ids, for the configuration that `_named_for` is."""
        self._named_for: frozenset[str] | None = None
        self._holders: dict[str, dict[ClaimId, tuple[str, ...]]] = {}
        """Pool -> who has which units there, as long as the side has not changed."""

    @property
    def epoch(self) -> int:
        """The manager's."""
        epoch: int = self._side.manager.epoch
        return epoch

    @property
    def granting(self) -> bool:
        """False in the quarantine after a restart."""
        return self._side.book.may_grant()

    @property
    def draining(self) -> bool:
        """Whether the node gives no units any more."""
        return self._side.book.service.draining

    def facts(self, names: Iterable[str] | None = None) -> Sequence[PoolFacts]:
        """The configured pools, by pool id. Units out of service exist, those that leave the configuration don't."""
        service = self._side.book.service
        pools = service.pools
        if self._named_for is not service.configured:
            self._named_for = service.configured
            self._named = {}
            for name in sorted(service.configured):
                self._named.setdefault(pools[name].spec.name, []).append(name)
        wanted = sorted(self._named if names is None else set(names))
        return [
            PoolFacts(
                pool=name,
                name=pools[name].spec.name,
                labels=pools[name].spec.labels,
                total=len(pools[name].spec.units),
                free=pools[name].free_count(),
                node=self._side.node,
                host_only=pools[name].spec.reach == "host",
            )
            for name in sorted(pool for one in wanted for pool in self._named.get(one, ()))
        ]

    def pools(self) -> Sequence[str]:
        """All pool ids, ascending."""
        return sorted(self._side.book.service.pools)

    def spec(self, pool: str) -> PoolSpec | None:
        """How the pool is configured."""
        known = self._side.book.service.pools.get(pool)
        return None if known is None else known.spec

    def counts(self, pool: str) -> PoolCounts | None:
        """The pool in numbers."""
        known = self._side.book.service.pools.get(pool)
        if known is None:
            return None
        total, free, held = len(known.units), known.free_count(), known.held
        return PoolCounts(
            spec=known.spec,
            total=total,
            free=free,
            held=held,
            unusable=total - free - held,
            waiting=self.waiting_at(pool),
        )

    @abstractmethod
    def waiting_at(self, pool: str) -> int:
        """How many claims wait at the pool."""

    def unit_rows(self, pool: str) -> Sequence[tuple[UnitRow, ClaimId | None]]:
        """The pool's units in order, with the claim that has each."""
        known = self._side.book.service.pools.get(pool)
        if known is None:
            return ()
        return [
            (
                UnitRow(unit=unit.name, state=self._state_of(unit), fence=unit.fence, note=unit.note),
                None if unit.claim is None else unit.claim[0],
            )
            for unit in known.in_order()
        ]

    def _state_of(self, unit: Unit) -> str:
        state = unit.state(draining=self._side.book.service.draining)
        lease = None if unit.claim is None else self._side.book.leases.get(unit.claim)
        # Of a claim that still waits at another node nobody uses them yet.
        return "booked" if state == "held" and lease is not None and not lease.active else state

    def free_of(self, vector: Vector) -> bool:
        """Whether so many units are free now."""
        pools = self._side.book.service.pools
        return free_now(vector, {pool: pools[pool].free_count() for pool, _ in vector if pool in pools})

    def leases_of_others(self) -> Sequence[LeaseRecord]:
        """Leases here of claims of other nodes."""
        own = self._side.node
        return [record for record in self._side.book.leases.values() if record.claim.node != own]

    def holders(self, pool: str) -> Mapping[ClaimId, tuple[str, ...]]:
        """Who has which units of the pool; read from the units once a turn."""
        if self._read_at != self._side.turns:
            self._holders.clear()
            self._read_at = self._side.turns
        known = self._holders.get(pool)
        if known is None:
            units: dict[ClaimId, list[str]] = {}
            pool_units = self._side.book.service.pools.get(pool)
            for unit in () if pool_units is None else pool_units.in_order():
                if unit.claim is not None:
                    units.setdefault(unit.claim[0], []).append(unit.name)
            known = self._holders[pool] = {claim: tuple(names) for claim, names in units.items()}
        return known

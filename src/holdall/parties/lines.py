"""The reading side of a pool's side: facts for planning, numbers and units for listings, a claim's place in line."""

from collections.abc import Iterable, Mapping, Sequence

from holdall.leases.messages import PoolSpec
from holdall.leases.records import LeaseRecord
from holdall.leases.units import Unit
from holdall.model.frames import UnitRow
from holdall.parties.planning.ways import PoolFacts, free_now
from holdall.parties.pool_side import PoolSide
from holdall.parties.views import LineView, Obstacle, PoolCounts, RowView
from holdall.protocols.chain.claims import SIBLINGS_MAX, family_of, sibling
from holdall.protocols.chain.rows import Row, is_limit_pool
from holdall.protocols.vocabulary import ClaimId, Stamp, Vector


class PoolSideView:
    """Implements `views.PoolView` over a pool's side. Reads only."""

    def __init__(self, side: PoolSide) -> None:
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
        return self._side.manager.epoch

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
            waiting=self._side.manager.counts.all_waiting((pool,)),
        )

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

    def line(self, claim: ClaimId, obstacles_max: int) -> LineView | None:
        """A waiting claim's place."""
        row = self._side.manager.rows.get(claim)
        if row is None or row.active:
            return None
        counts = self._side.manager.counts
        pools = [pool for pool, _ in row.most]
        blocked = [pool for pool in pools if counts.blocked(row, pool)] if self.granting else []
        obstacles, more = self._obstacles(row, blocked, obstacles_max)
        kept: list[tuple[str, int]] = []
        for pool in pools:
            free = max(counts.free(pool), 0)
            aside = min(free, counts.kept_for_spent(pool, row.age, free))
            if aside:
                kept.append((pool, aside))
        return LineView(
            position=counts.older_waiting(pools, row.age) + 1,
            waiting=counts.all_waiting(pools),
            ahead=row.ahead,
            overtaken=row.overtaken,
            passes_left=row.left,
            passes_bound=row.bound,
            blocked=tuple(blocked),
            kept=tuple(kept),
            obstacles=obstacles,
            more=more,
            stamp=row.stamp,
            parked=claim in counts.parked,
        )

    def rows_of(self, claim: ClaimId, obstacles_max: int) -> Sequence[RowView]:
        """The places of a claim (as its agent calls it) here, one for each of its placements."""
        rows = self._side.manager.rows
        parties = (sibling(claim, number) for number in range(SIBLINGS_MAX))
        return [
            RowView(
                claim=row.claim,
                nodes=tuple(visit.node for visit in row.need),
                pools=tuple(pool for pool, _ in row.most if not is_limit_pool(pool)),
                line=self.line(row.claim, obstacles_max),
                stamp=row.stamp,
                passes_bound=row.bound,
                overtaken=row.overtaken,
                ahead=row.ahead,
            )
            for party in parties
            if (row := rows.get(party)) is not None
        ]

    def age_of(self, claim: ClaimId) -> Stamp | None:
        """The age of a claim that waits here; None: it doesn't."""
        row = self._side.manager.rows.get(claim)
        return None if row is None or row.active else row.stamp

    def if_it_came(self, pools: Iterable[str]) -> tuple[int, int]:
        """Of a claim for these pools that would come now: (how many wait before it, how many could pass it)."""
        settings = self._side.manager.settings
        ahead = self._side.manager.counts.all_waiting(sorted(set(pools)))
        return ahead, settings.passes + settings.passes_per_ahead * ahead

    def waiting_of_others(self) -> Sequence[ClaimId]:
        """Claims of other nodes that wait here, as their agents call them, oldest first."""
        own = self._side.node
        rows = [row for row in self._side.manager.rows.values() if row.claim.node != own and not row.active]
        return list(dict.fromkeys(family_of(row.claim) for row in sorted(rows, key=lambda row: row.age)))

    def leases_of_others(self) -> Sequence[LeaseRecord]:
        """Leases here of claims of other nodes."""
        own = self._side.node
        return [record for record in self._side.book.leases.values() if record.claim.node != own]

    def waiting(self) -> Sequence[ClaimId]:
        """All waiting claims, oldest first."""
        rows = [row for row in self._side.manager.rows.values() if not row.active]
        return [row.claim for row in sorted(rows, key=lambda row: row.age)]

    def _obstacles(self, row: Row, blocked: Sequence[str], most: int) -> tuple[tuple[Obstacle, ...], int]:
        found: list[Obstacle] = []
        number = 0
        for pool in blocked:
            if is_limit_pool(pool):
                continue
            holders = self.holders(pool)
            number += len(holders)
            for claim, units in holders.items():
                if len(found) >= most:
                    break
                found.append(Obstacle(claim, pool, units))
        for pool in blocked:
            in_front = self._side.manager.counts.in_front(pool, row.age)
            number += len(in_front)
            for _, claim in in_front[:most]:
                if len(found) < most:
                    found.append(Obstacle(claim, pool))
        return tuple(found), number - len(found)

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

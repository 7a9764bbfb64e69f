"""The reading side of a chain's pools: a claim's place in line, and who else is there."""

from collections.abc import Iterable, Sequence

from holdall.parties.book_view import BookView
from holdall.parties.pool_side import PoolSide
from holdall.parties.views import LineView, Obstacle, RowView
from holdall.protocols.chain.claims import SIBLINGS_MAX, family_of, sibling
from holdall.protocols.chain.rows import Row, is_limit_pool
from holdall.protocols.vocabulary import ClaimId, Stamp


class PoolSideView(BookView[PoolSide]):
    """Implements `views.PoolView` over the chain's pool side. Reads only."""

    def waiting_at(self, pool: str) -> int:
        """Rows that wait and want the pool."""
        return self._side.manager.counts.all_waiting((pool,))

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

"""The reading side of a node's pools by pool: a claim's place in each line, and who else is there."""

from collections.abc import Iterable, Sequence
from typing import Any

from holdall.parties.book_view import BookView
from holdall.parties.by_pool.pools import PoolsByPool
from holdall.parties.views import LineView, Obstacle, RowView
from holdall.protocols.by_pool.messages import Entry
from holdall.protocols.vocabulary import ClaimId, Stamp


class PoolsByPoolView(BookView[PoolsByPool]):
    """Implements `views.PoolView` over a pool's side of any protocol by pool. Reads only.

    These protocols serve in their own strict order, so nobody may pass in the sense of the chain, and no age is shown.
    """

    def waiting_at(self, pool: str) -> int:
        """Entries without units."""
        return self._side.manager.waiting.get(pool, 0)

    def line(self, claim: ClaimId, obstacles_max: int) -> LineView | None:
        """A waiting claim's place: in the longest of its lines here."""
        here = list(self._side.manager.of_claim(claim))
        waits = [entry for entry in here if not entry.held]
        if not waits:
            return None
        lines = {entry.pool: self._side.manager.line(entry.pool) for entry in waits}
        ahead = max(_ahead(lines[entry.pool], entry) for entry in waits)
        obstacles, more = self._obstacles(claim, lines, obstacles_max)
        return LineView(
            position=ahead + 1,
            waiting=max(len(line) for line in lines.values()),
            ahead=ahead,
            overtaken=0,
            passes_left=0,
            passes_bound=0,
            blocked=tuple(sorted(lines)) if self.granting else (),
            kept=(),
            obstacles=obstacles,
            more=more,
            stamp=_stamp(waits[0]),
        )

    def rows_of(self, claim: ClaimId, obstacles_max: int) -> Sequence[RowView]:
        """What the claim has or waits for here; these protocols know one placement of it."""
        here = list(self._side.manager.of_claim(claim))
        if not here:
            return ()
        line = self.line(claim, obstacles_max)
        pools = tuple(sorted({entry.pool for entry in here}))
        return (
            RowView(
                claim=claim,
                nodes=(self._side.node,),
                pools=pools,
                line=line,
                stamp=_stamp(here[0]),
                passes_bound=0,
                overtaken=0,
                ahead=0 if line is None else line.ahead,
            ),
        )

    def age_of(self, claim: ClaimId) -> Stamp | None:
        """No age is kept that could be brought along."""
        del claim
        return None

    def if_it_came(self, pools: Iterable[str]) -> tuple[int, int]:
        """Of a claim for these pools that would come now: (how many wait before it, how many could pass it)."""
        return max((self.waiting_at(pool) for pool in pools), default=0), 0

    def waiting_of_others(self) -> Sequence[ClaimId]:
        """Claims of other nodes that wait here, first ones first."""
        return [claim for claim in self.waiting() if claim.node != self._side.node]

    def waiting(self) -> Sequence[ClaimId]:
        """All waiting claims, pool by pool, first ones first."""
        manager = self._side.manager
        pools = [pool for pool in sorted(manager.waiting) if manager.waiting[pool]]
        return list(dict.fromkeys(entry.claim for pool in pools for entry in manager.line(pool)))

    def _obstacles(
        self, claim: ClaimId, lines: dict[str, Sequence[Entry]], most: int
    ) -> tuple[tuple[Obstacle, ...], int]:
        having = [
            Obstacle(holder, pool, units)
            for pool in sorted(lines)
            for holder, units in self.holders(pool).items()
            if holder != claim
        ]
        before: list[Obstacle] = []
        for pool in sorted(lines):
            for entry in lines[pool]:
                if entry.claim == claim:
                    break
                before.append(Obstacle(entry.claim, pool))
        found = [*having, *before]
        return tuple(found[:most]), max(0, len(found) - most)


def _ahead(line: Sequence[Entry], entry: Entry) -> int:
    return next((place for place, other in enumerate(line) if other.claim == entry.claim), len(line))


def _stamp(entry: Any) -> Stamp:
    return Stamp(0, entry.claim.node, entry.claim, entry.attempt)

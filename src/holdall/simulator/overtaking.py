"""Measures, without the chain's own counting, how often waiting rows are passed, against the bound users are told.

A row is passed by each younger one that becomes active while it waits, with a pool that it wants. That is the chain's
definition where every pool has one unit; elsewhere nothing is measured. A restart of the node begins the count anew, as
its bound says. Source: chain specification, section 3 (bound) and section 8 (meter).
"""

from collections.abc import Mapping

from holdall.protocols.chain.rows import Row
from holdall.protocols.vocabulary import ClaimId, Stamp

Attempt = tuple[ClaimId, int]


class _Seen:
    __slots__ = ("allowed", "passed", "pools", "stamp")

    def __init__(self, stamp: Stamp, pools: frozenset[str], allowed: int) -> None:
        self.stamp = stamp
        self.pools = pools
        self.allowed = allowed
        self.passed = 0


class Overtaking:
    """One node's rows over the turns of a run."""

    def __init__(self, node: str, *, passes: int, passes_per_ahead: int) -> None:
        self.node = node
        self.most = 0
        """Most passes of one row so far."""
        self._passes = passes
        self._passes_per_ahead = passes_per_ahead
        self._rows: dict[Attempt, _Seen] = {}
        self._active: set[Attempt] = set()
        self._waiting: set[Attempt] = set()

    def restarted(self) -> None:
        """The node came up again: a restart may give back the passes since a row was last saved."""
        for seen in self._rows.values():
            seen.passed = 0
        self._active.clear()
        self._waiting.clear()

    def turn(self, rows: Mapping[ClaimId, Row]) -> list[str]:
        """The rows after a turn. Returns each bound that is exceeded, as a text."""
        active: set[Attempt] = set()
        waiting: set[Attempt] = set()
        fresh: list[Row] = []
        for row in rows.values():
            party = (row.claim, row.attempt)
            (active if row.active else waiting).add(party)
            if not row.active and party not in self._waiting:
                fresh.append(row)
        wrong: list[str] = []
        for winner in sorted(active - self._active):
            row = rows[winner[0]]
            taken = {pool for pool, units in row.vector if units}
            wrong += self._passed_by(row.stamp, taken, waiting)
        for row in sorted(fresh, key=lambda row: row.stamp):
            # A turn inserts before it serves: older rows that it served waited when this one came.
            self._insert(row, waiting | self._waiting)
        self._active, self._waiting = active, waiting
        return wrong

    def _passed_by(self, stamp: Stamp, taken: set[str], waiting: set[Attempt]) -> list[str]:
        wrong: list[str] = []
        for party in sorted(waiting & self._waiting):
            seen = self._rows[party]
            if seen.stamp < stamp and not taken.isdisjoint(seen.pools):
                seen.passed += 1
                self.most = max(self.most, seen.passed)
                if seen.passed > seen.allowed:
                    wrong.append(
                        f"bound: {party[0]} was passed {seen.passed} times at {self.node}; "
                        f"its bound is {seen.allowed}"
                    )
        return wrong

    def _insert(self, row: Row, waiting: set[Attempt]) -> None:
        party = (row.claim, row.attempt)
        if party in self._rows:
            return  # it was here before and comes back from a kill: its passes go on
        pools = frozenset(pool for vector in row.wants for pool, _ in vector)
        ahead = sum(
            1
            for other in waiting
            if other in self._rows
            and self._rows[other].stamp < row.stamp
            and not pools.isdisjoint(self._rows[other].pools)
        )
        allowed = self._passes + self._passes_per_ahead * ahead
        self._rows[party] = _Seen(row.stamp, pools, allowed)

"""Sums over the account: for each group and term how much was held for how long, used and denied.

Amounts of different terms are never added up. A stretch counts with the part of it that lies after `since`; what was used
counts where its stretch ended, as it is known as a whole only.
"""

from collections.abc import Callable, Mapping

from holdall.model.frames import UsageRow
from holdall.node.accounting.intervals import Row

Key = Callable[[Row], str]

GROUPS: Mapping[str, Key] = {
    "affiliation": lambda row: row.held.affiliation,
    "holder": lambda row: row.held.holder,
    "pool": lambda row: row.held.term,
    "unit": lambda row: f"{row.held.term}/{row.held.unit}" if row.held.unit else row.held.term,
    "lease": lambda row: row.held.lease,
    "end": lambda row: row.why or "still held",
}
"""What `--by` can be. `pool` are pools, capacities and functions by name."""


class _Sum:
    def __init__(self) -> None:
        self.kind = ""
        self.leases: set[int] = set()
        self.more_leases = 0
        """Of sums that were made before."""
        self.stretches = 0
        self.held_ms = 0
        self.amount_ms = 0
        self.used = self.denied = self.violated_s = 0
        self.now = 0


class Totals:
    """Add rows in any order, then read."""

    def __init__(self, by: str, since_ms: int = 0, *, key: Key | None = None) -> None:
        """`since_ms`: an instant of the account. `key`: groups in another way. Raises KeyError for a `by` that is not in `GROUPS`."""
        self._key, self._since_ms = key or GROUPS[by], since_ms
        self._sums: dict[tuple[str, str], _Sum] = {}

    def add(self, row: Row, *, open_now: bool = False) -> None:
        """One stretch; of one that ended before `since` nothing counts."""
        if row.ended_ms < self._since_ms or (row.ended_ms == self._since_ms and not open_now):
            return
        found = self._sums.setdefault((self._key(row), row.held.term), _Sum())
        held_ms = row.ended_ms - max(row.began_ms, self._since_ms)
        found.kind = row.held.kind
        found.leases.add(hash(row.held.lease))
        found.stretches += 1
        found.held_ms += held_ms
        found.amount_ms += row.held.amount * held_ms
        found.used += row.use.used
        found.denied += row.use.denied
        found.violated_s += row.use.violated_s
        found.now += row.held.amount if open_now else 0

    def add_sum(self, known: UsageRow) -> None:
        """What other rows said together; none of their leases is among those of rows that are added."""
        found = self._sums.setdefault((known.group, known.term), _Sum())
        found.kind = known.kind
        found.more_leases += known.leases
        found.stretches += known.stretches
        found.held_ms += known.held_ms
        found.amount_ms += int(known.amount_ms)
        found.used += known.used
        found.denied += known.denied
        found.violated_s += known.violated_s
        found.now += known.now

    def discount(self, row: Row) -> None:
        """The row's lease is counted elsewhere for this row's group."""
        found = self._sums.get((self._key(row), row.held.term))
        if found is not None:
            found.leases.discard(hash(row.held.lease))

    def rows(self) -> tuple[UsageRow, ...]:
        """By group and term."""
        return tuple(
            UsageRow(
                group=group,
                term=term,
                kind=one.kind,
                leases=len(one.leases) + one.more_leases,
                stretches=one.stretches,
                held_ms=one.held_ms,
                amount_ms=str(one.amount_ms),
                used=one.used,
                denied=one.denied,
                violated_s=one.violated_s,
                now=one.now,
            )
            for (group, term), one in sorted(self._sums.items())
        )

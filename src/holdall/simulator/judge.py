"""The judge: what must hold at every moment of a run, whatever strikes it.

It believes nobody: what clients may use comes from what they were told, unit by unit; what managers have given
comes from their books after each of their turns. It shares no code with the protocols' counting.
"""

from collections.abc import Iterable, Mapping

from holdall.protocols.vocabulary import UnitGrant

UnitKey = tuple[str, str, str]


class Judge:
    """Who may use which unit now, by the clients' own knowledge. Violations are texts; the first ends a run."""

    def __init__(self, capacity: Mapping[tuple[str, str], int]) -> None:
        self._capacity = dict(capacity)
        self._user: dict[UnitKey, int] = {}
        self._fence: dict[UnitKey, int] = {}
        self.violations: list[str] = []

    def granted(self, client: int, units: Iterable[UnitGrant], wanted: Mapping[tuple[str, str], int]) -> None:
        """A client was told that it has `units`; it asked for `wanted` units of each (node, pool)."""
        got: dict[tuple[str, str], int] = {}
        for unit in units:
            key = (unit.node, unit.pool, unit.unit)
            got[key[:2]] = got.get(key[:2], 0) + 1
            user = self._user.get(key)
            if user is not None:
                self.violations.append(
                    f"exclusion: {unit.pool}/{unit.unit}@{unit.node} has clients {user} and {client}"
                )
            if unit.fence <= self._fence.get(key, 0):
                self.violations.append(
                    f"fence: {unit.pool}/{unit.unit}@{unit.node} was given with {unit.fence} "
                    f"after {self._fence[key]}"
                )
            self._user[key] = client
            self._fence[key] = unit.fence
        if got != dict(wanted):
            self.violations.append(
                f"all or nothing: client {client} asked for {dict(wanted)} and was told {got}"
            )

    def used_again(self, client: int, units: Iterable[UnitGrant]) -> None:
        """A client goes on with its lease after it has stood still: nobody else may have the units."""
        for unit in units:
            key = (unit.node, unit.pool, unit.unit)
            if key in self._user or self._fence.get(key) != unit.fence:
                self.violations.append(
                    f"exclusion: client {client} goes on with {unit.pool}/{unit.unit}@{unit.node}, "
                    "which was given to another meanwhile"
                )
            self._user[key] = client

    def stopped(self, client: int, units: Iterable[UnitGrant]) -> None:
        """The client uses these units no longer (given back, lost, or the client is dead)."""
        for unit in units:
            key = (unit.node, unit.pool, unit.unit)
            if self._user.get(key) == client:
                del self._user[key]

    def used(self, node: str, used: Mapping[str, int]) -> None:
        """A manager's own books after a turn: units given per pool."""
        for pool, units in used.items():
            if not 0 <= units <= self._capacity.get((node, pool), 0):
                self.violations.append(
                    f"capacity: pool {pool} of {node} has given {units} of {self._capacity.get((node, pool), 0)} units"
                )

    def set_aside(self, node: str, held: Mapping[tuple[str, str], int]) -> None:
        """(pool, unit) -> fence of all that a manager has set aside, and it may grant: all that clients use is there."""
        for (where, pool, unit), user in self._user.items():
            if where == node and held.get((pool, unit)) != self._fence[where, pool, unit]:
                self.violations.append(
                    f"set aside: client {user} uses {pool}/{unit}@{node} with fence {self._fence[where, pool, unit]}, "
                    f"and the node has {held.get((pool, unit))} for it"
                )

    def property(self, node: str, texts: Iterable[str]) -> None:
        """Properties of the protocol that don't hold on a host."""
        self.violations.extend(f"{node}: {text}" for text in texts)

    def at_the_end(self, waiting: Iterable[int], entries: Mapping[str, int]) -> None:
        """Faults have stopped, clients claim no more: everybody was served, and no entry is left anywhere."""
        starved = sorted(waiting)
        if starved:
            self.violations.append(f"starvation: clients {starved} still wait at the end")
        for host, count in sorted(entries.items()):
            if count:
                self.violations.append(f"left over: {host} has {count} entries at the end")
        if self._user:
            self.violations.append(f"left over: units in use at the end: {sorted(self._user)[:5]}")

"""The judge: what must hold at every moment of a run, whatever strikes it.

It believes nobody: what clients may use comes from what they were told, unit by unit; what managers have given
comes from their books after each of their turns. It shares no code with the protocols' counting.
"""

from collections.abc import Iterable, Mapping

from holdall.protocols.vocabulary import UnitGrant

Unit = tuple[str, str]
"""(pool, unit) of a node."""


class Judge:
    """Who may use which unit now, by the clients' own knowledge. Violations are texts; the first ends a run."""

    def __init__(self, capacity: Mapping[tuple[str, str], int]) -> None:
        """`capacity`: (node, pool) -> units."""
        self._capacity: dict[str, dict[str, int]] = {}
        for (node, pool), units in capacity.items():
            self._capacity.setdefault(node, {})[pool] = units
        self._user: dict[str, dict[Unit, int]] = {node: {} for node in self._capacity}
        self._fence: dict[str, dict[Unit, int]] = {node: {} for node in self._capacity}
        self.violations: list[str] = []

    def granted(self, client: int, units: Iterable[UnitGrant], wanted: Mapping[tuple[str, str], int]) -> None:
        """A client was told that it has `units`; it asked for `wanted` units of each (node, pool)."""
        got: dict[tuple[str, str], int] = {}
        for unit in units:
            node, pool, number = unit.node, unit.pool, unit.fence
            key = (pool, unit.unit)
            got[node, pool] = got.get((node, pool), 0) + 1
            users, fences = self._of(node)
            if key in users:
                self.violations.append(
                    f"exclusion: {pool}/{unit.unit}@{node} has clients {users[key]} and {client}"
                )
            if number <= fences.get(key, 0):
                self.violations.append(
                    f"fence: {pool}/{unit.unit}@{node} was given with {number} after {fences[key]}"
                )
            users[key] = client
            fences[key] = number
        if got != wanted:
            self.violations.append(
                f"all or nothing: client {client} asked for {dict(wanted)} and was told {got}"
            )

    def used_again(self, client: int, units: Iterable[UnitGrant]) -> None:
        """A client goes on with its lease after it has stood still: nobody else may have the units."""
        for unit in units:
            users, fences = self._of(unit.node)
            key = (unit.pool, unit.unit)
            if key in users or fences.get(key) != unit.fence:
                self.violations.append(
                    f"exclusion: client {client} goes on with {unit.pool}/{unit.unit}@{unit.node}, "
                    "which was given to another meanwhile"
                )
            users[key] = client

    def stopped(self, client: int, units: Iterable[UnitGrant]) -> None:
        """The client uses these units no longer (given back, lost, or the client is dead)."""
        for unit in units:
            users = self._of(unit.node)[0]
            key = (unit.pool, unit.unit)
            if users.get(key) == client:
                del users[key]

    def used(self, node: str, used: Mapping[str, int]) -> None:
        """A manager's own books after a turn: units given per pool."""
        capacity = self._capacity.get(node, {})
        for pool, units in used.items():
            if not 0 <= units <= capacity.get(pool, 0):
                self.violations.append(
                    f"capacity: pool {pool} of {node} has given {units} of {capacity.get(pool, 0)} units"
                )

    def set_aside(self, node: str, held: Mapping[tuple[str, str], int]) -> None:
        """(pool, unit) -> fence of all that a manager has set aside, and it may grant: all that clients use is there."""
        users, fences = self._of(node)
        for key, user in users.items():
            if held.get(key) != fences[key]:
                pool, unit = key
                self.violations.append(
                    f"set aside: client {user} uses {pool}/{unit}@{node} with fence {fences[key]}, "
                    f"and the node has {held.get(key)} for it"
                )

    def _of(self, node: str) -> tuple[dict[Unit, int], dict[Unit, int]]:
        """Users and latest fences of a node's units."""
        if node not in self._user:
            self._user[node], self._fence[node] = {}, {}
        return self._user[node], self._fence[node]

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
        left = sorted((node, *unit) for node, users in self._user.items() for unit in users)
        if left:
            self.violations.append(f"left over: units in use at the end: {left[:5]}")

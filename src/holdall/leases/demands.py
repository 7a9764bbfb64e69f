"""All that is demanded of one capacity, divided on one level or on two: among groups first, then inside each."""

from collections.abc import Hashable, Mapping

import msgspec

from holdall.leases.divisions import Rule, division_by
from holdall.leases.filling import Demand, Division, Filling
from holdall.leases.sorted_sums import Exact, Name


class _Members(msgspec.Struct):
    """The demands of one group."""

    division: Division
    count: int = 0
    amount: int = 0


class Demands:
    """Demands by (holder, lease), each of a group. Shares of groups are not rounded to steps, those inside are.

    `weights`: of groups, 1 for one that is not named; None: one level, and groups don't count.
    """

    def __init__(self, *, step: int, rule: Rule, weights: Mapping[str, Exact] | None) -> None:
        self._step, self._weights = step, weights
        self._rule: Rule = rule
        self._all: dict[Name, tuple[str, Demand]] = {}
        self._groups = Filling()
        self._members: dict[str, _Members] = {}
        """By group, `""` where there is one level."""

    def __contains__(self, name: Name) -> bool:
        return name in self._all

    def __len__(self) -> int:
        return len(self._all)

    def put(self, name: Name, group: str, demand: Demand) -> None:
        """A new demand, or another in place of the one of that name."""
        group = group if self._weights is not None else ""
        if self._all.get(name) == (group, demand):
            return
        self.drop(name)
        if group not in self._members:
            self._members[group] = _Members(division_by(self._rule, self._step))
        members = self._members[group]
        self._all[name] = group, demand
        members.division.put(name, demand)
        members.count += 1
        members.amount += demand.amount
        self._tell_groups(group, members)

    def drop(self, name: Name) -> None:
        """There is none of that name any more, if there was."""
        if name not in self._all:
            return
        group, demand = self._all.pop(name)
        members = self._members[group]
        members.division.drop(name)
        members.count -= 1
        members.amount -= demand.amount
        self._tell_groups(group, members)

    def share(self, name: Name, capacity: int) -> int:
        """What the demand gets of `capacity`. Raises KeyError when there is none of that name."""
        group, _ = self._all[name]
        if self._weights is not None:
            capacity = self._groups.share((group, ""), capacity)
        return self._members[group].division.share(name, capacity)

    def key(self) -> Hashable:
        """The names; what each demands its owner knows."""
        return tuple(sorted(self._all))

    def empty(self, weights: Mapping[str, Exact] | None) -> "Demands":
        """The same rule and step with other weights of groups, and nothing demanded yet."""
        return Demands(step=self._step, rule=self._rule, weights=weights)

    def names(self) -> list[Name]:
        """Of all demands."""
        return list(self._all)

    def copy(self) -> "Demands":
        """An independent twin."""
        twin = Demands(step=self._step, rule=self._rule, weights=self._weights)
        twin._all, twin._groups = dict(self._all), self._groups.copy()
        twin._members = {
            group: _Members(members.division.copy(), members.count, members.amount)
            for group, members in self._members.items()
        }
        return twin

    def _tell_groups(self, group: str, members: _Members) -> None:
        """The demand of a group is that of its members."""
        if self._weights is None:
            return
        if members.count:
            self._groups.put((group, ""), Demand(members.amount, self._weights.get(group, 1)))
        else:
            self._groups.drop((group, ""))
            del self._members[group]

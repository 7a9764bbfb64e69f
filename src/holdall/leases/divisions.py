"""Other ways to divide a capacity, for comparison: each lacks something that water filling has.

| rule | what it lacks |
|---|---|
| proportional | all get the same fraction of what they want, small or large; who overstates gains |
| smallest first | the largest may get nothing; who splits a request gains |
| equal | what a small demand leaves of its part is wasted |
| none | first come, first served: a late one gets what is left |

These walk all demands for each answer. Source: lease negotiation, section 7.2.
"""

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from holdall.leases.filling import Demand, Division, Filling, quotient, total_weight, water_filling
from holdall.leases.sorted_sums import Name

Rule: TypeAlias = Literal["fair", "none", "proportional", "smallest-first", "equal"]
Divider: TypeAlias = Callable[[Mapping[Name, Demand], int, int], dict[Name, int]]
"""(demands, capacity, step) to the share of each."""


def first_come(demands: Mapping[Name, Demand], capacity: int, step: int) -> dict[Name, int]:
    """No division: each may have all that is free when it comes."""
    del capacity, step
    return {name: demand.amount for name, demand in demands.items()}


def proportional(demands: Mapping[Name, Demand], capacity: int, step: int) -> dict[Name, int]:
    """The same fraction for all, rounded down to a step; weights count as part of the demand."""
    wanted = sum(demand.amount * demand.weight for demand in demands.values())
    if sum(demand.amount for demand in demands.values()) <= capacity:
        return {name: demand.amount for name, demand in demands.items()}
    return {
        name: min(demand.amount, int(capacity * demand.amount * demand.weight // wanted) // step * step)
        for name, demand in demands.items()
    }


def smallest_first(demands: Mapping[Name, Demand], capacity: int, step: int) -> dict[Name, int]:
    """All that it wants for the smallest (by demand / weight), then for the next; what is left for the first unmet."""
    shares: dict[Name, int] = {}
    left = capacity
    for name in sorted(demands, key=lambda one: (quotient(demands[one].amount, demands[one].weight), one)):
        amount = demands[name].amount
        shares[name] = amount if amount <= left else left // step * step
        left -= shares[name]
    return shares


def equal(demands: Mapping[Name, Demand], capacity: int, step: int) -> dict[Name, int]:
    """The same part for all, by weight; what one does not want of its part is nobody's."""
    weight = total_weight(demands.values())
    return {
        name: min(demand.amount, int(capacity * demand.weight // weight) // step * step)
        for name, demand in demands.items()
    }


DIVIDERS: Mapping[Rule, Divider] = {
    "fair": water_filling,
    "none": first_come,
    "proportional": proportional,
    "smallest-first": smallest_first,
    "equal": equal,
}


class Divided:
    """Demands that come and go, divided by one of the rules above."""

    def __init__(self, divider: Divider, step: int = 1) -> None:
        self._divider, self._step = divider, step
        self._demands: dict[Name, Demand] = {}

    def put(self, name: Name, demand: Demand) -> None:
        """A new demand, or another in place of the one of that name."""
        self._demands[name] = demand

    def drop(self, name: Name) -> None:
        """There is none of that name any more, if there was."""
        self._demands.pop(name, None)

    def share(self, name: Name, capacity: int) -> int:
        """What the demand gets of `capacity`, by a walk over all demands."""
        return self._divider(self._demands, capacity, self._step)[name]

    def copy(self) -> "Divided":
        """An independent twin."""
        twin = Divided(self._divider, self._step)
        twin._demands = dict(self._demands)
        return twin


def division_by(rule: Rule, step: int = 1) -> Division:
    """Nothing is demanded yet."""
    return Filling(step) if rule == "fair" else Divided(DIVIDERS[rule], step)

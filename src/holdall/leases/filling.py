"""The fair division of a capacity: weighted max-min water filling, exact to the unit.

All demands fill like vessels that stand in the same water, each as wide as its weight: a demand below the level L gets
all it wants, each other one L times its weight, where L is such that nothing is left. So nobody's share can be raised
without lowering one that is, for its weight, no larger. Amounts come in steps: a demand that is met is met exactly,
the others are rounded down to a step, and the whole steps that are then left over go one each to demands that are not
met, in the order of (demand / weight, name). Source: lease negotiation, section 7.1.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Protocol, Self

import msgspec

from holdall.leases.sorted_sums import FIRST, Exact, Name, SortedSums, Sums


class Demand(msgspec.Struct, frozen=True):
    """What somebody wants of a capacity, 0 or more base units, and its weight, above 0."""

    amount: int
    weight: Exact = 1


class Division(Protocol):
    """Demands of one capacity, and the share of each."""

    def put(self, name: Name, demand: Demand) -> None:
        """A new demand, or another in place of the one of that name."""
        ...

    def drop(self, name: Name) -> None:
        """There is none of that name any more, if there was."""
        ...

    def share(self, name: Name, capacity: int) -> int:
        """What the demand gets of so much, never more than it wants."""
        ...

    def copy(self) -> Self:
        """An independent twin."""
        ...


class _Water(msgspec.Struct, frozen=True):
    """How high the water stands for a capacity, and what rounding leaves."""

    capacity: int
    level: Exact
    left: int
    """Left over when all unmet demands are rounded down; less than a step for each of them."""
    alike: dict[Exact, tuple[int, Sums]]
    """By weight: what an unmet demand is rounded down to, and the demands that are met."""


class Filling:
    """Water filling over demands that come and go.

    With n demands of k different weights a change costs about n / 70 + 70 steps, and so does, k times over, the first share
    after a change; no call walks all demands. The level is kept until the next change, so a holder that renews what it
    has asked before, the usual case, costs a part of that.
    """

    def __init__(self, step: int = 1) -> None:
        self.demands: dict[Name, Demand] = {}
        self._step = step
        self._all = SortedSums()
        """By demand / weight: the order in which rising water meets them."""
        self._alike: dict[Exact, SortedSums] = {}
        """By weight, then by demand: unmet demands of one weight are all rounded down to the same amount."""
        self._water: _Water | None = None

    @property
    def total(self) -> int:
        """All demands together."""
        return self._all.total.amount

    def put(self, name: Name, demand: Demand) -> None:
        """A new demand, or another in place of the one of that name."""
        if self.demands.get(name) == demand:
            return
        if demand.weight.denominator == 1:
            demand = Demand(demand.amount, int(demand.weight))
        self.drop(name)
        self._water = None
        self.demands[name] = demand
        self._all.put((quotient(demand.amount, demand.weight), name), demand.amount, demand.weight)
        alike = self._alike.setdefault(demand.weight, SortedSums())
        alike.put((demand.amount, name), demand.amount, demand.weight)

    def drop(self, name: Name) -> None:
        """There is none of that name any more, if there was."""
        gone = self.demands.pop(name, None)
        if gone is None:
            return
        self._water = None
        self._all.drop((quotient(gone.amount, gone.weight), name))
        self._alike[gone.weight].drop((gone.amount, name))
        if not self._alike[gone.weight].total.count:
            del self._alike[gone.weight]

    def share(self, name: Name, capacity: int) -> int:
        """What the demand gets of `capacity`. Raises KeyError when there is none of that name."""
        demand = self.demands[name]
        if self.total <= capacity:
            return demand.amount
        water = self._filled(capacity)
        if demand.amount <= water.level * demand.weight:
            return demand.amount
        rounded, _ = water.alike[demand.weight]
        need = min(self._step, demand.amount - rounded)
        if need > water.left:
            return rounded
        before = self._wanted_before(water, quotient(demand.amount, demand.weight), name)
        return rounded + need if before + need <= water.left else rounded

    def copy(self) -> "Filling":
        """An independent twin."""
        twin = Filling(self._step)
        twin.demands, twin._all = dict(self.demands), self._all.copy()
        twin._alike = {weight: those.copy() for weight, those in self._alike.items()}
        twin._water = self._water
        return twin

    def _filled(self, capacity: int) -> _Water:
        """The water, kept from the last question if nothing has changed. There is less than all demands together."""
        if self._water is not None and self._water.capacity == capacity:
            return self._water
        total = self._all.total.weight
        # Those that get all they want: with the water at their own height there would be enough for all.
        met = self._all.beginning(
            lambda height, through: through.amount + height * (total - through.weight) <= capacity
        )
        level = quotient(capacity - met.amount, total - met.weight)
        left, alike = capacity, dict[Exact, tuple[int, Sums]]()
        for weight, those in self._alike.items():
            rounded = floor(level * weight) // self._step * self._step
            met = those.before((floor(level * weight) + 1, FIRST))
            left -= met.amount + rounded * (those.total.count - met.count)
            alike[weight] = rounded, met
        self._water = _Water(capacity, level, left, alike)
        return self._water

    def _wanted_before(self, water: _Water, height: Exact, name: Name) -> int:
        """What unmet demands before (height, name) take of the left-over, each a step at most."""
        wanted = 0
        for weight, those in self._alike.items():
            rounded, met = water.alike[weight]
            mine = height * weight
            key = (ceil(mine), name if mine == ceil(mine) else FIRST)
            earlier = those.before(key)
            # Those that want less than a whole step more stand right above the level.
            near = those.before(min(key, (rounded + self._step, FIRST)))
            wanted += near.amount - met.amount - rounded * (near.count - met.count)
            wanted += self._step * (earlier.count - near.count)
        return wanted


def water_filling(demands: Mapping[Name, Demand], capacity: int, step: int = 1) -> dict[Name, int]:
    """The whole division at once, by walking all demands: what `Filling` gives each of them."""
    if sum(demand.amount for demand in demands.values()) <= capacity:
        return {name: demand.amount for name, demand in demands.items()}
    order = sorted(demands, key=lambda name: (quotient(demands[name].amount, demands[name].weight), name))
    shares: dict[Name, int] = {}
    left, weight = capacity, total_weight(demands.values())
    unmet: list[Name] = []
    for at, name in enumerate(order):
        demand = demands[name]
        if demand.amount * weight > left * demand.weight:
            unmet = order[at:]
            break
        shares[name] = demand.amount
        left -= demand.amount
        weight -= demand.weight
    level = quotient(left, weight)
    shares.update({name: floor(level * demands[name].weight) // step * step for name in unmet})
    left -= sum(shares[name] for name in unmet)
    for name in unmet:
        more = min(step, demands[name].amount - shares[name])
        if more > left:
            break
        shares[name] += more
        left -= more
    return shares


def total_weight(demands: Iterable[Demand]) -> Exact:
    """All weights together."""
    total: Exact = 0
    for demand in demands:
        total += demand.weight
    return total


def quotient(amount: Exact, weight: Exact) -> Exact:
    """The quotient, an integer where it is one."""
    if weight == 1:
        return amount
    quotient = Fraction(amount) / weight
    return quotient.numerator if quotient.denominator == 1 else quotient

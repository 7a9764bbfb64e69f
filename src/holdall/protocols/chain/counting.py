"""What a manager counts: units in use, units wanted by those in front, who is passed, who is blocked.

Everything here is derived from the rows and kept beside them, so that no message needs a walk over all rows.
Waiting rows stand in one list per pool, oldest first. A walk along such a list stops as soon as what it adds up
exceeds the free units, so it is no longer than those are many. Source: chain specification, 2.3.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from typing import Self

from holdall.protocols.chain.rows import Age, Row, is_limit_pool, real_pool
from holdall.protocols.vocabulary import ClaimId, Vector


class Counts:
    """use, keep, passes and blocked over the rows of one manager.

    `capacity` answers for a pool or limit pool how many units may be counted with, those in use included.
    """

    def __init__(self, rows: Mapping[ClaimId, Row], capacity: Callable[[str], int]) -> None:
        self._rows = rows
        self._capacity = capacity
        self._use: dict[str, int] = {}
        self._lines: dict[str, list[Age]] = {}
        """Per pool the waiting rows that want it, oldest first. Parked rows stand in lines of limit pools only."""
        self._spent: dict[str, list[Age]] = {}
        """Those of `_lines` that must not be passed any more."""
        self.parked: set[ClaimId] = set()
        self._movable: dict[str, set[ClaimId]] = {}
        """Per pool the active rows that use it and are not last: they can still be called back."""
        self.touched: set[str] | None = None
        """Pools where somebody has come, gone or been served, for a reader that empties it; None: nobody reads."""

    def twin(self, rows: Mapping[ClaimId, Row], capacity: Callable[[str], int]) -> Self:
        """An independent copy over the copied rows."""
        twin = object.__new__(type(self))
        twin._rows = rows
        twin._capacity = capacity
        twin._use = self._use.copy()
        twin._lines = {pool: line.copy() for pool, line in self._lines.items()}
        twin._spent = {pool: line.copy() for pool, line in self._spent.items()} if self._spent else {}
        twin.parked = self.parked.copy()
        twin._movable = {pool: claims.copy() for pool, claims in self._movable.items()}
        twin.touched = None if self.touched is None else self.touched.copy()
        return twin

    def __eq__(self, other: object) -> bool:
        """Whether both count the same."""
        return isinstance(other, Counts) and (
            (self._use, self._lines, self._spent, self.parked, self._movable)
            == (other._use, other._lines, other._spent, other.parked, other._movable)
        )

    __hash__ = None  # type: ignore[assignment]

    # Sums

    def use(self, pool: str) -> int:
        """Units of active rows."""
        return self._use.get(pool, 0)

    def capacity(self, pool: str) -> int:
        return self._capacity(pool)

    def free(self, pool: str) -> int:
        """Units that are in nobody's use; negative when more are in use than may be counted with."""
        return self._capacity(pool) - self._use.get(pool, 0)

    def amount(self, pool: str, units: int) -> int:
        """A number of units as of now: what is written as "all, at least k" follows the capacity."""
        return units if units >= 0 else max(self._capacity(real_pool(pool)), -units)

    def resolved(self, vector: Vector) -> Vector:
        """The vector in numbers as of now."""
        for _, units in vector:
            if units < 0:
                return tuple((pool, self.amount(pool, units)) for pool, units in vector)
        return vector

    def wanted(self, row: Row, pool: str) -> int:
        """v(x) at a pool: what a waiting row counts with there; 0 if it wants none."""
        for name, units in row.most:
            if name == pool:
                return units if units >= 0 else self.amount(pool, units)
        return 0

    def kept(self, pool: str, age: Age | None, enough: int, *, including: bool = False) -> int:
        """keep(<x) at a pool for the row of that age (None: behind all), exact up to `enough`, else more than it.

        `including` True: keep(x), the row itself counted as well.
        """
        line = self._lines.get(pool)
        if not line:
            return 0
        end = len(line) if age is None else (bisect_right if including else bisect_left)(line, age)
        total = 0
        for place in range(end):
            total += self.wanted(self._rows[line[place][1]], pool)
            if total > enough:
                break
        return total

    # Questions

    def fits(self, vector: Vector) -> bool:
        """Whether use + w <= capacity everywhere."""
        for pool, units in vector:  # noqa: SIM110 - runs for each row looked at; a generator costs more than it asks
            if units > self.free(pool):
                return False
        return True

    def passes_nobody(self, vector: Vector, age: Age | None) -> bool:
        """Whether taking the vector (in numbers) leaves enough for all that are in front of `age` (None: for all)."""
        for pool, units in vector:
            spare = self.free(pool) - units
            if spare < 0 or self.kept(pool, age, spare) > spare:
                return False
        return True

    def passes_only_willing(self, vector: Vector, age: Age) -> bool:
        """Whether nobody whose passes are spent would be passed. Only asked when the vector fits."""
        for pool, units in vector:
            spent = self._spent.get(pool)
            if not spent:
                continue
            place = bisect_left(spent, age)
            spare = self.free(pool) - units
            if place and self.kept(pool, spent[place - 1], spare, including=True) > spare:
                return False
        return True

    def passed(self, vector: Vector, age: Age) -> list[Row]:
        """The rows that are passed by taking the vector at that age, oldest first."""
        ages: set[Age] = set()
        for pool, units in vector:
            line = self._lines.get(pool)
            if not line:
                continue
            spare = self.free(pool) - units
            end = bisect_left(line, age)
            total = 0
            for place in range(end):
                total += self.wanted(self._rows[line[place][1]], pool)
                if total > spare:
                    ages.update(line[place:end])
                    break
        return [self._rows[claim] for _, claim in sorted(ages)]

    def blocked(self, row: Row, pool: str) -> bool:
        """Whether a waiting row can't have what it wants at a pool, because of use or of those in front."""
        room = self.free(pool) - self.wanted(row, pool)
        return room < 0 or self.kept(pool, row.age, room) > room

    def somebody_blocked(self, pool: str, age: Age) -> bool:
        """Whether a waiting row older than `age` is blocked at the pool: as sums only grow, the youngest tells."""
        if not self._lines.get(pool):
            return False
        room = max(self.free(pool), 0)
        return self.kept(pool, age, room) > room

    def open_to_some(self, pool: str, age: Age) -> bool:
        """Whether a row younger than `age` could start at this pool at all: a unit is free and not kept aside."""
        free = self.free(pool)
        if free <= 0:
            return False
        spent = self._spent.get(pool)
        if not spent:
            return True
        place = bisect_left(spent, age)
        return not place or self.kept(pool, spent[place - 1], free - 1, including=True) < free

    def in_front(self, pool: str, age: Age) -> list[Age]:
        """The rows in front of `age` in the line of a pool, oldest first."""
        line = self._lines.get(pool, [])
        return line[: bisect_left(line, age)]

    def lines(self) -> list[str]:
        """The pools and limit pools that somebody waits for."""
        return sorted(self._lines)

    def next_at(self, pool: str, after: Age | None) -> Age | None:
        """The oldest row in the line of a pool that is younger than `after`."""
        line = self._lines.get(pool)
        if not line:
            return None
        place = 0 if after is None else bisect_right(line, after)
        return line[place] if place < len(line) else None

    def older_waiting(self, pools: Iterable[str], age: Age) -> int:
        """How many rows in front of `age` want one of the pools, parked ones not counted."""
        lines = [line[: bisect_left(line, age)] for pool in pools if (line := self._lines.get(pool))]
        if len(lines) == 1:
            return len(lines[0])
        return len({age for line in lines for age in line})

    def all_waiting(self, pools: Iterable[str]) -> int:
        """How many rows want one of the pools, parked ones not counted."""
        lines = [line for pool in pools if (line := self._lines.get(pool))]
        if len(lines) == 1:
            return len(lines[0])
        return len({age for line in lines for age in line})

    def kept_for_spent(self, pool: str, age: Age, enough: int) -> int:
        """Units that the rows in front of `age` keep from everybody behind, because they must not be passed any more.

        Exact up to `enough`, else more than it.
        """
        spent = self._spent.get(pool)
        place = bisect_left(spent, age) if spent else 0
        return self.kept(pool, spent[place - 1], enough, including=True) if spent and place else 0

    def movable_at(self, pools: Iterable[str]) -> list[ClaimId]:
        """Active rows that use one of the pools and are not last, in order of their claims."""
        if not self._movable:
            return []
        return sorted({claim for pool in pools for claim in self._movable.get(pool, ())})

    # Changes

    def waits(self, row: Row, *, spent: bool) -> None:
        """The row stands in line. `spent`: it must not be passed any more."""
        if self.touched is not None:
            self._touch(row.most)
        for pool, _ in row.most:
            self._stand(pool, row, spent=spent)

    def waits_no_more(self, row: Row) -> None:
        """The row has left the lines."""
        self._touch(row.most)
        for pool, _ in row.most:
            self._leave(pool, row)
        self.parked.discard(row.claim)

    def is_spent(self, row: Row) -> None:
        """A waiting row must not be passed any more."""
        for pool, _ in row.most:
            if row.claim not in self.parked or is_limit_pool(pool):
                insort(self._spent.setdefault(pool, []), row.age)

    def takes(self, row: Row) -> None:
        """The row is active with `row.vector`."""
        self._touch(row.vector)
        for pool, units in row.vector:
            self._use[pool] = self._use.get(pool, 0) + units
            if not row.last:
                self._movable.setdefault(pool, set()).add(row.claim)

    def gives_back(self, row: Row) -> None:
        """The row is not active any more."""
        self._touch(row.vector)
        for pool, units in row.vector:
            rest = self._use[pool] - units
            if rest:
                self._use[pool] = rest
            else:
                del self._use[pool]
            movable = self._movable.get(pool)
            if movable is not None:
                movable.discard(row.claim)
                if not movable:
                    del self._movable[pool]

    def repark(self, pool: str, *, spent: Callable[[Row], bool]) -> list[Row]:
        """Look again at the rows of one limit pool: which are parked? Returns the rows for which that changed."""
        changed: list[Row] = []
        for _, claim in self._lines.get(pool, ()):
            row = self._rows[claim]
            parked = any(is_limit_pool(name) and self.blocked(row, name) for name, _ in row.most)
            if parked == (claim in self.parked):
                continue
            changed.append(row)
            self._touch(row.most)
            if parked:
                for name, _ in row.most:
                    if not is_limit_pool(name):
                        self._leave(name, row)
                self.parked.add(claim)
            else:
                self.parked.discard(claim)
                for name, _ in row.most:
                    if not is_limit_pool(name):
                        self._stand(name, row, spent=spent(row))
        return changed

    def _touch(self, vector: Vector) -> None:
        if self.touched is not None:
            self.touched.update(pool for pool, _ in vector)

    def _stand(self, pool: str, row: Row, *, spent: bool) -> None:
        insort(self._lines.setdefault(pool, []), row.age)
        if spent:
            insort(self._spent.setdefault(pool, []), row.age)

    def _leave(self, pool: str, row: Row) -> None:
        for lines in (self._lines, self._spent) if self._spent else (self._lines,):
            line = lines.get(pool)
            if not line:
                continue
            place = bisect_left(line, row.age)
            if place < len(line) and line[place] == row.age:
                del line[place]
                if not line:
                    del lines[pool]

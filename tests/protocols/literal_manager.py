"""The chain's manager with the definitions of its specification written out word by word: slow, and easy to check.

Sections 2.3 and 2.4. It shares the rows and the messages with the shipped manager, and none of its counting.
"""

from __future__ import annotations

import msgspec

from holdall.protocols.chain.manager import Manager
from holdall.protocols.chain.rows import Age, Killing, Mem, Row, is_limit_pool
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import Vector


class LiteralManager(Manager):
    def in_order(self) -> list[Row]:
        return sorted((row for row in self.rows.values() if not row.active), key=lambda row: row.age)

    def v(self, row: Row) -> dict[str, int]:
        if row.active:
            return dict(row.vector)
        most: dict[str, int] = {}
        for vector in row.wants:
            for pool, units in self.counts.resolved(vector):
                most[pool] = max(most.get(pool, 0), units)
        return most

    def use(self, pool: str) -> int:
        return sum(self.v(row).get(pool, 0) for row in self.rows.values() if row.active)

    def keep(self, rows: list[Row], pool: str) -> int:
        return sum(self.v(row).get(pool, 0) for row in rows if is_limit_pool(pool) or not self.parked(row))

    def before(self, row: Row) -> list[Row]:
        return [other for other in self.in_order() if other.age < row.age]

    def blocked_at(self, row: Row, pool: str) -> bool:
        wanted = self.v(row).get(pool, 0)
        return wanted > 0 and self.use(pool) + wanted + self.keep(self.before(row), pool) > self.capacity(
            pool
        )

    def parked(self, row: Row) -> bool:
        return any(is_limit_pool(pool) and self.blocked_at(row, pool) for pool in self.v(row))

    def is_passed(self, row: Row, vector: Vector) -> bool:
        return any(
            pool in self.v(row)
            and (is_limit_pool(pool) or not self.parked(row))
            and self.use(pool) + units + self.keep([*self.before(row), row], pool) > self.capacity(pool)
            for pool, units in vector
        )

    def counts_at_start(self, mem: Mem | None, most: Vector, age: Age) -> tuple[int, int, int, int]:
        n, left, ahead, bound = super().counts_at_start(mem, most, age)
        if mem is None or mem.left is None:
            pools = dict(most)
            waiting = [
                row
                for row in self.in_order()
                if row.age < age
                and any(
                    pool in pools and (is_limit_pool(pool) or not self.parked(row)) for pool in self.v(row)
                )
            ]
            ahead = len(waiting)
            left = bound = self.settings.passes + self.settings.passes_per_ahead * ahead
        return n, left, ahead, bound

    def scan(self, out: Effects) -> None:
        self._touched.clear()
        self._fresh.clear()
        if not self.book.may_grant():
            return
        again = True
        while again:
            again = False
            for age in [row.age for row in self.in_order()]:
                row = self.rows[age[1]]
                if not self.parked(row):
                    again |= self.start_one(row, out)

    def start_one(self, row: Row, out: Effects) -> bool:
        choices: list[tuple[int, Vector, list[Row]]] = []
        for place, wanted in enumerate(row.wants):
            vector = self.counts.resolved(wanted)
            if all(self.use(pool) + units <= self.capacity(pool) for pool, units in vector):
                choices.append((place, vector, [x for x in self.before(row) if self.is_passed(x, vector)]))
        for choice in choices:
            if not choice[2]:
                self.activate(row, *choice, out)
                return True
        if row.last:
            for choice in choices:
                if all(x.left > 0 for x in choice[2]):
                    self.activate(row, *choice, out)
                    return True
        return False

    def try_choice(self, wants: tuple[Vector, ...]) -> tuple[int, Vector] | None:
        for place, wanted in enumerate(wants):
            vector = self.counts.resolved(wanted)
            if all(self.use(pool) + units <= self.capacity(pool) for pool, units in vector) and not any(
                self.is_passed(row, vector) for row in self.in_order()
            ):
                return place, vector
        return None

    def wound(self, out: Effects) -> None:
        self._pressed.clear()
        victims = {h.claim for x in self.in_order() for h in self.victims_of(x) if h.kill is Killing.NO}
        for claim in sorted(victims):
            row = self.rows[claim]
            self.rows[claim] = msgspec.structs.replace(row, kill=Killing.HERE)
            self.send_kill(row, out)

    def wound_again(self, waiting: Row, out: Effects) -> None:
        for row in sorted(self.victims_of(waiting), key=lambda row: row.claim):
            if row.kill is not Killing.NO:
                self.send_kill(row, out)

    def victims_of(self, x: Row) -> list[Row]:
        return [
            h
            for h in self.rows.values()
            if h.active
            and not h.last
            and x.age < h.age
            and any(
                self.blocked_at(x, pool) for pool in self.v(h) if is_limit_pool(pool) or not self.parked(x)
            )
        ]

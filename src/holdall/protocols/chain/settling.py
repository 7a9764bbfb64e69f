"""The end of every turn of a manager: give units to waiting rows, then call back what stands in an older one's way.

One rule, one method: a subclass that overrides one of them is the chain without that rule.
Source: chain specification, 2.4, 2.6 and 2.7.
"""

from collections.abc import Collection, Iterable
from typing import Self

import msgspec

from holdall.machine.contract import Address, Forget, Save, Send, SetTimer
from holdall.protocols.chain.counting import Counts
from holdall.protocols.chain.messages import CLAIMANT, MANAGER, Allowed, Kill, Promote, Queued
from holdall.protocols.chain.rows import (
    Age,
    Killing,
    Limit,
    Row,
    is_limit_pool,
    limited_holder,
    real_pool,
    with_limits,
    without_limits,
)
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.vocabulary import ClaimId, Vector

PROMOTE_TIMER = "promote/"
ROW_KEY = "row/"


class Settings(msgspec.Struct, frozen=True):
    """How a manager is tuned; the defaults are the product's."""

    passes: int = 8
    """How often a waiting row may be passed,"""
    passes_per_ahead: int = 1
    """and how often more for each older row that waits there when it comes (2.7)."""
    limits: tuple[Limit, ...] = ()
    repeat_ms: int | None = None
    """Pause before a Promote is repeated; None: never (a network that loses nothing)."""
    repeat_most_ms: int | None = None
    """The pause is doubled each time up to this; None: it stays."""
    tell_stamp: bool = True
    """Tell a claim that waits at its first node the age that it was given there."""
    sweep_ms: int | None = None
    """A tombstone is dropped after one to two of these spans; None: never. It must be longer than any message of
    an ended claim can be under way: the longest lease."""


DEFAULT_SETTINGS = Settings()


class Settler:
    """The rows of one node and the two steps that settle them."""

    def __init__(self, node: str, epoch: int, book: Book, settings: Settings = DEFAULT_SETTINGS) -> None:
        self.node = node
        self.epoch = epoch
        self.book = book
        self.settings = settings
        self.limited = bool(settings.limits)
        """Whether rows here may have limit pools: settings say so, or they did when a row was saved."""
        self.clock = 0
        self.rows: dict[ClaimId, Row] = {}
        self.counts = Counts(self.rows, self.capacity)
        self._touched: set[str] = set()
        """Pools where room may have grown since the last scan; empty between turns, like the next two."""
        self._fresh: set[Age] = set()
        """Waiting rows that no scan has looked at yet."""
        self._pressed: set[str] = set()
        """Pools where somebody may have become blocked since the last look at whom to call back."""
        self._pauses: dict[ClaimId, int] = {}
        """Pause before the next repetition. Timing only, so no part of the key."""
        self.overtakes: dict[str, int] = {}
        """Pool -> how often a younger claim got ahead of a waiting one, each time at every pool that both want.
        For figures alone: neither kept nor part of the key, and twins share it."""

    def copy_with(self, book: Book) -> Self:
        """An independent twin over the copied book."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.book = book
        twin.rows = self.rows.copy()
        twin.counts = self.counts.twin(twin.rows, twin.capacity)
        twin._touched, twin._fresh, twin._pressed = set(), set(), set()
        twin._pauses = self._pauses.copy()
        return twin

    # Units

    def capacity(self, pool: str) -> int:
        """Units to count with at a pool or limit pool."""
        if not self.limited or not is_limit_pool(pool):
            return self.book.capacity(pool)
        holder, real = limited_holder(pool), real_pool(pool)
        bounds = [
            bound.units
            for bound in self.settings.limits
            if bound.pool == real and bound.holder in {"", holder}
        ]
        return min(bounds, default=self.book.capacity(real))

    def wants_here(self, alternatives: Iterable[Vector], holder: str) -> tuple[Vector, ...]:
        """The alternatives and the limit pools of this holder here."""
        if not self.settings.limits:
            return tuple(alternatives)
        limited = [bound.pool for bound in self.settings.limits if bound.holder in {"", holder}]
        return tuple(with_limits(vector, limited, holder) for vector in alternatives)

    # Rows in, rows out

    def insert(self, row: Row) -> None:
        """A waiting row takes its place at its age."""
        self.rows[row.claim] = row
        self.counts.waits(row, spent=self.is_spent(row))
        self._fresh.add(row.age)
        if self.limited:
            self._touched.update([pool for pool, _ in row.most if is_limit_pool(pool)])
        self._pressed.update([pool for pool, _ in row.most])

    def remove(self, row: Row, out: Effects) -> None:
        """The row is here no more; its units are free in this turn."""
        del self.rows[row.claim]
        out.append(Forget(f"{ROW_KEY}{row.claim}"))
        self._fresh.discard(row.age)
        if row.active:
            self._stop_repeating(row)
            self.counts.gives_back(row)
            self.book.give_back(row.claim, row.attempt, {}, out)
            self._touch(row.vector)
            # A unit that has to be cleaned first has lowered the capacity by now.
            self._pressed.update([pool for pool, _ in row.vector])
        else:
            self.counts.waits_no_more(row)
            self._touch(row.most)

    def put_back(self, row: Row, out: Effects) -> None:
        """An active row waits again at its age, with the passes it has left; its units are free in this turn."""
        self._stop_repeating(row)
        self.counts.gives_back(row)
        self.book.give_back(row.claim, row.attempt, {}, out)
        self._touch(row.vector)
        waiting = msgspec.structs.replace(
            row, active=False, vector=(), kill=Killing.NO, got=row.got[: row.index]
        )
        self.insert(waiting)
        self.save(waiting, out)

    def take(self, row: Row) -> None:
        """An active row that did not come from the line counts from now on."""
        self.counts.takes(row)
        self._pressed.update([pool for pool, _ in row.vector])

    def swap(self, row: Row, smaller: Row) -> None:
        """An active row goes on with less."""
        self.counts.gives_back(row)
        self.counts.takes(smaller)
        self._touch(row.vector)
        self._pressed.update([pool for pool, _ in row.vector])

    def look_at(self, pools: Collection[str]) -> None:
        """The capacity of these pools (none named: of any) may have changed."""
        names = set(pools) or set(self.counts.lines())
        if self.settings.limits:
            # "All" of a pool is as many of a limit on it.
            names.update([line for line in self.counts.lines() if real_pool(line) in names])
        self._touched.update(names)
        self._pressed.update(names)

    def recounted(self) -> Counts:
        """The counts as the rows alone give them: to check those that are kept."""
        counts = Counts(self.rows, self.capacity)
        for row in self.rows.values():
            if row.active:
                counts.takes(row)
            else:
                counts.waits(row, spent=self.is_spent(row))
        for pool in filter(is_limit_pool, counts.lines()):
            counts.repark(pool, spent=self.is_spent)
        return counts

    def save(self, row: Row, out: Effects) -> None:
        out.append(Save(f"{ROW_KEY}{row.claim}", row))

    def settle(self, out: Effects) -> None:
        """The end of every turn."""
        self.scan(out)
        self.wound(out)

    # Scan

    def scan(self, out: Effects) -> None:
        """Give units to waiting rows in order of age, where room may have grown."""
        touched, fresh = self._touched, self._fresh
        if not touched and not fresh:
            return
        if self.limited:
            self._repark(touched)
        if not self.book.may_grant():
            # Nothing is lost: the end of the quarantine is a change of every capacity.
            touched.clear()
            fresh.clear()
            return
        while touched or fresh:
            pools, ages = sorted(touched), sorted(fresh, reverse=True)
            touched.clear()
            fresh.clear()
            age: Age | None = None
            while (age := self._next_candidate(pools, ages, age)) is not None:
                row = self.rows[age[1]]
                if row.claim not in self.counts.parked and (choice := self.choose(row)) is not None:
                    self.activate(row, *choice, out)
                    # A row of this holder that is parked by this keeps nothing back at real pools any more.
                    if self.limited:
                        self._repark({pool for pool, _ in row.most if is_limit_pool(pool)})

    def _next_candidate(self, pools: list[str], ages: list[Age], after: Age | None) -> Age | None:
        """The oldest row behind `after` that is fresh, or wants one of the pools and might start.

        Drops from both lists what has nothing more to offer: in one scan a pool only gets fuller, and rows
        further behind have more in front of them. `ages` has the oldest last.
        """
        while ages and (after is not None and ages[-1] <= after):
            ages.pop()
        best = ages[-1] if ages else None
        for pool in tuple(pools):
            age = self.counts.next_at(pool, after)
            if age is None or not self.counts.open_to_some(pool, age):
                pools.remove(pool)
            elif best is None or age < best:
                best = age
        return best

    def choose(self, row: Row) -> tuple[int, Vector, list[Row]] | None:
        """What the row can have now: index and vector (in numbers) of an alternative, and whom it passes by that."""
        fitting: list[tuple[int, Vector]] = []
        for place, wanted in enumerate(row.wants):
            vector = self.counts.resolved(wanted)
            if not self.counts.fits(vector):
                continue
            if self.counts.passes_nobody(vector, row.age):
                return place, vector, []
            fitting.append((place, vector))
        if self.may_pass_here(row):
            for place, vector in fitting:
                if self.counts.passes_only_willing(vector, row.age):
                    return place, vector, self.counts.passed(vector, row.age)
        return None

    def may_pass_here(self, row: Row) -> bool:
        """Only a claim that is granted by it may pass, so that who has passed waits for nobody (2.6)."""
        return row.last

    def is_spent(self, row: Row) -> bool:
        """Whether nobody may pass the row any more."""
        return row.left <= 0

    def charged(self, passed: list[Row]) -> list[Row]:
        """Whom a pass costs one: every row passed."""
        return passed

    def activate(self, row: Row, place: int, vector: Vector, passed: list[Row], out: Effects) -> None:
        """Units set aside for the row; granted if this is its last node, sent on if not."""
        for other in self.charged(passed):
            self._pay_for_pass(other)
            self._count_overtake(other, vector)
        self.counts.waits_no_more(row)
        active = msgspec.structs.replace(
            row, active=True, vector=vector, got=(*row.got, place), n=row.n + 1, kill=Killing.NO
        )
        self.rows[row.claim] = active
        self.counts.takes(active)
        self._pressed.update([pool for pool, _ in row.most])
        if vector != row.most:
            # It was counted in front of others with more than it took: at its other alternatives' pools.
            self._touch(row.most)
        units = without_limits(vector) if self.limited else vector
        self.book.set_aside(row.claim, row.attempt, dict(units), row.terms, out)
        self.save(active, out)
        if active.last:
            if row.claim.node == self.node and len(row.need) == 1:
                # Else the holder may learn it later than this node, so its hard end must not count from here:
                # it is booked until the claim's node says that it is granted, as on the nodes before.
                self.book.book(row.claim, row.attempt, out)
            self.allow(active, out)
        else:
            self.promote(active, out)

    def _pay_for_pass(self, row: Row) -> None:
        # Not saved: a restart may give passes back, and the bound then counts from the restart (section 7).
        paid = msgspec.structs.replace(row, left=row.left - 1)
        self.rows[row.claim] = paid
        if self.is_spent(paid) and not self.is_spent(row):
            self.counts.is_spent(paid)

    def _count_overtake(self, passed: Row, vector: Vector) -> None:
        taken = {pool for pool, _ in vector if not is_limit_pool(pool)}
        for pool, _ in passed.most:
            if pool in taken:
                self.overtakes[pool] = self.overtakes.get(pool, 0) + 1

    def _repark(self, pools: set[str]) -> None:
        for pool in sorted(filter(is_limit_pool, pools)):
            for row in self.counts.repark(pool, spent=self.is_spent):
                self._touch(row.most)
                self._pressed.update([pool for pool, _ in row.most])

    def _touch(self, vector: Vector) -> None:
        self._touched.update([pool for pool, _ in vector])

    # Messages that follow from being active

    def allow(self, row: Row, out: Effects) -> None:
        """Tell the claimant that it has everything."""
        units = (*row.before, *self.book.units(row.claim, row.attempt))
        out.append(
            Send(
                Address(row.claim.node, CLAIMANT), Allowed(row.claim, row.attempt, row.stamp, row.got, units)
            )
        )

    def promote(self, row: Row, out: Effects) -> None:
        """Send the claim on to its next node."""
        visit = row.need[row.index + 1]
        out.append(
            Send(
                Address(visit.node, MANAGER),
                Promote(
                    row.claim,
                    row.attempt,
                    visit.epoch,
                    row.need,
                    row.terms,
                    row.index + 1,
                    row.n,
                    row.stamp,
                    row.got,
                    (*row.before, *self.book.units(row.claim, row.attempt)),
                ),
            )
        )
        first = self.settings.repeat_ms
        if first is not None:
            pause = self._pauses.get(row.claim, first)
            self._pauses[row.claim] = min(2 * pause, self.settings.repeat_most_ms or first)
            out.append(SetTimer(f"{PROMOTE_TIMER}{row.claim}", pause))

    def _stop_repeating(self, row: Row) -> None:
        # The timer may still fire: it then finds no active row that is not last and is ignored.
        self._pauses.pop(row.claim, None)

    def tell_age(self, row: Row, out: Effects) -> None:
        """Tell the claimant of a row that waits at its first node which age it was given."""
        if self.settings.tell_stamp:
            out.append(Send(Address(row.claim.node, CLAIMANT), Queued(row.claim, row.attempt, row.stamp)))

    # Wound

    def wound(self, out: Effects) -> None:
        """Call back every active row that can be and that stands in the way of an older waiting one.

        Every waiting row wounds, whether it holds something or not: others may wait behind what is kept for it.
        """
        if not self._pressed:
            return
        pressed = self.counts.movable_at(self._pressed)
        self._pressed.clear()
        for claim in pressed:
            row = self.rows[claim]
            if row.kill is Killing.NO and self.in_the_way(row):
                self.rows[claim] = msgspec.structs.replace(row, kill=Killing.HERE)
                self.send_kill(row, out)

    def in_the_way(self, row: Row) -> bool:
        """Whether an older row is blocked at a pool that this active row uses."""
        age = row.age
        return any(self.counts.somebody_blocked(pool, age) for pool, _ in row.vector)

    def wound_again(self, waiting: Row, out: Effects) -> None:
        """Repeat for one waiting row the Kills that may have been lost."""
        pools = {pool for pool, _ in waiting.most if self.counts.blocked(waiting, pool)}
        if waiting.claim in self.counts.parked:
            pools = set(filter(is_limit_pool, pools))
        for claim in self.counts.movable_at(pools):
            row = self.rows[claim]
            if row.kill is not Killing.NO and waiting.age < row.age:
                self.send_kill(row, out)

    def send_kill(self, row: Row, out: Effects) -> None:
        """Ask the next node to undo the row's last Promote."""
        visit = row.need[row.index + 1]
        out.append(Send(Address(visit.node, MANAGER), Kill(row.claim, row.attempt, visit.epoch, row.n)))

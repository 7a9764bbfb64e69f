"""What one pool keeps of the game: who is registered, who is admitted, the queue of requests; and everybody's sums.

A change at the pool is told to those whose guards it changes. Looking for them costs one step for each claim that is
past the doorway; claims that stand before it are looked at when it opens for them.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any, NamedTuple, Self

from holdall.protocols.by_pool.manager import Key
from holdall.protocols.game.messages import BLOCKERS, GameEntry, Ticket
from holdall.protocols.vocabulary import ClaimId


class Sums(NamedTuple):
    """Of one claim at one pool."""

    door: bool
    """Closed: somebody is still admitted who was when it registered."""
    prior: int
    """Units of the requests ahead of it that have a smaller ticket or a mark; more than fits is not told apart."""
    ahead: int
    """Units of all requests ahead of it; of all there are while it has none."""

    def fits(self, wants: int, room: int) -> bool:
        """(p2): past the doorway, and with what is to come before it, its units are within `room`."""
        return not self.door and self.prior + wants <= room

    def first(self, wants: int, free: int) -> bool:
        """(p4), of a request: it is within the free units, whoever is ahead."""
        return self.ahead + wants <= free


class Ahead:
    """The requests of a queue from its head on: units by ticket, as far as they can fit within `limit`."""

    def __init__(self, limit: int) -> None:
        self.units = 0
        """Of all."""
        self._limit = limit
        self._marked = 0
        self._tickets: list[Ticket] = []
        """Ascending; one that has more than `limit` before it makes no difference and is left out."""
        self._wants: list[int] = []
        self._sum = 0

    def add(self, ticket: Ticket, units: int, *, marked: bool) -> None:
        """The next request of the queue."""
        self.units += units
        if marked:
            self._marked += units
            return
        if self._sum > self._limit and ticket > self._tickets[-1]:
            return
        at = bisect_right(self._tickets, ticket)
        self._tickets.insert(at, ticket)
        self._wants.insert(at, units)
        self._sum += units
        while self._sum - self._wants[-1] > self._limit:
            self._sum -= self._wants.pop()
            self._tickets.pop()

    def prior(self, mine: Ticket) -> int:
        """Units with a smaller ticket or a mark; exact up to the limit, what is above is only above."""
        if not self._tickets or mine > self._tickets[-1]:
            return self._marked + self._sum
        return self._marked + sum(self._wants[: bisect_right(self._tickets, mine)])

    def bound(self, spare: int) -> tuple[Any, ...]:
        """(number, claim) of the ticket from which on `prior` is more than `spare`, as a tuple to compare with."""
        total = self._marked
        if total > spare:
            return NOBODY
        for ticket, units in zip(self._tickets, self._wants, strict=True):
            total += units
            if total > spare:
                return ticket.number, ticket.claim
        return EVERYBODY


NOBODY: tuple[Any, ...] = (-1,)
EVERYBODY: tuple[Any, ...] = (inf,)


class Board:
    """One pool. Serials and turns only grow, but for advancing."""

    def __init__(self) -> None:
        self.playing: dict[Key, None] = {}
        """Those that have not won and may be told something by the next change."""
        self.outside: dict[Key, int] = {}
        """Those that have been told that their doorway is closed -> serial up to which it is, ascending."""
        self.admitted: dict[Key, int] = {}
        """Serial of the admission, ascending (the paper's AboutPredecessors, for all of them)."""
        self.queue: dict[Key, int] = {}
        """AboutRequests: turn of the request, ascending."""
        self.serial = 0
        self.turn = 0
        self.clock = 0

    def __bool__(self) -> bool:
        return bool(self.playing or self.outside or self.admitted or self.queue)

    @property
    def registered(self) -> dict[Key, None]:
        """Those that have not won."""
        return self.playing | dict.fromkeys(self.outside)

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.playing, twin.outside = self.playing.copy(), self.outside.copy()
        twin.admitted, twin.queue = self.admitted.copy(), self.queue.copy()
        twin.serial, twin.turn, twin.clock = self.serial, self.turn, self.clock
        return twin

    def enter(self, key: Key, entry: GameEntry, *, won: bool) -> None:
        """As the entry is; also after a restart, in any order."""
        self.outside.pop(key, None)
        if won:
            self.playing.pop(key, None)
        else:
            self.playing[key] = None
        self.admitted = _with(self.admitted, key, entry.serial)
        self.queue = _with(self.queue, key, entry.turn)
        self.serial = max(self.serial, entry.serial, entry.door)
        self.turn = max(self.turn, entry.turn)
        self.clock = max(self.clock, entry.number)

    def leave(self, key: Key) -> None:
        """Nothing of it is here."""
        for of_some in (self.playing, self.outside, self.admitted, self.queue):
            of_some.pop(key, None)

    def is_closed(self, entry: GameEntry) -> bool:
        """Whether somebody is still admitted who was when it registered."""
        return bool(self.admitted) and next(iter(self.admitted.values())) <= entry.door

    def wait_outside(self, key: Key, entry: GameEntry) -> None:
        """It has been told that its doorway is closed."""
        self.playing.pop(key, None)
        self.outside = _with(self.outside, key, entry.door)

    def open(self) -> None:
        """Whose doorway is open now plays on."""
        least = next(iter(self.admitted.values()), None)
        while self.outside:
            key, door = next(iter(self.outside.items()))
            if least is not None and least <= door:
                return
            del self.outside[key]
            self.playing[key] = None

    def pass_by(self, key: Key, passed: list[Key]) -> None:
        """Its request goes before these, which stand right before it: the same turns in another order."""
        mine = [*passed, key]
        turns = [self.queue[one] for one in mine]
        self.queue |= dict(zip([key, *passed], turns, strict=True))
        self.queue = dict(sorted(self.queue.items(), key=lambda item: item[1]))

    def requests(
        self,
        entries: Mapping[Key, GameEntry],
        wanted: Callable[[GameEntry], int],
        ahead: Ahead,
        *,
        complete: bool,
    ) -> Iterator[tuple[Key, Sums]]:
        """Everybody with a request, in their order. Afterwards all requests stand in `ahead`."""
        for key in self.queue:
            entry = entries[key]
            yield key, Sums(self.is_closed(entry), ahead.prior(entry.ticket), ahead.units)
            ahead.add(entry.ticket, wanted(entry), marked=complete and entry.marked)

    def others(
        self, entries: Mapping[Key, GameEntry], wanted: Callable[[GameEntry], int], ahead: Ahead, room: int
    ) -> Iterator[tuple[Key, bool, bool]]:
        """Everybody who plays without a request: (key, door is closed, p2). Runs for each of many: one comparison."""
        least = next(iter(self.admitted.values()), inf)
        bounds: dict[int, tuple[Any, ...]] = {}
        queue = self.queue
        for key in tuple(self.playing):
            if key in queue:
                continue
            entry = entries[key]
            bound = bounds.get(entry.units)
            if bound is None:
                bound = bounds[entry.units] = ahead.bound(room - wanted(entry))
            closed = least <= entry.door
            yield key, closed, not closed and (entry.number, entry.claim) < bound

    def blockers(self, key: Key) -> tuple[ClaimId, ...]:
        """The first requests ahead of its own, the next one last; none while it has no request."""
        before: deque[ClaimId] = deque(maxlen=BLOCKERS)
        if key in self.queue:
            for other in self.queue:
                if other == key:
                    break
                before.append(other[0])
        return tuple(before)


def _with(ascending: dict[Key, int], key: Key, number: int) -> dict[Key, int]:
    """With this number for the key (0: without the key), in order; the same dictionary where it can be."""
    if ascending.get(key, 0) == number:
        return ascending
    ascending.pop(key, None)
    if number:
        is_last = not ascending or next(reversed(ascending.values())) <= number
        ascending[key] = number
        if not is_last:
            return dict(sorted(ascending.items(), key=lambda item: item[1]))
    return ascending

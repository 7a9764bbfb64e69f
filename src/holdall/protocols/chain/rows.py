"""What a manager keeps of a claim: its row, what outlives a row, and vectors of units. Source: chain specification, 2.2."""

from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.vocabulary import ALL, ClaimId, Stamp, Terms, UnitGrant, Vector, Visit

Age: TypeAlias = tuple[Stamp, ClaimId]
"""Order of waiting rows; smaller is older. The claim makes it total even for stamps brought from elsewhere."""


class Killing(IntEnum):
    """Whether an active row is being called back, and by whom."""

    NO = 0
    HERE = 1
    """An older claim waits here for its units: it will wait here again."""
    BEFORE = 2
    """The node before this one asked: it will leave this node."""


class Row(msgspec.Struct, frozen=True, tag="row", cache_hash=True):
    """A claim in line (`active` False) or with its units set aside. Also the record that is saved."""

    claim: ClaimId
    attempt: int
    need: tuple[Visit, ...]
    terms: Terms
    index: int
    """This node's place in `need`, from 0."""
    pn: int
    """Which activation at the node before sent it here; 0 at the first node."""
    n: int
    """How often it became active here."""
    stamp: Stamp
    left: int
    """Younger claims that may still pass it here."""
    ahead: int
    """Older claims that waited here for one of its pools when it came."""
    bound: int
    """What `left` was at first."""
    wants: tuple[Vector, ...]
    """The alternatives here with the holder's limit pools."""
    most: Vector
    """Pool by pool the most that an alternative wants; `all_of(k)` for all units, at least k."""
    got: tuple[int, ...]
    """The alternatives chosen at the nodes before, and here when active."""
    before: tuple[UnitGrant, ...]
    """Units at the nodes before."""
    active: bool = False
    vector: Vector = ()
    """Units in use here, as numbers; empty while waiting."""
    kill: Killing = Killing.NO

    @property
    def last(self) -> bool:
        """Whether this node is the one that decides."""
        return self.index + 1 == len(self.need)

    @property
    def age(self) -> Age:
        return (self.stamp, self.claim)

    @property
    def overtaken(self) -> int:
        """How many have passed it here."""
        return self.bound - self.left


class Mem(msgspec.Struct, frozen=True, tag="mem", cache_hash=True):
    """What a node remembers of an attempt that was killed here, so that an old Promote revives nothing."""

    attempt: int
    pn: int
    n: int
    left: int | None
    """None: voided before it ever came, so it has no passes counted yet."""
    ahead: int = 0
    bound: int = 0


class Tombstone(msgspec.Struct, frozen=True, tag="tombstone"):
    """The highest attempt of a claim that is over for ever."""

    attempt: int


ManagerRecord: TypeAlias = Row | Mem | Tombstone

CODEC.register("chain row", ManagerRecord)


def all_of(least: int) -> int:
    """A number of units that means: all of the pool's capacity, and at least `least`."""
    return ALL * max(least, 1)


@lru_cache(maxsize=1 << 8)
def most_of(alternatives: tuple[Vector, ...]) -> Vector:
    """Pool by pool the most that any of the alternatives wants. A client wants the same in most of its claims."""
    numbers: dict[str, int] = {}
    whole: set[str] = set()
    for vector in alternatives:
        for pool, units in vector:
            if units < 0:
                whole.add(pool)
            numbers[pool] = max(numbers.get(pool, 1), units)
    return tuple(
        (pool, all_of(numbers[pool]) if pool in whole else numbers[pool]) for pool in sorted(numbers)
    )


# Limit pools: a holder's limit at a node is a pool of its own (chain specification, 5.6).

_MARK = "\x1f"
"""Stands in no name, so an id of a limit pool is no pool's."""


class Limit(msgspec.Struct, frozen=True):
    """At most `units` of `pool` for one holder (`holder` empty: for each holder, counted apart)."""

    pool: str
    units: int
    holder: str = ""


def limit_pool(pool: str, holder: str) -> str:
    """The id of a holder's limit pool."""
    return f"{_MARK}{pool}{_MARK}{holder}"


def is_limit_pool(pool: str) -> bool:
    """Whether this is no pool of units but a holder's limit."""
    return pool.startswith(_MARK)


def real_pool(pool: str) -> str:
    """The pool that a limit pool counts; any other pool itself."""
    return pool.split(_MARK, 2)[1] if pool.startswith(_MARK) else pool


def limited_holder(pool: str) -> str:
    """Whose limit a limit pool is."""
    return pool.split(_MARK, 2)[2]


def with_limits(vector: Vector, limited: Iterable[str], holder: str) -> Vector:
    """The vector and, for each of its limited pools, as much of the holder's limit pool."""
    named = set(limited)
    extra = tuple((limit_pool(pool, holder), units) for pool, units in vector if pool in named)
    return tuple(sorted(vector + extra)) if extra else vector


def without_limits(vector: Vector) -> Vector:
    """What the lease book has to know."""
    return tuple(part for part in vector if not is_limit_pool(part[0]))

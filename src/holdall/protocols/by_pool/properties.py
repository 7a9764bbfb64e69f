"""What must hold at every manager by pool after each of its turns, whatever its protocol."""

from collections.abc import Iterator
from typing import Any

from holdall.protocols.by_pool.manager import Manager


def wrong_here(manager: Manager[Any]) -> Iterator[str]:
    """Each property that is violated, as `name: text`: units counted right, nothing buried is here."""
    used: dict[str, int] = {}
    waiting: dict[str, int] = {}
    for key in sorted(manager.entries):
        entry = manager.entries[key]
        if entry.held:
            used[entry.pool] = used.get(entry.pool, 0) + entry.units
            units = manager.units(entry)
            if len(units) != entry.units:
                yield f"book: {entry.claim} has {len(units)} of {entry.units} units of {entry.pool}"
        else:
            waiting[entry.pool] = waiting.get(entry.pool, 0) + 1
        if manager.buried.get(key, 0) >= entry.attempt:
            yield f"buried: {entry.claim} at {entry.pool} has ended and is still here"
    for pool in sorted({*waiting, *manager.waiting}):
        if waiting.get(pool, 0) != manager.waiting.get(pool, 0):
            yield f"sum: pool {pool} counts {manager.waiting.get(pool, 0)} waiting, there are {waiting.get(pool, 0)}"
    for pool in sorted({*used, *manager.used}):
        have, counted = used.get(pool, 0), manager.used.get(pool, 0)
        if have != counted:
            yield f"sum: pool {pool} counts {counted} units in use, its entries have {have}"
        if have > manager.book.capacity(pool) and manager.book.may_grant():
            yield f"books: {have} units of {pool}@{manager.node} given, it has {manager.book.capacity(pool)}"

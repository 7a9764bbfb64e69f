"""What must hold at a manager after each of its turns."""

from collections.abc import Iterator

from holdall.protocols.ordered.manager import Manager
from holdall.protocols.ordered.messages import party


def wrong_here(manager: Manager) -> Iterator[str]:
    """Each property that is violated, as `name: text`."""
    used: dict[str, int] = {}
    for key in sorted(manager.locks):
        lock = manager.locks[key]
        in_line = key in manager.lines.get(lock.pool, {})
        if lock.held == in_line:
            yield f"line: {lock.claim} at {lock.pool} is held={lock.held} and in line={in_line}"
        if lock.held:
            used[lock.pool] = used.get(lock.pool, 0) + lock.units
            units = manager.book.units(lock.claim, party(lock.attempt, lock.place))
            if len(units) != lock.units:
                yield f"book: {lock.claim} has {len(units)} of {lock.units} units of {lock.pool}"
        if manager.buried.get(key, 0) >= lock.attempt:
            yield f"buried: {lock.claim} at {lock.pool} has ended and is still here"
    for pool in sorted({*used, *manager.used}):
        if used.get(pool, 0) != manager.used.get(pool, 0):
            yield f"sum: pool {pool} counts {manager.used.get(pool, 0)} units in use, its locks have {used.get(pool, 0)}"
    for pool in sorted(manager.lines):
        turns = [manager.locks[key].turn for key in manager.lines[pool]]
        if turns != sorted(turns):
            yield f"order: the line of pool {pool} is not in order of arrival"

"""What must hold at a manager of ordered locking after each of its turns."""

from collections.abc import Iterator

from holdall.protocols.ordered.manager import Manager


def wrong_here(manager: Manager) -> Iterator[str]:
    """Each property that is violated, as `name: text`."""
    for key in sorted(manager.entries):
        lock = manager.entries[key]
        in_line = key in manager.lines.get(lock.pool, {})
        if lock.held == in_line:
            yield f"line: {lock.claim} at {lock.pool} is held={lock.held} and in line={in_line}"
    for pool in sorted(manager.lines):
        turns = [manager.entries[key].turn for key in manager.lines[pool]]
        if turns != sorted(turns):
            yield f"order: the line of pool {pool} is not in order of arrival"

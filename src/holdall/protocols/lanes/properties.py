"""What must hold of lanes at every manager after each of its turns, and between them. Lanes specification, section 3."""

from collections.abc import Iterator, Mapping
from typing import Any

from holdall.protocols.lanes.manager import Manager
from holdall.protocols.lanes.messages import HOLDS, Status


def wrong_here(manager: Manager) -> Iterator[str]:
    """Each property that is violated, as `name: text`."""
    wants: dict[str, int] = {}
    for key in sorted(manager.entries):
        entry = manager.entries[key]
        if entry.held != (entry.status in HOLDS):
            yield f"status: {entry.claim} at {entry.pool} is {entry.status.name} and held={entry.held}"
        line = manager.lines.get(entry.pool)
        if entry.held == (line is not None and entry in line):
            yield f"line: {entry.claim} at {entry.pool} is held={entry.held} and in line={not entry.held}"
        if manager.clocks.get(entry.pool, 0) < entry.index:
            yield f"clock: {entry.claim} has index {entry.index}, pool {entry.pool} is at {manager.clocks.get(entry.pool, 0)}"
        if not entry.held and entry.status is not Status.LENT:
            wants[entry.pool] = wants.get(entry.pool, 0) + manager.wanted(entry)
    for pool, line in sorted(manager.lines.items()):
        if line.wanted(manager.book.capacity(pool)) != wants.get(pool, 0):
            yield f"sum: the line of pool {pool} wants {line.wanted(manager.book.capacity(pool))}, not {wants.get(pool, 0)}"


def wrong_between(nodes: Mapping[str, Any]) -> Iterator[str]:
    """A lane has one index: an attempt is in line at the same index in all its pools."""
    lanes: dict[tuple[object, int], int] = {}
    for name in sorted(nodes):
        for entry in nodes[name].entries:
            if entry.status is not Status.QUEUED:
                continue
            index = lanes.setdefault((entry.claim, entry.attempt), entry.index)
            if index != entry.index:
                yield f"lane: {entry.claim} is in line at {index} and at {entry.index}"

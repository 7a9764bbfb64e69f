"""What must hold at a pool of strong/weak after each of its turns, and between the two pools of a claim."""

from collections.abc import Iterator, Mapping
from typing import Any

from holdall.protocols.strong_weak.manager import Manager


def wrong_here(manager: Manager) -> Iterator[str]:
    """Each property that is violated, as `name: text`."""
    queued = {key: pool for pool, queue in manager.queues.items() for _, key in queue}
    active = {key: pool for pool, held in manager.active.items() for key in held}
    for key in sorted(manager.entries):
        entry = manager.entries[key]
        if (queued.pop(key, None) == entry.pool) != entry.queued:
            yield f"line: {entry.claim} at {entry.pool} should be in the strong queue: {entry.queued}"
        if (active.pop(key, None) == entry.pool) != (entry.held and entry.kind == "strong"):
            yield f"line: {entry.claim} at {entry.pool} should be active: {entry.held}"
        if entry.kind == "weak" and entry.held and not entry.promoted:
            yield f"line: {entry.claim} is granted at {entry.pool} without a promotion"
    for key in sorted((*queued, *active)):
        yield f"line: {key[0]} is in a queue, and not here"
    for pool in sorted(manager.queues):
        queue = manager.queues[pool]
        if any(rank != manager.rank(manager.entries[key]) for rank, key in queue) or queue != sorted(queue):
            yield f"order: the strong queue of pool {pool} is not in its order"
        head = manager.entries[queue[0][1]]
        if manager.book.may_grant() and manager.wanted(head) <= manager.free(pool):
            yield f"idle: {head.claim} is the next of pool {pool}, fits, and waits"


def wrong_between(nodes: Mapping[str, Any]) -> Iterator[str]:
    """I1: a promoted weak part means that the strong pool holds that same promotion, unless its part there has ended."""
    strong = {
        (entry.claim, entry.attempt): entry
        for seen in nodes.values()
        for entry in seen.entries
        if entry.kind == "strong"
    }
    for seen in nodes.values():
        for entry in seen.entries:
            if entry.kind != "weak" or not entry.promoted:
                continue
            other = strong.get((entry.claim, entry.attempt))
            if other is not None and not (other.held and other.n == entry.n):
                yield (
                    f"I1: {entry.claim} is promoted at {entry.pool}@{seen.node} by its promotion {entry.n}; "
                    f"at {other.pool} it is active={other.held} with {other.n}"
                )

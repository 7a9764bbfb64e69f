"""What must hold of the token, and at every node of its ring after each turn."""

from collections.abc import Iterator, Mapping
from typing import Any

from holdall.protocols.token.lines import order_of
from holdall.protocols.token.messages import OUTSIDE, Stage
from holdall.protocols.token.recovery import Recovering


def wrong_here(manager: Recovering) -> Iterator[str]:
    """Each property that is violated, as `name: text`: every entry in its queue, the queues in the ring's order."""
    for key in sorted(manager.entries):
        entry = manager.entries[key]
        in_line = key in manager.lines.get(entry.pool, {})
        weak = entry.number == 0
        if in_line == (entry.held or weak or entry.ticket != 0) and entry.number != OUTSIDE:
            yield f"line: {entry.claim} at {entry.pool} has number {entry.number} and in line={in_line}"
        if weak and entry.claim not in manager.weak:
            yield f"weak: {entry.claim} has no number and is not in the weak queue"
    for pool in sorted(manager.lines):
        order = [order_of(manager.entries[key]) for key in manager.lines[pool]]
        if order != sorted(order):
            yield f"order: the queue of pool {pool} is not in the order of the ring"
    if (manager.ring.token is not None) != (manager.ring.stage in {Stage.HERE, Stage.PASSED}):
        yield f"token: {manager.node} is at stage {manager.ring.stage.name} with token={manager.ring.token}"


def wrong_between(nodes: Mapping[str, Any]) -> Iterator[str]:
    """At most one token rests in the newest epoch, a claim has one number everywhere, and in an epoch it alone."""
    newest = max(seen.own[0] for seen in nodes.values())
    here = sorted(name for name, seen in nodes.items() if seen.own == (newest, True))
    if len(here) > 1:
        yield f"token: there are tokens at {', '.join(here)}"
    numbers: dict[tuple[object, int], int] = {}
    owners: dict[tuple[object, int], object] = {}
    for seen in nodes.values():
        for entry in seen.entries:
            if entry.number <= 0:
                continue
            number = numbers.setdefault((entry.claim, entry.attempt), entry.number)
            if number != entry.number:
                yield f"number: {entry.claim} has the numbers {number} and {entry.number}"
            owner = owners.setdefault((entry.ring, entry.number), entry.claim)
            if owner != entry.claim:
                yield f"number: {entry.claim} and {owner} both have {entry.number}"

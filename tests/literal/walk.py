"""The whole graph of a small world, past everything that is wrong in it: which properties are violated anywhere."""

from collections import Counter
from typing import NamedTuple

from holdall.explorer.moves import State
from holdall.explorer.space import Space


class Whole(NamedTuple):
    """`wrong`: property -> states that violate it (nothing is looked for behind those)."""

    states: int
    wrong: Counter[str]
    hopeless: int
    """States from which nobody can ever bring the world to its end."""


def whole(space: Space, most: int = 200_000) -> Whole:
    """All states, or AssertionError when there are more than `most`."""
    first = space.first()
    seen: dict[State, int] = {first: 0}
    todo = [first]
    wrong: Counter[str] = Counter()
    before: list[list[int]] = [[]]
    done: list[int] = []
    for state in todo:
        assert len(todo) <= most
        text = space.wrong(state)
        if text:
            wrong[text.partition(":")[0]] += 1
            continue
        moved = False
        for step in space.steps(state):
            assert not step.wrong
            moved = True
            number = seen.get(step.state)
            if number is None:
                number = seen[step.state] = len(todo)
                todo.append(step.state)
                before.append([])
            before[number].append(seen[state])
        if space.done(state):
            done.append(seen[state])
        elif not moved:
            wrong["deadlock"] += 1
    hopeful = set(done)
    while done:
        fresh = [source for source in before[done.pop()] if source not in hopeful]
        hopeful.update(fresh)
        done += fresh
    return Whole(len(todo), wrong, len(todo) - len(hopeful))

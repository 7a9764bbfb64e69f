"""What a search keeps of the graph: who found each state, and which moves of progress lead where."""

from array import array
from collections.abc import Sequence

NO_PARENT = 0


class Graph:
    """States by number, in the order in which they were found."""

    def __init__(self, *, edges: bool) -> None:
        self.parents = array("I", [NO_PARENT])
        """State -> the state that it was found from."""
        self.offsets = array("Q", [0]) if edges else array("Q")
        self.targets = array("I")
        """Of progress moves; those of state i are targets[offsets[i]:offsets[i + 1]]."""
        self.goals = array("I")
        """States in which everybody is served and nothing is left over."""

    def way(self, state: int) -> list[int]:
        """The states from the first one (left out) to this one, on a shortest way."""
        found: list[int] = []
        while state:
            found.append(state)
            state = self.parents[state]
        found.reverse()
        return found

    def size(self) -> int:
        """Bytes that all this takes."""
        return sum(
            part.itemsize * len(part) for part in (self.parents, self.offsets, self.targets, self.goals)
        )


def never_done(graph: Graph, goals: Sequence[int]) -> int | None:
    """The first state (in order of steps) from which no move of progress leads to a goal; None: there is none."""
    count = len(graph.parents)
    starts = array("I", bytes(4 * (count + 1)))
    for target in graph.targets:
        starts[target + 1] += 1
    for number in range(count):
        starts[number + 1] += starts[number]
    fill = array("I", starts)
    sources = array("I", bytes(4 * len(graph.targets)))
    for source in range(count):
        for place in range(graph.offsets[source], graph.offsets[source + 1]):
            target = graph.targets[place]
            sources[fill[target]] = source
            fill[target] += 1
    del fill
    reached = bytearray(count)
    todo = array("I", goals)
    for goal in goals:
        reached[goal] = 1
    while todo:
        target = todo.pop()
        for place in range(starts[target], starts[target + 1]):
            source = sources[place]
            if not reached[source]:
                reached[source] = 1
                todo.append(source)
    lost = reached.find(0)
    return None if lost < 0 else lost

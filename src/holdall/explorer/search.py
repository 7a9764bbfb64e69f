"""Breadth first over all states of a closed world: the first violation found is a shortest one.

Safety is judged in each state. When the graph is complete, everybody must still be able to be served from each
state without a further fault, and no claim may stay at a node: a backward search from the states where all is done.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import msgspec

from holdall.explorer.moves import Move, State, Step

PROGRESS_EVERY = 5000
NO_PARENT = 0


class Space(Protocol):
    """A closed world as the search sees it."""

    def first(self) -> State:
        """Everybody started, nothing done."""
        ...

    def steps(self, state: State) -> Iterator[Step]:
        """All moves, in a fixed order."""
        ...

    def wrong(self, state: State) -> str:
        """A property that is violated here, as `name: text`; empty when all hold."""
        ...

    def served(self, state: State) -> bool:
        """Everybody has what they came for."""
        ...

    def done(self, state: State) -> bool:
        """Everybody is served and nothing is left over."""
        ...


class Violation(msgspec.Struct, frozen=True):
    """A property that does not hold, and the moves that lead there (a shortest such path)."""

    name: str
    """The property: exclusion, one grant, bound, books, invariant, refused, deadlock, row stays, unserved, ..."""
    text: str
    moves: tuple[Move, ...]

    @property
    def steps(self) -> int:
        """Moves from the first state."""
        return len(self.moves)


class Result(msgspec.Struct):
    """What an exploration has found. `complete`: every reachable state has been looked at."""

    states: int
    transitions: int
    complete: bool
    violations: tuple[Violation, ...] = ()
    depth: int = 0
    """Moves to the state that is farthest from the first one."""


Progress = Callable[[int, int], None]
"""Called now and then with (states found, states not yet looked at)."""


class Graph(msgspec.Struct):
    """States in the order in which they were found, with the move that found each and the moves of progress."""

    states: list[State]
    moves: list[Move]
    parents: "array[int]"
    offsets: "array[int]"
    targets: "array[int]"
    """Of progress moves; those of state i are targets[offsets[i]:offsets[i + 1]]."""

    def path(self, state: int) -> tuple[Move, ...]:
        """The moves from the first state to this one."""
        found: list[Move] = []
        while state:
            found.append(self.moves[state])
            state = self.parents[state]
        return tuple(reversed(found))


def explore(
    space: Space, *, states_max: int | None = None, liveness: bool = True, progress: Progress | None = None
) -> Result:
    """All states of a world, or those up to the first violation or to `states_max`."""
    first = space.first()
    graph = Graph([first], [Move("start", 0)], array("I", [NO_PARENT]), array("Q", [0]), array("I"))
    ids: dict[State, int] = {first: 0}
    states, moves, parents = graph.states, graph.moves, graph.parents
    transitions = 0
    at = 0
    while at < len(states):
        state = states[at]
        moving = False
        for move, then, goes_on, wrong in space.steps(state):
            transitions += 1
            if wrong:
                return _violated(wrong, (*graph.path(at), move), len(states), transitions)
            known = ids.get(then)
            if known is None:
                known = ids[then] = len(states)
                states.append(then)
                moves.append(move)
                parents.append(at)
                bad = space.wrong(then)
                if bad:
                    return _violated(bad, graph.path(known), len(states), transitions)
            if goes_on and known != at:
                moving = True
                graph.targets.append(known)
        graph.offsets.append(len(graph.targets))
        if not moving and not space.done(state):
            return _violated(_stuck(space, state), graph.path(at), len(states), transitions)
        at += 1
        if not at % PROGRESS_EVERY and progress is not None:
            progress(len(states), len(states) - at)
        if states_max is not None and len(states) >= states_max and at < len(states):
            return Result(len(states), transitions, complete=False)
    result = Result(len(states), transitions, complete=True, depth=len(graph.path(len(states) - 1)))
    if liveness:
        lost = never_done(graph, [number for number, state in enumerate(states) if space.done(state)])
        if lost is not None:
            text = "row stays: a node keeps a claim for ever" if space.served(states[lost]) else ""
            text = text or "unserved: from here not everybody can be served"
            result.violations = _violated(text, graph.path(lost), 0, 0).violations
    return result


def never_done(graph: Graph, goals: Sequence[int]) -> int | None:
    """The first state (in order of steps) from which no move of progress leads to a goal; None when there is none."""
    count = len(graph.states)
    starts = array("I", [0]) * (count + 1)
    for target in graph.targets:
        starts[target + 1] += 1
    for number in range(count):
        starts[number + 1] += starts[number]
    fill = array("I", starts)
    sources = array("I", [0]) * len(graph.targets)
    for source in range(count):
        for place in range(graph.offsets[source], graph.offsets[source + 1]):
            target = graph.targets[place]
            sources[fill[target]] = source
            fill[target] += 1
    reached = bytearray(count)
    todo = list(goals)
    for goal in todo:
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


def _stuck(space: Space, state: State) -> str:
    if space.served(state):
        return "row stays: everybody is done and a node keeps a claim for ever"
    return "deadlock: nothing more can happen and somebody is not served"


def _violated(wrong: str, path: tuple[Move, ...], states: int, transitions: int) -> Result:
    name, _, text = wrong.partition(": ")
    return Result(states, transitions, complete=False, violations=(Violation(name, text, path),))

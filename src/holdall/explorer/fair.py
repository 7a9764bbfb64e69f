"""Fair cycles in which somebody is never served.

A run may go round a cycle for ever if it is weakly fair there: what can happen in all of its states without a break
(a message or a link delivers, a timer fires, a client that is inside leaves, a lease ends) does happen in it. Such
cycles of a finite graph lie within its strongly connected parts, and a part has one exactly when each thing that can
happen in all its states happens on some edge of it: then a walk through all edges is such a cycle. Claims are made
at will, so that a client comes again is never waited for. Where timers fire only when nothing is in flight, one that
stays armed all the time and could fire again and again must fire. (Model checking under fairness: Clarke, Grumberg,
Peled, Model Checking, 1999, section 6.3.)
"""

from array import array
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from holdall.explorer.graph import Graph
from holdall.explorer.moves import Move, State, Step
from holdall.explorer.search import Result, Search, Violation
from holdall.explorer.search import Space as SearchSpace


class FairSpace(SearchSpace, Protocol):
    """A closed world with clients that wait."""

    def waiting(self, state: State) -> tuple[int, ...]:
        """Numbers of the clients that have asked for something and not got it yet."""
        ...

    def things(self, move: Move) -> tuple[Hashable, ...]:
        """What a move of progress is an instance of, as far as it must happen in the end."""
        ...

    def armed(self, state: State) -> set[Hashable]:
        """Things that wait for their time alone: they can happen here as soon as nothing is in flight."""
        ...

    def client_name(self, number: int) -> str:
        """A client for people."""
        ...


KEPT_MAX = 20_000
"""Of so many states the moves are remembered at most; those of others are worked out again."""


class _Edge(NamedTuple):
    move: Move
    target: int
    things: tuple[Hashable, ...]


class FairCycles:
    """Looks for fair cycles in the graph of a search that is complete, exact and has kept its edges."""

    def __init__(self, search: Search, space: FairSpace) -> None:
        self._search = search
        self._space = space
        self._edges: dict[int, list[_Edge]] = {}

    def find(self) -> Violation | None:
        """The first fair cycle in which some client waits all the time; None when there is none."""
        graph = self._search.graph
        for part in parts(len(graph.parents), lambda state: _targets(graph, state)):
            waiting = [set(self._space.waiting(self._state(state))) for state in part]
            for client in sorted(set[int]().union(*waiting)):
                stays = {state for state, who in zip(part, waiting, strict=True) if client in who}
                for cycle in self._fair_parts(stays):
                    return self._told(client, cycle)
        return None

    def _fair_parts(self, states: set[int]) -> Iterator[list[int]]:
        """Parts of these states in which a fair cycle lies.

        Where a timer is armed all the time, and could fire somewhere, and does nowhere, a fair cycle keeps away from
        the states in which it could.
        """
        for part in self._parts_of(states):
            happens = self._happens(part)
            if not self._always(part) <= happens:
                continue
            missing = self._in_time(part) - happens
            if not missing:
                yield part
                continue
            could = {state for state in part if missing & self._enabled(state)}
            yield from self._fair_parts(set(part) - could)

    def _state(self, number: int) -> State:
        return self._space.packing.unpack(self._search.store.packed(number))

    def _parts_of(self, states: set[int]) -> Iterator[list[int]]:
        graph = self._search.graph
        order = sorted(states)
        places = {state: place for place, state in enumerate(order)}

        def targets(place: int) -> list[int]:
            return [places[to] for to in _targets(graph, order[place]) if to in states]

        for part in parts(len(order), targets):
            yield [order[place] for place in part]

    def _edges_of(self, number: int) -> list[_Edge]:
        """Moves of progress from a state, those that lead back to it at once included."""
        found = self._edges.get(number)
        if found is None:
            if len(self._edges) >= KEPT_MAX:
                self._edges.clear()
            steps = [step for step in self._space.steps(self._state(number)) if step.progress]
            found = self._edges[number] = [self._edge(step) for step in steps]
        return found

    def _edge(self, step: Step) -> _Edge:
        return _Edge(step.move, self._search.number_of(step.state), self._space.things(step.move))

    def _always(self, part: Sequence[int]) -> set[Hashable]:
        """What can happen in each of these states."""
        return set[Hashable].intersection(*map(self._enabled, part))

    def _in_time(self, part: Sequence[int]) -> set[Hashable]:
        """What waits for its time in each of these states, and can happen in some."""
        armed = set[Hashable].intersection(*(self._space.armed(self._state(state)) for state in part))
        return armed & set[Hashable]().union(*map(self._enabled, part)) if armed else armed

    def _enabled(self, state: int) -> set[Hashable]:
        return {thing for edge in self._edges_of(state) for thing in edge.things}

    def _happens(self, part: Sequence[int]) -> set[Hashable]:
        """What happens on edges between these states."""
        inside = set(part)
        return {
            thing
            for state in part
            for edge in self._edges_of(state)
            if edge.target in inside
            for thing in edge.things
        }

    def _told(self, client: int, part: list[int]) -> Violation:
        """The way to the part's first state, and a walk round it that is fair."""
        inside, start = set(part), part[0]
        at, walked, seen = start, list[_Edge](), {start}
        must = self._always(part) | self._in_time(part)
        while True:
            happens = {thing for edge in walked for thing in edge.things}
            owed = sorted((self._always(sorted(seen)) | must) - happens, key=repr)
            if not owed:
                break
            always = owed[0] in must
            goal = partial(self._pays, thing=owed[0], must_happen=always)
            at = self._go(at, inside, walked, goal)
            seen |= {edge.target for edge in walked}
        if at != start or not walked:
            self._go(at, inside, walked, lambda edge: edge.target == start)
        moves = (*self._search.path(start), *(edge.move for edge in walked))
        text = (
            f"{self._space.client_name(client)} waits for ever while the last {len(walked)} moves go on and on; "
            "no link, message, timer or client is left out for ever"
        )
        return Violation("starved", text, moves, again=len(walked))

    def _pays(self, edge: _Edge, *, thing: Hashable, must_happen: bool) -> bool:
        """Whether this edge makes a walk fair to a thing: it happens, or leads to where it cannot happen."""
        if thing in edge.things:
            return True
        return not must_happen and not any(thing in other.things for other in self._edges_of(edge.target))

    def _go(
        self,
        start: int,
        inside: Collection[int],
        walked: list[_Edge],
        is_goal: Callable[[_Edge], bool],
    ) -> int:
        """The shortest walk within these states whose last edge is wanted, added to `walked`; where it ends."""
        before: dict[int, tuple[int, _Edge]] = {}
        todo = deque([start])
        while todo:
            at = todo.popleft()
            for edge in self._edges_of(at):
                if edge.target not in inside:
                    continue
                if is_goal(edge):
                    way = [edge]
                    while at != start:
                        at, earlier = before[at]
                        way.append(earlier)
                    walked.extend(reversed(way))
                    return edge.target
                if edge.target not in before and edge.target != start:
                    before[edge.target] = (at, edge)
                    todo.append(edge.target)
        raise AssertionError("a strongly connected part has a walk from each state to each edge")


def _targets(graph: Graph, state: int) -> "array[int]":
    return graph.targets[graph.offsets[state] : graph.offsets[state + 1]]


def parts(count: int, targets: Callable[[int], Sequence[int]]) -> Iterator[list[int]]:
    """The strongly connected parts of two states or more, each ascending (Tarjan 1972, without recursion)."""
    index = array("I", bytes(4 * count))
    low = array("I", bytes(4 * count))
    on_stack = bytearray(count)
    stack: list[int] = []
    clock = 0
    for root in range(count):
        if index[root]:
            continue
        work: list[tuple[int, Iterator[int]]] = []
        clock += 1
        index[root] = low[root] = clock
        stack.append(root)
        on_stack[root] = 1
        work.append((root, iter(targets(root))))
        while work:
            at, rest = work[-1]
            for to in rest:
                if not index[to]:
                    clock += 1
                    index[to] = low[to] = clock
                    stack.append(to)
                    on_stack[to] = 1
                    work.append((to, iter(targets(to))))
                    break
                if on_stack[to]:
                    low[at] = min(low[at], index[to])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[at])
                if low[at] == index[at]:
                    part: list[int] = []
                    while True:
                        member = stack.pop()
                        on_stack[member] = 0
                        part.append(member)
                        if member == at:
                            break
                    if len(part) > 1:
                        yield sorted(part)


def explore_fairly(
    space: FairSpace,
    *,
    states_max: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """As `explore`, and when all else is clean also fair cycles."""
    search = Search(space, states_max=states_max, progress=progress)
    result = search.run()
    if result.complete and not result.violations:
        cycle = FairCycles(search, space).find()
        result.fair = True
        result.violations = () if cycle is None else (cycle,)
    return result

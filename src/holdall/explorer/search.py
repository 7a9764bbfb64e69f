"""Breadth first over all states of a closed world: the first violation found is a shortest one.

Safety is judged in each state. When the graph is complete, everybody must still be able to be served from each
state without a further fault, and no claim may stay at a node: a backward search from the states where all is done.
"""

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from holdall.explorer.graph import Graph, never_done
from holdall.explorer.moves import Move, State, Step
from holdall.explorer.packing import Packing
from holdall.explorer.store import Store, miss_bound

PROGRESS_EVERY = 2000
RECENT = 1 << 15
"""So many states, and once more as many, are found without the store."""


class Space(Protocol):
    """A closed world as the search sees it."""

    @property
    def packing(self) -> Packing:
        """How its states are packed."""
        ...

    def first(self) -> State:
        """Everybody started, nothing done."""
        ...

    def canonical(self, state: State) -> State:
        """The state that stands for this one and all that are like it."""
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
    again: int = 0
    """So many of the last moves lead back to the state before them: they can go on for ever."""

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
    frontier: int = 0
    """States that have not been looked at."""
    bytes_per_state: float = 0.0
    """What states, the ways to them and the moves of progress take; tables of hosts, which are shared, left out."""
    miss_bound: float = 0.0
    """Compact: the chance, at most, that a state was taken for another one; exact: 0."""
    seconds: float = 0.0
    """Without the search for fair cycles."""
    fair: bool = False
    """Whether fair cycles were looked for."""
    liveness: bool = True
    """Whether it was judged, or would be when complete, that everybody can be served from each state."""


Progress = Callable[[int, int], None]
"""Called now and then with (states found, states not yet looked at)."""


class Search:
    """One exploration; `run` is called once. What is found stays readable: `graph`, `store`."""

    def __init__(
        self,
        space: Space,
        *,
        states_max: int | None = None,
        liveness: bool = True,
        compact: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """`compact`: keep hashes instead of states. `liveness` False: keep no moves and judge safety and deadlock."""
        self.space = space
        self.graph = Graph(edges=liveness)
        self.store = Store(space.packing.width, compact=compact)
        self._states_max = states_max
        self._liveness = liveness
        self._progress = progress
        self._transitions = 0
        self._at = 0
        self._first = space.first()
        self._recent: dict[State, int] = {}
        self._before: dict[State, int] = {}

    def run(self) -> Result:
        """All states of a world, or those up to the first violation or to `states_max`."""
        begun = time.monotonic()
        result = self._run()
        result.seconds = time.monotonic() - begun
        return result

    def _run(self) -> Result:
        first = self._first
        self.number_of(first)
        violation = self._judged(self.space.wrong(first), 0) or self._forward()
        if violation is not None:
            return self._result(complete=False, violations=(violation,))
        if self._at < self.store.count:
            return self._result(complete=False)
        lost = never_done(self.graph, self.graph.goals) if self._liveness else None
        depth = len(self.graph.way(self.store.count - 1))
        violations = () if lost is None else (self._lost(lost),)
        return self._result(complete=True, violations=violations, depth=depth)

    def _forward(self) -> Violation | None:
        space, store, graph = self.space, self.store, self.graph
        unpack, number_of, wrong_in, steps = space.packing.unpack, self._number, space.wrong, space.steps
        recent = self._recent
        parents, targets, offsets, keeps = graph.parents, graph.targets, graph.offsets, self._liveness
        while self._at < store.count:
            at = self._at
            state = unpack(store.packed(at))
            moving = False
            for move, then, goes_on, wrong in steps(state):
                self._transitions += 1
                if wrong:
                    return self._judged(wrong, at, move)
                known = recent.get(then)
                if known is None:
                    count = store.count
                    known = number_of(then)
                    if known == count:
                        parents.append(at)
                        bad = wrong_in(then)
                        if bad:
                            return self._judged(bad, known)
                if goes_on and known != at:
                    moving = True
                    if keeps:
                        targets.append(known)
            if keeps:
                offsets.append(len(targets))
            if space.done(state):
                graph.goals.append(at)
            elif not moving:
                return self._judged(_stuck(space, state), at)
            self._at = at + 1
            if not self._at % PROGRESS_EVERY:
                store.looked_at(at)
                if self._progress is not None:
                    self._progress(store.count, store.count - self._at)
            if self._states_max is not None and store.count >= self._states_max:
                return None
        return None

    def _number(self, state: State) -> int:
        """The state's number. Those asked for of late stand in two tables in front of the store."""
        recent = self._recent
        number = self._before.get(state)
        if number is None:
            number = self.number_of(state)
        if len(recent) >= RECENT:
            self._before = dict(recent)
            recent.clear()
        recent[state] = number
        return number

    def number_of(self, state: State) -> int:
        """The number of a state that has been found."""
        return self.store.number(self.space.packing.pack(self.space.canonical(state)))

    def path(self, number: int) -> tuple[Move, ...]:
        """The moves from the first state to this one: each is looked for again among the moves of the one before."""
        return tuple(move for move, _ in self.walk(self.graph.way(number)))

    def walk(self, way: list[int], start: State | None = None) -> Iterator[tuple[Move, State]]:
        """The moves along these states, from the first one or from `start`."""
        pack, canonical = self.space.packing.pack, self.space.canonical
        state = self._first if start is None else start
        for number in way:
            for move, then, _, wrong in self.space.steps(state):
                if not wrong and self.store.is_it(number, pack(canonical(then))):
                    yield move, then
                    state = then
                    break
            else:
                raise AssertionError(f"state {number} is not found again from the one before it")

    def _judged(self, wrong: str, at: int, *last: Move) -> Violation | None:
        if not wrong:
            return None
        name, _, text = wrong.partition(": ")
        return Violation(name, text, (*self.path(at), *last))

    def _lost(self, number: int) -> Violation:
        state = self._first
        moves: list[Move] = []
        for move, then in self.walk(self.graph.way(number)):
            moves.append(move)
            state = then
        if self.space.served(state):
            return Violation("row stays", "a node keeps a claim for ever", tuple(moves))
        return Violation("unserved", "from here not everybody can be served", tuple(moves))

    def _result(self, *, complete: bool, violations: tuple[Violation, ...] = (), depth: int = 0) -> Result:
        count = self.store.count
        return Result(
            count,
            self._transitions,
            complete=complete,
            violations=violations,
            depth=depth,
            frontier=count - self._at,
            bytes_per_state=(self.store.size() + self.graph.size()) / count,
            miss_bound=miss_bound(count) if self.store.compact else 0.0,
            liveness=self._liveness,
        )


def explore(
    space: Space,
    *,
    states_max: int | None = None,
    liveness: bool = True,
    compact: bool = False,
    progress: Progress | None = None,
) -> Result:
    """All states of a world, or those up to the first violation or to `states_max`; see `Search`."""
    search = Search(space, states_max=states_max, liveness=liveness, compact=compact, progress=progress)
    return search.run()


def _stuck(space: Space, state: State) -> str:
    if space.served(state):
        return "row stays: everybody is done and a node keeps a claim for ever"
    return "deadlock: nothing more can happen and somebody is not served"

"""Fair cycles: strongly connected parts, and what must happen in a run that goes round for ever."""

from collections.abc import Hashable, Iterator, Mapping, Sequence

import pytest
from explorer.lock_server import LockServer
from hypothesis import given
from hypothesis import strategies as st

from holdall.explorer import fair
from holdall.explorer.fair import explore_fairly, parts
from holdall.explorer.moves import Move, State, Step
from holdall.explorer.packing import Packing
from holdall.explorer.search import Result
from holdall.explorer.space import Space
from holdall.explorer.systems import system_of
from holdall.world.chain import ChainSystem
from holdall.world.faults import budget, read_faults
from holdall.world.named import named, plan, world
from holdall.world.plan import BadWorld

GRAPHS = st.integers(1, 12).flatmap(
    lambda count: st.lists(st.lists(st.integers(0, count - 1), max_size=3), min_size=count, max_size=count)
)


def reaches(graph: list[list[int]], start: int) -> set[int]:
    found: set[int] = set()
    todo = list(graph[start])
    while todo:
        at = todo.pop()
        if at not in found:
            found.add(at)
            todo += graph[at]
    return found


@given(graph=GRAPHS)
def test_strongly_connected_parts_are_those_that_reach_each_other(graph: list[list[int]]) -> None:
    reach = [reaches(graph, state) for state in range(len(graph))]
    wanted = {
        tuple(sorted({other for other in reach[state] if state in reach[other]} | {state}))
        for state in range(len(graph))
        if state in reach[state]
    }
    found = {tuple(part) for part in parts(len(graph), lambda state: graph[state])}
    assert found == {part for part in wanted if len(part) > 1}


class Toy:
    """A graph as a space: edges with a name of what happens; who waits in which state; which timers are armed."""

    def __init__(
        self,
        edges: Mapping[int, Sequence[tuple[int, str]]],
        waits: set[int],
        armed: dict[int, set[str]] | None = None,
    ) -> None:
        self.packing = Packing(1)
        self._edges, self._waits, self._armed = edges, waits, armed or {}
        self._names = sorted({name for out in edges.values() for _, name in out})

    def first(self) -> State:
        return (0, 0, 0)

    def canonical(self, state: State) -> State:
        return state

    def steps(self, state: State) -> Iterator[Step]:
        for target, name in self._edges.get(state[0], ()):
            yield Step(Move(name, 0), (target, 0, 0), progress=True)

    def wrong(self, state: State) -> str:
        return ""

    def served(self, state: State) -> bool:
        return not self._edges.get(state[0])

    def done(self, state: State) -> bool:
        return self.served(state)

    def waiting(self, state: State) -> tuple[int, ...]:
        return (0,) if state[0] in self._waits else ()

    def things(self, move: Move) -> tuple[Hashable, ...]:
        return (move.kind,)

    def armed(self, state: State) -> set[Hashable]:
        return set(self._armed.get(state[0], ()))

    def client_name(self, number: int) -> str:
        return "the client"


def cycle_of(toy: Toy) -> tuple[str, ...]:
    """What happens over and over; nothing when there is no fair cycle."""
    result = explore_fairly(toy)
    assert result.complete
    assert result.fair
    if not result.violations:
        return ()
    (violation,) = result.violations
    assert violation.name == "starved"
    assert violation.again > 0
    return tuple(move.kind for move in violation.moves[-violation.again :])


def test_two_who_pass_the_lock_to_each_other_for_ever_starve_the_third() -> None:
    assert cycle_of(Toy({0: [(1, "a")], 1: [(0, "b"), (2, "c")], 2: []}, {0, 1})) == ("a", "b")


def test_what_can_happen_all_the_time_does_happen_in_the_end() -> None:
    # c could happen in both states: to go round for ever would leave it out
    assert cycle_of(Toy({0: [(1, "a"), (2, "c")], 1: [(0, "b"), (2, "c")], 2: []}, {0, 1})) == ()


def test_what_happens_within_the_cycle_is_not_left_out() -> None:
    assert set(cycle_of(Toy({0: [(1, "a"), (3, "c")], 1: [(0, "c"), (3, "c")], 3: []}, {0, 1}))) == {"a", "c"}


def test_moves_that_are_not_remembered_are_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair, "KEPT_MAX", 1)
    assert cycle_of(Toy({0: [(1, "a")], 1: [(0, "b"), (2, "c")], 2: []}, {0, 1})) == ("a", "b")


def test_a_cycle_in_which_nobody_waits_starves_nobody() -> None:
    assert cycle_of(Toy({0: [(1, "a")], 1: [(0, "b"), (2, "c")], 2: []}, {0})) == ()


def test_a_cycle_goes_on_to_all_that_must_happen() -> None:
    # in every state "a" can happen, but only one edge of it stays within; the way round must take it
    toy = Toy(
        {0: [(1, "x"), (4, "a")], 1: [(0, "y"), (2, "z"), (4, "a")], 2: [(0, "a"), (4, "q")], 4: []},
        {0, 1, 2},
    )
    assert "a" in cycle_of(toy)


def test_a_timer_that_is_armed_all_the_time_fires_though_it_may_not_while_messages_are_under_way() -> None:
    edges = {0: [(1, "a"), (2, "t")], 1: [(0, "b")], 2: []}
    armed = {0: {"t"}, 1: {"t"}}
    assert cycle_of(Toy(edges, {0, 1})) == ("a", "b")
    assert cycle_of(Toy(edges, {0, 1}, armed)) == ()
    # where a cycle keeps away from the states in which it could fire, it never has its time
    beside = {0: [(1, "a"), (3, "t")], 1: [(0, "b"), (2, "c")], 2: [(1, "d")], 3: []}
    assert cycle_of(Toy(beside, {0, 1, 2}, {0: {"t"}, 1: {"t"}, 2: {"t"}})) == ("c", "d")


def endless(rule: str) -> Result:
    plans = [plan("0:a", endless=True) for _ in range(3)]
    return explore_fairly(Space(LockServer(world("lock", "a", plans), rule), budget()))


def test_claims_that_come_for_ever_are_a_finite_world_without_starvation() -> None:
    result = endless("")
    assert (result.complete, result.fair, result.violations) == (True, True, ())
    assert result.states == 694


def test_newcomers_who_stand_before_all_who_wait_starve_somebody() -> None:
    (violation,) = endless("push").violations
    assert violation.name == "starved"
    round_ = violation.moves[-violation.again :]
    assert [move.kind for move in round_].count("again") == 2
    assert {move.text for move in round_ if move.kind == "act"} == {"claims", "releases"}


@pytest.mark.parametrize(
    ("protocol", "claims", "states"),
    [
        ("ordered", ["0:a", "0:a", "0:a"], 298),
        ("ordered", ["0->1", "1->0"], 170),
        ("strong-weak", ["0:a", "0:a", "0:a"], 512),
        ("strong-weak", ["0->1", "1->0"], 505),
    ],
)
def test_claims_of_protocols_by_pool_come_for_ever_and_starve_nobody(
    protocol: str, claims: list[str], states: int
) -> None:
    made = world("again", "a", [plan(claim, endless=True) for claim in claims])
    result = explore_fairly(Space(system_of(protocol, made), budget()))
    assert (result.complete, result.fair, result.violations) == (True, True, ())
    assert result.states == states


def test_claims_that_come_for_ever_need_a_protocol_that_forgets_them() -> None:
    system = ChainSystem(world("again", "a", [plan("0:a", endless=True)]))
    with pytest.raises(BadWorld, match="can't forget"):
        explore_fairly(Space(system, budget()))
    lock = LockServer(world("lock", "a", [plan("0:a", endless=True)]))
    with pytest.raises(BadWorld, match="no faults"):
        Space(lock, budget(loss=1))


@pytest.mark.parametrize(
    ("world_name", "faults"),
    [
        ("x3", ""),
        ("e1", ""),
        ("n1abc", "loss=1"),
        ("x2low", "duplicate=1"),
        ("x2low", "crash=1"),
        ("n1aa", "wipe=1"),
    ],
)
def test_the_chain_has_no_fair_cycle_in_which_somebody_waits(world_name: str, faults: str) -> None:
    result = explore_fairly(Space(ChainSystem(named(world_name)), read_faults(faults)))
    assert (result.complete, result.fair, result.violations) == (True, True, ())

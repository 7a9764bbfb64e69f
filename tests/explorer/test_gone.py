"""A node that never comes back: its claims end, all others are served, and who is told of nothing waits for ever."""

import pytest

from holdall.explorer.options import Options, read_reduce
from holdall.explorer.search import Result, explore
from holdall.explorer.space import Space
from holdall.explorer.systems import PROTOCOLS, system_of, world_of
from holdall.explorer.trace import steps_of, told
from holdall.machine.host import Arrival
from holdall.world.by_pool import ByPoolSystem
from holdall.world.chain import ChainSystem
from holdall.world.faults import budget
from holdall.world.from_world import NodeLeft
from holdall.world.plan import BadWorld, World
from holdall.world.system import System

GONE = budget(gone=1)


def searched(system: System, *, reduce: str = "") -> tuple[Space, Result]:
    space = Options(reduce=read_reduce(reduce)).space(system, GONE)
    return space, explore(space)


@pytest.mark.parametrize(
    "protocol", [name for name, one in PROTOCOLS.items() if one.runs and not one.literal]
)
def test_every_protocol_has_complete_worlds_in_which_a_node_is_gone(protocol: str) -> None:
    rows = [run for run in PROTOCOLS[protocol].runs if run.faults == "gone=1"]
    if protocol in {"ballot", "skeen"}:
        assert rows == []  # steps of the history survive no fault
        return
    assert len(rows) >= 2
    assert all(run.states and run.states_max is None for run in rows)


@pytest.mark.parametrize(
    ("protocol", "world", "reduce", "states"),
    [
        ("chain", "n1aa", "", 1527),
        ("ordered", "pair", "", 1733),
        ("lanes", "pair", "", 1988),
        ("strong-weak", "pair", "", 2139),
        ("token", "pair", "", 1733),
        ("game", "one", "ignored", 58),
    ],
)
def test_all_claims_of_a_node_that_is_gone_end(protocol: str, world: str, reduce: str, states: int) -> None:
    _, result = searched(system_of(protocol, world_of(protocol, world)), reduce=reduce)
    assert result.violations == ()
    assert result.states == states


class NobodyLeaves(ChainSystem):
    """Nobody is told that a node is gone."""

    def told_of_gone(self, host: str, node: str) -> None:
        del host, node


class RingUntold(ByPoolSystem):
    """Claimants are told that a node is gone, the other members of the ring are not."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "token")

    def told_of_gone(self, host: str, node: str) -> Arrival | None:
        return None if host in self.world.nodes() else super().told_of_gone(host, node)


def test_who_is_not_told_that_a_node_is_gone_waits_for_its_answer_for_ever() -> None:
    space, result = searched(NobodyLeaves(world_of("chain", "n1a")))
    (found,) = result.violations
    assert found.name == "deadlock"
    path = list(told(space, found.moves))
    assert any("n0 never comes back" in line for line in path)


def test_a_ring_stands_still_when_it_is_not_told_that_a_member_is_gone() -> None:
    _, result = searched(RingUntold(world_of("token", "sub")))
    assert result.violations[0].name == "unserved"


def test_a_path_with_a_node_that_is_gone_replays_on_real_hosts() -> None:
    space, result = searched(NobodyLeaves(world_of("chain", "n1a")))
    steps = steps_of(space, result.violations[0].moves)
    (last,) = [step for step in steps if step.kind == "crash"]
    assert last.host == "n0"
    assert not [step for step in steps if step.host == "n0" and step.n > last.n]


def test_what_a_claimant_was_told_outlives_its_crash() -> None:
    system = ChainSystem(world_of("chain", "n1a"))
    host = system.build("c1")
    arrival = system.told_of_gone("c1", "n0")
    assert arrival is not None
    turn = host.turn((arrival,))
    (record,) = turn.saves.values()
    assert record == NodeLeft("n0")
    fresh = system.build("c1")
    fresh.recover({key: one for key, one in turn.saves.items() if one is not None}, system.boot("same", 1))
    assert fresh.key() == host.key() != system.build("c1").key()


def test_it_is_not_looked_at_over_links_that_keep_order() -> None:
    space = Options(order="fifo").space(system_of("chain", world_of("chain", "n1a")), GONE)
    with pytest.raises(BadWorld, match="leave --links fifo out"):
        explore(space)

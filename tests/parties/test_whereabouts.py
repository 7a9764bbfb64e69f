"""Where a command runs that says `--on any`: the place follows the needs."""

import pytest
from parties.many_nodes import System
from parties.party_node import pool

from holdall.model import frames
from holdall.model.run_frames import RunPlace, RunWhere
from holdall.model.spec import parse_needs


def lab() -> System:
    """lab-1 and lab-2 have GPUs for what runs there, lab-3 and desk have benches for everybody."""
    system = System()
    system.add("lab-1", pool("gpu", "0", reach="host"), pool("disk", "0", reach="host"))
    system.add("lab-2", pool("gpu", "0", "1", reach="host"))
    system.add("lab-3", pool("bench", "0", "1"), pool("gpu", "0"))
    system.add("desk", pool("bench", "0"))
    system.run(2000)
    return system


def where(system: System, *needs: str, at: str = "desk") -> str:
    client = system.client("asker", at)
    (answer,) = client.say(RunWhere(client.number(), parse_needs(one.split(" or ") for one in needs)))
    assert isinstance(answer, RunPlace)
    return answer.node


@pytest.mark.parametrize(
    ("needs", "place"),
    [
        (("bench",), "desk"),
        (("bench:3",), "desk"),
        (("nothing",), "desk"),
        (("disk",), "lab-1"),
        (("disk", "bench:2"), "lab-1"),
        (("disk", "gpu"), "lab-1"),
        (("disk", "gpu:2"), "desk"),
        (("gpu,@lab-2:2",), "lab-2"),
        (("disk or nothing",), "lab-1"),
        (("disk:2",), "desk"),
    ],
)
def test_a_command_runs_here_unless_its_needs_are_useful_on_other_nodes_only(
    needs: tuple[str, ...], place: str
) -> None:
    assert where(lab(), *needs) == place


def test_this_node_is_preferred_where_it_will_do_as_well() -> None:
    # One GPU for everybody, on lab-3, and two nodes with some for themselves.
    assert where(lab(), "gpu", at="lab-1") == "lab-1"
    assert where(lab(), "gpu", at="desk") == "desk"
    assert where(lab(), "gpu:2", at="lab-1") == "lab-2"


def test_what_is_free_now_is_preferred_and_a_silent_node_comes_last() -> None:
    system = lab()
    holder = system.client("holder", "lab-1")
    holder.gets("gpu,@lab-1")
    holder.ask_for("gpu,@lab-3")
    system.run(2000)
    assert where(system, "gpu", at="lab-1") == "lab-2"
    system.stop("lab-2")
    system.run(10_000)
    assert where(system, "gpu", at="lab-1") == "lab-1"
    assert where(system, "gpu,@lab-2:2", at="lab-1") == "lab-2"


def test_needs_that_are_none_are_refused() -> None:
    system = lab()
    client = system.client("asker", "desk")
    (answer,) = client.say(RunWhere(client.number(), ()))
    assert isinstance(answer, frames.Denied)
    assert answer.code == "bad-spec"

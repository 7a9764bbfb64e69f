"""A node that has just started knows of others, but not yet what they have: what may be there is waited for."""

from parties.many_nodes import System, granted, places
from parties.party_node import pool

from holdall.model.errors import NeverSatisfiable, NotGranted


def lab() -> System:
    """`lab-1` has a pool psu, of which `desk` has not heard yet; `desk` has a board."""
    system = System()
    system.untold.add("lab-1")
    system.add("lab-1", pool("psu", "0", "1"))
    system.add("desk", pool("board", "0"))
    system.run(100)
    return system


def test_what_may_be_at_a_node_that_has_told_nothing_is_waited_for_and_holds_nothing_meanwhile() -> None:
    system = lab()
    desk = system.client("a", "desk")
    desk.ask_for("psu:2", "board")
    system.run(1000)
    (why,) = system.nodes["desk"].ask("queue").waits
    assert why.note == "it holds nothing and keeps its age until the pools of lab-1 are known"
    other = system.client("b", "desk")
    other.releases(other.gets("board"))
    system.untold.clear()
    system.run(5000)
    (lease,) = granted(desk.inbox())
    assert sorted(places(lease)) == ["board/0@desk", "psu/0@lab-1", "psu/1@lab-1"]
    system.check()


def test_without_waiting_it_is_not_granted_and_not_called_impossible() -> None:
    refused = lab().client("a", "desk").refused("psu:2", now=True)
    assert refused.code == NotGranted.code
    assert refused.text == "not granted: nothing is known yet of the pools of lab-1"


def test_what_is_asked_of_a_node_that_has_told_all_is_refused() -> None:
    refused = lab().client("a", "desk").refused("psu,@desk:2")
    assert refused.code == NeverSatisfiable.code

"""Clients of other hosts, over the network: no process of this host stands for them, and their commands run there."""

import pytest
from parties.party_node import Client, Node, pool

from holdall.model.errors import NeverSatisfiable
from holdall.parties.messages import WatchProcess

GPU = pool("gpu", "0", "1", reach="host")
PSU = pool("psu", "psu-1")


def test_what_serves_commands_of_its_own_host_only_is_never_given_to_a_command_of_another() -> None:
    node = Node(GPU, PSU)
    far = Client(node, "far", pid=0)
    refused = far.refused("gpu", guarded=True)
    assert refused.code == NeverSatisfiable.code
    assert refused.text == (
        'cannot ever be granted: gpu:1 — 2 such units exist there (lab-1: 2), but pool gpu has reach = "host": it is used '
        "only where the command runs. Run it there: log in there, or let a job do it: holdall job run. "
        "Or add --allow-future."
    )
    granted = far.gets("gpu or psu", guarded=True)
    assert [unit.pool for unit in granted.lease.units] == ["psu"]


def test_a_lease_without_a_command_of_ours_and_a_command_of_this_host_get_them() -> None:
    node = Node(GPU)
    assert Client(node, "far", pid=0).gets("gpu").lease.units[0].pool == "gpu"
    assert Client(node, "here").gets("gpu", guarded=True).lease.units[0].pool == "gpu"


def test_a_claim_that_waits_is_not_put_on_them_either_when_it_is_planned_again() -> None:
    node = Node(GPU, PSU)
    holder = Client(node, "here")
    held = holder.gets("psu")
    far = Client(node, "far", pid=0)
    far.waits("gpu or psu", guarded=True)
    node.pass_ms(5_000)
    assert far.inbox() == []
    holder.releases(held)
    (granted,) = far.inbox()
    assert [unit.pool for unit in granted.lease.units] == ["psu"]  # type: ignore[union-attr]


@pytest.mark.parametrize(("pid", "watched"), [(0, 0), (4000, 1)], ids=["another-host", "this-host"])
def test_a_node_that_comes_up_again_looks_for_processes_of_its_own_host_only(pid: int, watched: int) -> None:
    node = Node(PSU)
    client = Client(node, "far", pid=pid)
    lease = client.gets("psu")
    node.crash()
    orders = [one for one in node.watched if isinstance(one, WatchProcess)]
    assert len(orders) == watched
    assert node.held() == {"psu/psu-1": lease.lease.lease}

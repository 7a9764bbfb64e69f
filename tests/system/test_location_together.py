"""Requests for several hosts at once that cross, on real nodes, while a host is killed: all parts or none, and no one stuck."""

import secrets
import threading
from collections.abc import Iterator

import pytest
from node.waiting import until
from system.many_nodes import NodeProcess, System, system
from system.test_location import at_location, host_count
from system.test_location_failover import ask, manager

from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.terms import LeaseRequest, RequestedTerm

pytestmark = pytest.mark.system
GPU = '[[pool]]\nname = "gpu"\nunits = ["one"]\n'


@pytest.fixture
def hosts() -> Iterator[System]:
    with system() as made:
        yield made


def two(node: NodeProcess) -> f.ToClient:
    """Units of two hosts, or of none."""
    term = {"gpu": RequestedTerm(1)}
    return ask(
        node,
        f.AskTogether(
            tuple(
                f.AskOffer("prague", LeaseRequest(secrets.token_hex(8), term, duration=5000))
                for _ in range(2)
            )
        ),
    )


def free(node: NodeProcess) -> int:
    with node.client() as client:
        client.send(frames.Ask(client.n(), "pools", "gpu"))
        return sum(row.free for row in client.wait(frames.Listing).pools)


def give_back(node: NodeProcess, leases: list[str]) -> None:
    """Without waiting for their hosts, one of which may be dead."""
    with node.client() as client:
        for lease in leases:
            client.send(frames.Negotiate(n=client.n(), body=f.pack(f.EndLease(lease))))
        client.send(frames.Beat(client.n()))
        client.wait(frames.BeatOk)


class Asking(threading.Thread):
    """Asks at one node for two units and gives them back, again and again."""

    def __init__(self, node: NodeProcess) -> None:
        super().__init__()
        self.node = node
        self.had = 0
        self.problem = ""
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            answer = two(self.node)
            if isinstance(answer, f.LeasesAre):
                if len({one.document.host for one in answer.leases}) != 2:
                    self.problem = f"not on two hosts: {answer}"
                self.had += 1
                give_back(self.node, [one.document.lease for one in answer.leases])
            elif not isinstance(answer, f.NoOffer):
                self.problem = f"neither all nor none: {answer}"


def test_crossing_requests_go_on_when_the_manager_with_its_host_is_killed_and_leave_nothing_held(
    hosts: System,
) -> None:
    nodes = at_location(hosts, "a", "b", "c", more=GPU)
    until(lambda: all(host_count(node) == 3 for node in nodes), "all hosts are known")
    leader = manager(nodes[0])
    (victim,) = (node for node in nodes if node.name == leader)
    askings = [Asking(node) for node in nodes if node is not victim]
    for one in askings:
        one.start()
    try:
        until(lambda: all(one.had >= 2 for one in askings), "each has two units, again and again")
        victim.kill()
        had = sum(one.had for one in askings)
        until(lambda: sum(one.had for one in askings) >= had + 2, "they still have, on the two hosts")
    finally:
        for one in askings:
            one.over.set()
        for one in askings:
            one.join()
    assert [one.problem for one in askings] == ["", ""]
    until(lambda: free(askings[0].node) == 2, "nothing is held any more")

"""Two and three whole nodes on one bus of this process claim over each other."""

from collections.abc import Iterator

import pytest
from node.together import Together, pool, together
from node.waiting import until

from holdall.model import frames
from holdall.model.errors import BadConfig


@pytest.fixture
def nodes() -> Iterator[Together]:
    with together() as made:
        yield made


def acquainted(nodes: Together, **pools: str) -> None:
    """Start nodes that know each other: each is told the ids of those before it, as joining does."""
    for name, text in pools.items():
        nodes.start(name, text)
    for name in pools:
        until(lambda name=name: seen_by(nodes, name) == sorted(pools), f"{name} knows all")  # type: ignore[misc]


def seen_by(nodes: Together, name: str) -> list[str]:
    with nodes.client(name) as client:
        return sorted({row.node for row in client.listing("pools").pools})


def held(granted: frames.Granted) -> list[tuple[str, str]]:
    return sorted((unit.node, unit.name) for unit in granted.lease.units)


def test_a_node_alone_on_its_bus_claims_its_own_pools_without_a_frame(nodes: Together) -> None:
    service = nodes.start("lab1", pool("psu", "psu-1"))
    with nodes.client("lab1") as client:
        client.release(client.lease("psu:1").key)
    assert service.health()["bus"] == {
        "state": "connected",
        "text": "in one process",
        "posted": nodes.buses["lab1"].senders["presence"],
        "heard": 0,
    }
    assert set(nodes.buses["lab1"].senders) <= {"presence"}


def test_two_nodes_claim_over_each_other(nodes: Together) -> None:
    acquainted(nodes, lab1=pool("psu", "psu-1"), lab2=pool("psu", "psu-2") + pool("board", "board-1"))
    with nodes.client("lab1") as one, nodes.client("lab2") as two:
        first = one.lease("psu:2", "board:1")
        assert held(first) == [("lab1", "psu-1"), ("lab2", "board-1"), ("lab2", "psu-2")]
        waiting = two.claim("psu:2")
        two.wait(frames.Queued)
        one.release(first.key)
        second = two.wait(frames.Granted)
        assert second.n == waiting
        assert held(second) == [("lab1", "psu-1"), ("lab2", "psu-2")]
        assert all(
            now.fence > before.fence
            for now in second.lease.units
            for before in first.lease.units
            if (now.node, now.name) == (before.node, before.name)
        )
        two.release(second.key)


def test_claims_on_own_pools_send_nothing_also_beside_others(nodes: Together) -> None:
    acquainted(nodes, lab1=pool("psu", "psu-1"), lab2=pool("board", "board-1"))
    for bus in nodes.buses.values():
        bus.senders.clear()
    with nodes.client("lab1") as client:
        for _ in range(20):
            client.release(client.lease("psu:1").key)
        for bus in nodes.buses.values():
            assert set(bus.senders) <= {"directory", "open", "presence"}
        client.release(client.lease("psu:1", "board:1").key)
        assert nodes.buses["lab1"].senders["claimant"] > 0


def test_three_nodes_and_one_of_them_stops_in_order(nodes: Together) -> None:
    acquainted(nodes, lab1=pool("psu", "a"), lab2=pool("psu", "b"), lab3=pool("psu", "c"))
    with nodes.client("lab1") as client:
        client.release(client.lease("psu:3").key)
        nodes.stop("lab3")
        until(
            lambda: {row.node: row.state for row in client.listing("node").known}.get("lab3") == "stopped",
            "a node that ends says so",
        )
        lease = client.lease("psu:2")
        assert held(lease) == [("lab1", "a"), ("lab2", "b")]
        client.release(lease.key)
        nodes.start("lab3", pool("psu", "c"))
        until(lambda: seen_by(nodes, "lab1") == ["lab1", "lab2", "lab3"], "it is back")
        assert len(held(client.lease("psu:3"))) == 3


def test_a_lost_bus_is_told_once_and_own_pools_go_on(nodes: Together) -> None:
    acquainted(nodes, lab1=pool("psu", "a"), lab2=pool("psu", "b"))
    nodes.lose("lab1")
    with nodes.client("lab1") as client:
        client.release(client.lease("psu,@lab1:1").key)
    nodes.lose("lab1")
    nodes.find("lab1")
    nodes.find("lab1")
    log = nodes.logs["lab1"].getvalue()
    assert log.count('"bus lost') == 1
    assert log.count('"bus reached"') == 2


def test_a_second_node_of_a_name_is_refused_before_it_serves(nodes: Together) -> None:
    nodes.start("lab1", pool("psu", "a"))
    with pytest.raises(BadConfig, match=r'node name "lab1" is in use by .* \(key '):
        nodes.start("lab1", pool("psu", "b"), state="other")
    with nodes.client("lab1") as client:
        assert client.listing("node").nodes[0].node == "lab1"

"""Two and three whole nodes on one bus of this process claim over each other."""

from collections.abc import Iterator

import pytest
from node.together import Together, pool, together


@pytest.fixture
def nodes() -> Iterator[Together]:
    with together() as made:
        yield made


def test_a_node_alone_on_its_bus_claims_its_own_pools_without_a_frame(nodes: Together) -> None:
    service = nodes.start("lab-1", pool("psu", "psu-1"))
    with nodes.client("lab-1") as client:
        client.release(client.lease("psu:1").key)
    assert dict(service.health())["bus"] == {
        "state": "connected",
        "text": "in one process",
        "posted": 0,
        "heard": 0,
    }

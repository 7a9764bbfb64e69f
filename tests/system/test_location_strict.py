"""`limits = "strict"` on real nodes: who manages anew and misses a host offers nothing, says whom it waits for, and then counts it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from node.waiting import until
from system.many_nodes import System, system
from system.test_location import NET, NOT_GRANTED, at_location, host_count, told

pytestmark = pytest.mark.system
RULES = """
[policy]
access = "allow"
[[rule]]
name = "together"
limit = "net.tx"
per = "all"
max = "100kB/s"
"""


@pytest.fixture
def hosts() -> Iterator[System]:
    with system() as made:
        yield made


def test_a_manager_that_misses_a_host_offers_nothing_until_it_is_heard_and_then_what_is_left(
    hosts: System, tmp_path: Path
) -> None:
    rules = tmp_path / "prague.toml"
    rules.write_text(RULES)
    policy = f'[policy]\nlocation = "{rules}"\nlimits = "strict"\n'
    nodes = at_location(hosts, "a", "b", more=NET + policy)
    until(lambda: all(host_count(one) == 2 for one in nodes), "both hosts are known")
    term = ("request", "prague", "--term")
    lease = told(nodes[0], *term, "net.tx=60kB/s", "--duration", "1h", "--accept")["lease"]
    (away,) = [one for one in nodes if one.name == lease["host"]]
    (left,) = [one for one in nodes if one is not away]
    for node in nodes:
        node.kill()
    # All that a manager knew is lost with it. What is left is a list of the system's nodes.
    left.serve()
    until(lambda: host_count(left) == 1, "it manages the location, and its own host")
    said = told(left, *term, "net.tx=1kB/s", status=NOT_GRANTED)
    assert f"it waits for what {away.name} may have given" in said
    assert "for about 1 h 1 min since it began" in said
    assert f"holdall forget {away.name}" in said
    assert "Try again in 10 s" in said
    away.serve()
    until(lambda: host_count(left) == 2, "the other host is heard again")
    offer = told(left, *term, "net.tx=100kB/s", "--wait", "1min")["offer"]
    assert offer["terms"][0]["granted"] == 40_000

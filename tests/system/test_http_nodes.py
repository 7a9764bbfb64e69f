"""C13 and C15 over HTTP, on two real nodes: both tell of both, as the command line does, also while one stands still and after."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from node.waiting import until
from system.many_nodes import NodeProcess, System, system
from system.test_listings import look
from system.web import Http

pytestmark = pytest.mark.system
CLOCK_MS = 6000
"""A renewal between two questions moves the end by a third of the ttl (12 s) at most, and here is twice that."""


@pytest.fixture
def hosts() -> Iterator[System]:
    with system() as made:
        yield made


def held(row: dict[str, Any]) -> dict[str, Any]:
    """What must be the same everywhere: holder, units with their hosts and fences, reason, since, hard end."""
    same = ("lease", "holder", "reason", "since_ms", "until_ms", "renewing", "units", "node")
    return {name: row[name] for name in same}


def waits(row: dict[str, Any]) -> dict[str, Any]:
    """Position, and who blocks it."""
    blockers = [(one["holder"], one["reason"], one["claim"]) for one in row["blockers"]]
    same = ("claim", "holder", "node", "reason", "since_ms", "position")
    return {**{name: row[name] for name in same}, "blockers": blockers}


def leases_of(nodes: list[tuple[NodeProcess, Http]]) -> list[dict[str, Any]]:
    """The one lease, as it is told in every way."""
    told = [found for node, site in nodes for found in (look(node, "who"), site.get("/v1/leases"))]
    return [row for found in told for row in found["leases"]]


def test_c13_c15_holder_host_reason_ends_position_and_blocker_agree_over_http_at_every_node(
    hosts: System,
) -> None:
    a, b = hosts.node("a", "lab-a", "psu-a"), hosts.node("b", "lab-b", "psu-b")
    a.serve("--new")
    b.join(a.join_line())
    nodes = [(node, Http(node.state / "http.sock")) for node in (a, b)]
    (_, at_a), (_, at_b) = nodes
    until(
        lambda: at_a.get("/v1/pools")["total"] == 4 == at_b.get("/v1/pools")["total"], "both know all pools"
    )
    wish = {
        "needs": ["psu:2"],
        "for": "1h",
        "ttl": "20s",  # as long as a node can stand still here without losing what it has
        "detached": True,
        "reason": "soak",
        "holder": "ci@runner",
    }
    lease = at_b.post("/v1/claims", wish)
    assert lease["state"] == "granted"
    waiting = at_a.post(
        "/v1/claims", {"needs": ["psu:1"], "ttl": "20s", "reason": "mine", "holder": "ana@desk"}
    )

    def still_waits() -> bool:
        """Says that its client is there, too."""
        return bool(at_a.post(f"/v1/claims/{waiting['claim']}/beat", {})["state"] == "waiting")

    assert still_waits()

    rows = leases_of(nodes)
    assert len(rows) == 4
    first = held(rows[0])
    assert still_waits()
    assert [held(row) for row in rows] == [first] * 4
    assert (first["holder"], first["reason"], {unit["node"] for unit in first["units"]}) == (
        "ci@runner",
        "soak",
        {"lab-a", "lab-b"},
    )
    ends = [row["expires_ms"] for row in rows]
    assert max(ends) - min(ends) < CLOCK_MS

    def queued() -> list[dict[str, Any]]:
        told = [found for node, site in nodes for found in (look(node, "queue"), site.get("/v1/queue"))]
        return [waits(row) for found in told for row in found["waiting"]]

    queue = queued()
    assert queue == [queue[0]] * 4
    assert (queue[0]["holder"], queue[0]["position"]) == ("ana@desk", 1)
    assert {blocker[0] for blocker in queue[0]["blockers"]} == {"ci@runner"}
    claim = queue[0]["claim"]
    assert still_waits()
    assert waits(at_b.get(f"/v1/why/{claim}")["why"]) == waits(look(a, "why", claim)["why"]) == queue[0]

    # One stands still: both ways say that it was not asked, and nobody is granted what it has.
    assert b.process is not None
    b.process.send_signal(signal.SIGSTOP)
    try:
        for told in (at_a.get("/v1/leases"), look(a, "who")):
            assert [one["node"] for one in told["not_asked"]] == ["lab-b"]
            assert still_waits()
    finally:
        b.process.send_signal(signal.SIGCONT)
    until(lambda: at_a.get("/v1/leases")["not_asked"] == [], "it is heard again")
    assert [held(row) for site in (at_a, at_b) for row in site.get("/v1/leases")["leases"]] == [first] * 2
    assert at_b.post("/v1/release", {"key": lease["key"]})["what"] == "released"
    granted = at_a.get(f"/v1/claims/{waiting['claim']}?wait=5s")
    assert granted["state"] == "granted"
    assert [unit["pool"] for unit in granted["lease"]["units"]] == ["psu"]

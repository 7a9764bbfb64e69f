"""`holdall location` against real nodes with real nats-servers: offered, accepted, renewed, over; killed and back."""

import json
import signal
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from node.waiting import until
from system.many_nodes import DEFAULTS, HOLDALL, NodeProcess, System, system

pytestmark = pytest.mark.system
NET = '[[capacity]]\nname = "net.tx"\namount = "100kB/s"\nsharing = "first"\n'
USAGE, NEVER, NOT_GRANTED, REFUSED, LOST = 64, 65, 75, 77, 79


@pytest.fixture
def hosts() -> Iterator[System]:
    with system() as made:
        yield made


def at_location(hosts: System, *folders: str, more: str = NET, location: str = "prague") -> list[NodeProcess]:
    """Nodes of a location that serve as one system."""
    nodes = [hosts.node(folder, f"lab-{folder}", defaults=DEFAULTS + more) for folder in folders]
    for node in nodes:
        text = node.config.read_text()
        node.config.write_text(text.replace("[node]\n", f'[node]\nlocation = "{location}"\n'))
    nodes[0].serve("--new")
    for before, node in pairwise(nodes):
        node.join(before.join_line())
    return nodes


def told(node: NodeProcess, *words: str, status: int = 0) -> Any:
    """The JSON of a command that succeeds, or what one that fails says."""
    done = node.command("location", *words, "--json")
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if status == 0 else done.stderr


def host_count(node: NodeProcess) -> int:
    """How many hosts the location's manager has, as this node is told."""
    done = node.command("location", "templates", "prague", "--json")
    return sum(row["hosts"] for row in json.loads(done.stdout)["templates"]) if done.returncode == 0 else 0


def test_a_lease_is_requested_offered_accepted_renewed_and_runs_out(hosts: System) -> None:
    one, two = at_location(hosts, "a", "b")
    until(lambda: host_count(two) == 2, "both hosts are known")
    (row,) = told(two, "list")["locations"]
    assert row["nodes"] == ["lab-a", "lab-b"]
    assert row["manager"] in row["nodes"]
    asked = ("request", "prague", "--term", "net.tx=60kB/s", "--duration", "5s")
    offer = told(two, *asked)["offer"]
    assert (offer["state"], offer["terms"][0]["granted"]) == ("offered", 60_000)
    lease = offer["lease"]
    assert [row["document"]["lease"] for row in told(two, "offers")["offers"]] == [lease]
    assert told(one, "offers")["offers"] == []
    assert told(two, "accept", lease)["lease"]["state"] == "active"
    renewed = told(two, "renew", lease, "--duration", "6s")["lease"]
    assert (renewed["revision"], renewed["duration"], renewed["fence"]) == (2, 6000, renewed["fence"])
    assert told(two, "status", lease)["lease"]["state"] == "active"
    # Another host has what this one lacks; after that the largest part that is left is offered, never more.
    second = told(two, "request", "prague", "--term", "net.tx=60kB/s", "--accept", "--duration", "1h")[
        "lease"
    ]
    assert second["host"] != renewed["host"]
    until(lambda: told(two, "status", lease)["lease"]["state"] == "expired", "it has run out")
    third = told(one, "request", "prague", "--term", "net.tx=100kB/s", "--accept")["lease"]
    assert (third["host"], third["terms"][0]["granted"]) == (renewed["host"], 100_000)
    assert third["fence"] > renewed["fence"]
    # It is another user's in the eyes of the location: one of another node.
    assert "is known" in told(two, "status", third["lease"], status=REFUSED)
    told(one, "release", third["lease"])
    assert told(one, "status", third["lease"])["lease"]["state"] == "released"


def test_each_kind_of_refusal_has_its_status(hosts: System) -> None:
    (node,) = at_location(hosts, "a")
    until(lambda: host_count(node) == 1, "the host is known")
    term = ("request", "prague", "--term")
    assert "ambiguous" in told(node, *term, "net.tx=1KB/s", status=USAGE) or "can be read" in told(
        node, *term, "net.tx=1KB/s", status=USAGE
    )
    assert "lab-a has no such net.tx" in told(node, *term, "net.tx=101kB/s", status=NEVER)
    assert "known: prague" in told(node, "request", "brno", "--term", "net.tx=1kB/s", status=NEVER)
    told(node, *term, "net.tx=100kB/s", "--accept", "--duration", "1h")
    said = told(node, *term, "net.tx=1kB/s", status=NOT_GRANTED)
    assert "nothing of net.tx now" in said
    assert "Try again in" in said
    assert "NAME=AMOUNT" in told(node, *term, "net.tx", status=USAGE)
    assert "is known" in told(node, "accept", "L-prague-x-1.1", status=REFUSED)


def test_a_lease_is_held_by_a_command_and_given_back_when_that_is_interrupted(hosts: System) -> None:
    (node,) = at_location(hosts, "a")
    until(lambda: host_count(node) == 1, "the host is known")
    words = (
        "location",
        "request",
        "prague",
        "--term",
        "net.tx=70kB/s",
        "--duration",
        "2s",
        "--hold",
        "--json",
    )
    holding = subprocess.Popen(
        [*HOLDALL, *words], env=node.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert holding.stdout is not None
        lease = json.loads(holding.stdout.readline())["lease"]["lease"]
        until(lambda: told(node, "status", lease)["lease"]["revision"] >= 4, "it was renewed three times")
        assert told(node, "status", lease)["lease"]["state"] == "active"
        holding.send_signal(signal.SIGINT)
        _, said = holding.communicate(timeout=30)
    finally:
        holding.kill()
        holding.wait()
    assert "released" in said
    assert told(node, "status", lease)["lease"]["state"] == "released"


def test_a_killed_host_comes_back_with_its_leases_and_grants_nothing_twice(hosts: System) -> None:
    one, two = at_location(hosts, "a", "b")
    until(lambda: host_count(one) == 2, "both hosts are known")
    leases = [
        told(one, "request", "prague", "--term", "net.tx=80kB/s", "--duration", "1h", "--accept")["lease"]
        for _ in range(2)
    ]
    assert {lease["host"] for lease in leases} == {"lab-a", "lab-b"}
    there = next(lease for lease in leases if lease["host"] == "lab-b")
    two.kill()
    two.serve()
    until(lambda: host_count(one) == 2, "both hosts are known again")
    found = told(one, "status", there["lease"])["lease"]
    assert (found["state"], found["fence"]) == ("active", there["fence"])
    assert found["host_incarnation"] > there["host_incarnation"]
    offer = told(one, "request", "prague", "--term", "net.tx=80kB/s")["offer"]
    assert offer["terms"][0]["granted"] == 20_000
    renewed = told(one, "renew", there["lease"], "--duration", "30s")["lease"]
    assert (renewed["revision"], renewed["fence"]) == (2, there["fence"])


def test_a_killed_host_is_suspect_then_gone_and_back_as_a_new_incarnation(hosts: System) -> None:
    one, two = at_location(hosts, "a", "b")
    until(lambda: host_count(one) == host_count(two) == 2, "both hosts are known")
    (row,) = told(one, "list")["locations"]
    asking, victim = (one, two) if row["manager"] == "lab-a" else (two, one)

    def of_victim() -> dict[str, Any]:
        (found,) = (row for row in told(asking, "list", "prague")["hosts"] if row["host"] == victim.name)
        return dict(found)

    before = of_victim()
    assert before["presence"] == "live"
    victim.kill()
    seen = [before["presence"]]

    def is_gone() -> bool:
        presence = of_victim()["presence"]
        if presence != seen[-1]:
            seen.append(presence)
        return bool(presence == "gone")

    until(is_gone, "ten heartbeats are missing")
    assert seen == ["live", "suspect", "gone"]
    assert f"{victim.name}  gone" in asking.command("location", "list", "prague").stdout
    victim.serve()
    until(lambda: of_victim()["presence"] == "live", "it is back")
    assert of_victim()["incarnation"] > before["incarnation"]

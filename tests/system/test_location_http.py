"""Locations over HTTP, on real nodes with real nats-servers: what is told there is what the command line tells."""

from collections.abc import Iterator
from typing import Any

import pytest
from node.waiting import until
from system.many_nodes import NodeProcess, System, system
from system.test_location import at_location, host_count, told
from system.web import Http

pytestmark = pytest.mark.system
NET = '[[capacity]]\nname = "net.tx"\namount = "100kB/s"\nsharing = "fair"\n'
WHERE = "/v1/locations/prague"


@pytest.fixture
def hosts() -> Iterator[System]:
    with system() as made:
        yield made


def http_of(node: NodeProcess) -> Http:
    return Http(node.state / "http.sock")


def shares_of(site: Http) -> set[tuple[Any, ...]]:
    rows = site.get(f"{WHERE}/shares?term=net.tx")["shares"]
    names = ("host", "holder", "lease", "place", "asked", "share", "granted", "taken")
    return {tuple(row[name] for name in names) for row in rows}


def test_hosts_leases_and_shares_are_told_of_all_hosts_by_any_node(hosts: System) -> None:
    one, two = at_location(hosts, "a", "b", more=NET)
    until(lambda: host_count(two) == 2, "both hosts are known")
    site = http_of(two)
    assert site.get("/v1/locations")["locations"] == told(two, "list")["locations"]
    row = site.get(WHERE)["location"]
    assert row == told(two, "list")["locations"][0]
    assert site.get(f"{WHERE}/templates")["templates"] == told(two, "templates", "prague")["templates"]
    found = site.get(f"{WHERE}/hosts")
    assert found["manager"] == row["manager"]
    assert [(one["host"], one["presence"], one["leases"]) for one in found["hosts"]] == [
        ("lab-a", "live", 0),
        ("lab-b", "live", 0),
    ]
    ask = ("request", "prague", "--duration", "1h", "--accept", "--term")
    leases = [told(node, *ask, "net.tx=100kB/s")["lease"] for node in (one, two)]
    listed = site.get(f"{WHERE}/leases?state=active")
    assert (listed["total"], listed["not_asked"]) == (2, [])
    assert {(row["lease"], row["holder"], row["host"]) for row in listed["leases"]} == {
        (lease["lease"], lease["holder"], lease["host"]) for lease in leases
    }
    assert site.get(f"{WHERE}/leases?term=gpu")["total"] == 0
    # Wishes that came too late are remembered where they were refused: the second lease's at the host of the first, and
    # one for 30 at both. The small one's share is all that it wants, the rest is divided by the others.
    assert "nothing of net.tx now" in told(one, *ask, "net.tx=30kB/s", status=75)
    (host_a, ana, lease_a), (host_b, ben, lease_b) = [
        (lease["host"], lease["holder"], lease["lease"]) for lease in leases
    ]
    assert shares_of(site) == {
        (host_a, ana, lease_a, "live", 100_000, 35_000, 100_000, 100_000),
        (host_a, ben, "", "wanted", 100_000, 35_000, 0, 0),
        (host_a, ana, "", "wanted", 30_000, 30_000, 0, 0),
        (host_b, ben, lease_b, "live", 100_000, 70_000, 100_000, 100_000),
        (host_b, ana, "", "wanted", 30_000, 30_000, 0, 0),
    }
    told(two, "renew", lease_b)
    (row,) = site.get(f"{WHERE}/capacities?host={host_b}")["capacities"]
    assert (row["amount"], row["free"], row["taken"], row["demands"]) == (100_000, 30_000, 70_000, 2)
    assert {one["host"]: one["leases"] for one in site.get(f"{WHERE}/hosts")["hosts"]} == {
        "lab-a": 1,
        "lab-b": 1,
    }
    first = site.get(f"{WHERE}/shares?limit=3")
    rest = site.get(f"{WHERE}/shares?limit=3&after={first['next']}")
    assert (len(first["shares"]), len(rest["shares"]), rest["next"]) == (3, 2, None)
    # What is asked again is told to be the same.
    tag = site.ask("GET", f"{WHERE}/capacities").headers["etag"]
    assert site.ask("GET", f"{WHERE}/capacities", headers={"If-None-Match": tag}).status == 304
    unknown = site.ask("GET", "/v1/locations/brno/hosts")
    assert (unknown.status, unknown.json["code"]) == (422, "never")
    assert "known: prague" in unknown.json["detail"]

"""Locations over HTTP, on real nodes with real nats-servers: what is told there is what the command line tells."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from node.waiting import until
from system.many_nodes import NodeProcess, System, system
from system.test_location import at_location, host_count, told
from system.web import Http

from holdall.leases.agreement.export import offer_xml
from holdall.leases.agreement.read_agreement import read_agreement
from holdall.leases.agreement.read_offers import read_template
from holdall.model.terms import LeaseRequest, RequestedTerm, Template

pytestmark = pytest.mark.system
NET = '[[capacity]]\nname = "net.tx"\namount = "100kB/s"\nsharing = "fair"\n'
XML = "application/xml"
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


def test_a_lease_is_offered_taken_used_renewed_and_given_back_over_http(hosts: System) -> None:
    (node,) = at_location(hosts, "a", more=NET)
    until(lambda: host_count(node) == 1, "the host is known")
    site = http_of(node)
    wish = {"terms": {"net.tx": "60kB/s"}, "duration": "3s"}
    answer = site.ask("POST", f"{WHERE}/leases", wish)
    assert (answer.status, answer.json["lease"]["state"]) == (201, "offered")
    at = answer.headers["location"]
    (offer,) = site.get("/v1/offers")["offers"]
    assert f"{WHERE}/leases/{offer['document']['lease']}" == at
    assert [row["document"]["lease"] for row in told(node, "offers")["offers"]] == [
        offer["document"]["lease"]
    ]
    taken = site.post(f"{at}/accept", None)
    assert (taken["lease"]["state"], taken["lease"]["terms"][0]["granted"]) == ("active", 60_000)
    # It is renewed for as long as it is used, over three of its durations.
    until(lambda: site.post(f"{at}/use", None)["lease"]["revision"] >= 6, "it was renewed")
    assert (
        site.get(at)["lease"]["state"]
        == told(node, "status", taken["lease"]["lease"])["lease"]["state"]
        == "active"
    )
    renewed = site.post(f"{at}/renew", {"duration": "1h"})["lease"]
    assert renewed["duration"] == 3_600_000
    # The rest is offered to a second one, declined, and taken as two parts together; a third has nothing.
    second = site.post(f"{WHERE}/leases", {"terms": {"net.tx": 40_000}})["lease"]["lease"]
    assert site.post(f"{WHERE}/leases/{second}/decline", None)["what"] == "declined"
    part = {"terms": {"net.tx": 20_000}, "duration": "1h"}
    both = site.post(f"{WHERE}/together", {"parts": [part, part]})["leases"]
    assert [one["state"] for one in both] == ["active", "active"]
    refused = site.ask("POST", f"{WHERE}/leases?accept=true", {"terms": {"net.tx": "1kB/s"}})
    assert (refused.status, refused.json["code"], refused.json["exit_status"]) == (409, "not-granted", 75)
    assert "nothing of net.tx now" in refused.json["detail"]
    assert int(refused.headers["retry-after"]) > 0
    # A part of one is given to somebody, here to oneself: over HTTP, and the same order again by the command line.
    order = {"terms": {"net.tx": "25kB/s"}, "to": renewed["holder"], "request": "order001"}
    split = site.ask("POST", f"{at}/split", order)
    rest, piece = split.json["rest"], split.json["part"]
    assert (split.status, rest["terms"][0]["granted"], piece["terms"][0]["granted"]) == (201, 35_000, 25_000)
    assert split.headers["location"] == f"{WHERE}/leases/{piece['lease']}"
    words = (
        "split",
        rest["lease"],
        "net.tx=25kB/s",
        "--to",
        renewed["holder"],
        "--request",
        "order001",
    )
    again = told(node, *words)["split"]
    assert (again["rest"]["revision"], again["part"]["lease"]) == (rest["revision"], piece["lease"])
    assert site.ask("POST", f"{at}/split", {**order, "request": "another0"}).status == 201
    assert site.ask("POST", f"{at}/split", {**order, "request": "a-n"}).status == 400
    for lease in (taken["lease"], piece, *both):
        ended = site.ask("DELETE", f"{WHERE}/leases/{lease['lease']}")
        assert (ended.status, ended.json["what"]) == (200, "released")
    assert site.ask("POST", f"{at}/use").status == 410
    assert site.ask("GET", f"{WHERE}/leases/L-brno-x-1.1").json["code"] == "not-holder"
    assert (
        site.ask("POST", f"{WHERE}/leases", {"terms": {"net.tx": "60"}, "floors": {"gpu": 1}}).status == 400
    )


def test_ws_agreement_goes_in_and_out_over_http(hosts: System) -> None:
    (node,) = at_location(hosts, "a", more=NET)
    until(lambda: host_count(node) == 1, "the host is known")
    site = http_of(node)
    (listed,) = site.get(f"{WHERE}/templates")["templates"]
    shown = site.ask("GET", f"{WHERE}/templates/{listed['template']}", headers={"Accept": XML})
    assert msgspec.to_builtins(read_template(shown.data)) == msgspec.to_builtins(
        msgspec.convert(listed, Template)
    )
    wish = LeaseRequest("r1", {"net.tx": RequestedTerm(70_000, 10_000)}, duration=3_600_000)
    both = {"Content-Type": XML, "Accept": XML}
    taken = site.ask("POST", f"{WHERE}/leases?accept=true", offer_xml(wish, "prague").encode(), headers=both)
    assert (taken.status, taken.headers["content-type"]) == (201, XML)
    lease = read_agreement(taken.data)
    assert (lease.request, lease.state, lease.term("net.tx").granted) == ("r1", "active", 70_000)
    again = site.ask("GET", f"{WHERE}/leases/{lease.lease}", headers={"Accept": XML})
    assert read_agreement(again.data).fence == lease.fence
    none = LeaseRequest("r2", {"net.tx": RequestedTerm(90_000, 90_000)}, duration=60_000)
    refused = site.ask("POST", f"{WHERE}/leases", offer_xml(none, "prague").encode(), headers=both)
    assert refused.status == 409
    assert b"ContinuingFault" in refused.data
    assert b"oversubscribed" in refused.data
    for wrong, status in (
        (offer_xml(wish, "brno").encode(), 400),
        (b"<!DOCTYPE x [<!ENTITY e 'e'>]><x>&e;</x>", 400),
        (b"<x" + b" " * 70_000, 413),
    ):
        assert site.ask("POST", f"{WHERE}/leases", wrong, headers=both).status == status
    unread = site.ask("POST", f"{WHERE}/together", offer_xml(wish, "prague").encode(), headers=both)
    assert (unread.status, unread.json["code"]) == (415, "media")
    assert site.ask("DELETE", f"{WHERE}/leases/{lease.lease}").json["what"] == "released"

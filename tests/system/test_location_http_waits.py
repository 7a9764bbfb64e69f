"""Requests that wait, over HTTP: on real nodes, with a real line at the location's manager."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from node.waiting import until
from system.many_nodes import NodeProcess, system
from system.test_location import at_location, host_count, told
from system.web import Http

from holdall.leases.agreement.export import offer_xml
from holdall.model.terms import LeaseRequest, RequestedTerm

pytestmark = pytest.mark.system
WHERE = "/v1/locations/prague"
ALL = {"terms": {"net.tx": "100kB/s"}, "duration": "1h"}
PATIENT = {**ALL, "wait": "10min"}


@pytest.fixture
def node() -> Iterator[NodeProcess]:
    with system() as hosts:
        (one,) = at_location(hosts, "a")
        until(lambda: host_count(one) == 1, "the host is known")
        yield one


def http_of(node: NodeProcess) -> Http:
    return Http(node.state / "http.sock")


def holds_all(node: NodeProcess) -> str:
    lease: str = told(node, "request", "prague", "--duration", "1h", "--accept", "--term", "net.tx=100kB/s")[
        "lease"
    ]["lease"]
    return lease


def waits(site: Http, body: dict[str, Any] = PATIENT, query: str = "") -> str:
    """The address of a new request that stands in line."""
    answer = site.ask("POST", f"{WHERE}/leases{query}", body)
    assert answer.status == 202, answer.json
    assert (answer.json["state"], answer.json["lease"]) == ("waiting", None)
    assert answer.headers["location"] == f"{WHERE}/requests/{answer.json['request']}"
    assert 0 < answer.json["left_ms"] <= 600_000
    return answer.headers["location"]


def stands(site: Http, at: str) -> tuple[Any, ...]:
    one = site.get(at)
    return one["state"], one["position"], one["ahead"], one["reason"], one["term"]


def test_two_wait_in_line_the_first_gets_an_offer_and_the_next_a_lease(node: NodeProcess) -> None:
    site = http_of(node)
    held = holds_all(node)
    first, second = waits(site), waits(site, query="?accept=true")
    until(lambda: stands(site, first) == ("waiting", 1, 0, "oversubscribed", "net.tx"), "it is the first")
    until(lambda: stands(site, second)[:4] == ("waiting", 2, 1, "others_wait"), "it is the second")
    # Who may not wait does not pass them.
    assert "others wait" in site.ask("POST", f"{WHERE}/leases", ALL).json["detail"]
    with ThreadPoolExecutor() as threads:
        # A long poll is answered when it has changed.
        changes = threads.submit(lambda: site.get(f"{first}?wait=60s"))
        told(node, "release", held)
        offered = changes.result()
        while offered["state"] == "waiting":
            offered = site.get(f"{first}?wait=60s")
    assert (offered["state"], offered["position"], offered["problem"]) == ("offered", None, None)
    assert 0 < offered["offer_ms"] <= 10_000
    lease = offered["lease"]["lease"]
    assert site.post(f"{WHERE}/leases/{lease}/accept", None)["lease"]["state"] == "active"
    taken = site.get(first)
    assert (taken["state"], taken["offer_ms"], taken["lease"]["lease"]) == ("leased", None, lease)
    assert 0 < taken["valid_for_ms"] <= 3_600_000
    until(lambda: stands(site, second)[:3] == ("waiting", 1, 0), "it is the first now")
    # What came of a request is given back by the request, too.
    assert site.ask("DELETE", first).json["what"] == "released"
    until(lambda: site.get(f"{second}?wait=10s")["state"] == "leased", "the next has its lease at once")
    ended = site.get(first)
    assert (ended["state"], ended["problem"]["code"], ended["problem"]["status"]) == ("ended", "lost", 410)
    assert site.ask("DELETE", first).json["what"] == "already ended"
    next_lease = site.get(second)["lease"]["lease"]
    assert site.ask("DELETE", f"{WHERE}/leases/{next_lease}").json["what"] == "released"
    over = site.get(second)
    assert (over["state"], over["problem"]["code"]) == ("ended", "lost")
    assert told(node, "status", lease)["lease"]["state"] == "released"


def test_given_up_it_leaves_the_line_and_a_wait_that_is_over_is_a_refusal(node: NodeProcess) -> None:
    site = http_of(node)
    holds_all(node)
    first, second = waits(site), waits(site)
    until(lambda: stands(site, second)[1] == 2, "it is the second")
    gone = site.ask("DELETE", first)
    assert (gone.status, gone.json["what"]) == (200, "cancelled")
    until(lambda: stands(site, second)[1:3] == (1, 0), "it is the first now")
    assert site.get(first)["state"] == "ended"
    short = waits(site, {**ALL, "wait": "300ms"})
    until(lambda: site.get(f"{short}?wait=10s")["state"] == "ended", "its time is over")
    problem = site.get(short)["problem"]
    assert (problem["code"], problem["status"], problem["exit_status"]) == ("not-granted", 409, 75)
    assert "others wait" in problem["detail"]
    # What is refused for good does not wait, and nobody sees what he has not asked for.
    for wrong, status, code in (
        ({**PATIENT, "terms": {"gpu": 1}}, 422, "never"),
        ({**PATIENT, "wait": "2h"}, 400, "bad-spec"),
        ({**PATIENT, "wait": "soon"}, 400, "bad-spec"),
    ):
        refused = site.ask("POST", f"{WHERE}/leases", wrong)
        assert (refused.status, refused.json["code"]) == (status, code), refused.json
    parts = site.ask("POST", f"{WHERE}/together", {"parts": [PATIENT]})
    assert (parts.status, "no part waits" in parts.json["detail"]) == (400, True)
    for address in (f"{WHERE}/requests/none", second.replace("prague", "brno")):
        for method in ("GET", "DELETE"):
            assert site.ask(method, address).json["code"] == "not-holder"
    assert site.ask("GET", f"{second}?wait=2min").json["code"] == "bad-spec"
    assert site.ask("DELETE", second).json["what"] == "cancelled"


def test_an_agreement_offer_waits_too_and_one_request_waits_once(node: NodeProcess) -> None:
    site = http_of(node)
    holds_all(node)
    term = RequestedTerm(100_000, 100_000)
    wish = LeaseRequest("r-1", {"net.tx": term}, duration=60_000, wait_ms=600_000)
    xml = {"Content-Type": "application/xml"}
    for _ in range(2):
        answer = site.ask("POST", f"{WHERE}/leases", offer_xml(wish, "prague").encode(), headers=xml)
        assert (answer.status, answer.headers["location"]) == (202, f"{WHERE}/requests/r-1"), answer.json
    other = LeaseRequest("a/b", {"net.tx": term}, duration=60_000, wait_ms=600_000)
    refused = site.ask("POST", f"{WHERE}/leases", offer_xml(other, "prague").encode(), headers=xml)
    assert (refused.status, refused.json["code"]) == (400, "bad-spec")
    assert stands(site, waits(site))[1] in {None, 2}

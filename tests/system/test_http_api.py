"""The HTTP API of a real node: what it tells is what the command line tells, and who may do what."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from node.waiting import until
from system.web import Web, web

from holdall.model import frames

pytestmark = pytest.mark.system


@pytest.fixture
def site() -> Iterator[Web]:
    with web() as made:
        yield made


@pytest.fixture(scope="module")
def shared() -> Iterator[Web]:
    """For tests that leave it as it was."""
    with web() as made:
        yield made


def told(site: Web, *arguments: str) -> Any:
    """What the command line says as JSON."""
    url = f"unix://{site.node.socket}"
    found = subprocess.run(
        [sys.executable, "-m", "holdall.cli", *arguments, "--json", "--url", url],
        capture_output=True,
        check=True,
        timeout=60,
    )
    return json.loads(found.stdout)


def server_pid(site: Web) -> int:
    """The HTTP server's process: the node's child that runs the module."""
    assert site.node.process is not None
    children = (site.node.process.pid,)
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(children[0])], capture_output=True, text=True, check=True
    )
    (pid,) = [int(line.split()[0]) for line in listed.stdout.splitlines() if "holdall.http" in line]
    return pid


def without_clock(row: dict[str, Any]) -> dict[str, Any]:
    """A lease without the end that each renewal moves."""
    return {name: value for name, value in row.items() if name != "expires_ms"}


def test_c13_the_command_line_and_http_agree_on_holders_and_waiting_claims(site: Web) -> None:
    with site.node.client(agent="ci@runner-4") as holder, site.node.client(agent="ana@desk") as waiting:
        holder.lease("board:3", "psu:2")
        waiting.claim("psu:1")
        waiting.wait(frames.Queued)
        waiting.claim("board:1", "psu:1")
        waiting.wait(frames.Queued)
        leases, who = site.get("/v1/leases"), told(site, "who")
        assert [without_clock(row) for row in leases["leases"]] == [
            without_clock(row) for row in who["leases"]
        ]
        (lease,) = leases["leases"]
        assert (lease["holder"], {unit["node"] for unit in lease["units"]}) == ("ci@runner-4", {"lab-1"})
        queue = site.get("/v1/queue")
        assert queue["waiting"] == told(site, "queue")["waiting"]
        assert [(row["position"], row["blockers"][0]["holder"]) for row in queue["waiting"]] == [
            (1, "ci@runner-4"),
            (2, "ci@runner-4"),
        ]
        for row in queue["waiting"]:
            assert site.get(f"/v1/why/{row['claim']}")["why"] == told(site, "why", row["claim"])["why"]
        snapshot = site.get("/v1/state")
        assert snapshot["waiting"] == queue["waiting"]
        assert [without_clock(row) for row in snapshot["leases"]] == [
            without_clock(row) for row in who["leases"]
        ]
        units = {row["id"]: row for row in site.get("/v1/units")["units"]}
        for pool in told(site, "pools")["pools"]:
            for unit in pool["units"]:
                shown = units.pop(f"{pool['pool']}/{unit['unit']}@{pool['node']}")
                same = ("state", "fence", "lease", "holder")
                assert [shown[name] for name in same] == [unit[name] for name in same]
                assert (shown["since_ms"], shown["until_ms"]) == (lease["since_ms"], lease["until_ms"])
        assert units == {}
        assert site.get("/v1/log")["log"] == told(site, "log")["log"][::-1]


def test_a_claim_over_http_waits_is_granted_renewed_extended_and_given_back(site: Web) -> None:
    with site.node.client() as holder:
        held = holder.lease("psu:2")
        made = site.ask(
            "POST", "/v1/claims", {"needs": ["psu:1"], "reason": "hil", "ttl": "10s", "for": "10m"}
        )
        claim = made.json
        assert (made.status, claim["state"], claim["why"]["position"]) == (202, "waiting", 1)
        assert made.headers["location"] == f"/v1/claims/{claim['claim']}"
        holder.release(held.key)
    granted = site.get(f"/v1/claims/{claim['claim']}?wait=5s")
    assert granted["state"] == "granted"
    assert 0 < granted["valid_for_ms"] <= 10_000
    assert [unit["pool"] for unit in granted["lease"]["units"]] == ["psu"]
    beaten = site.post(f"/v1/claims/{claim['claim']}/beat", {})
    assert beaten["valid_for_ms"] > 9_000
    later = site.post("/v1/renew", {"key": granted["key"], "for": "30m"})
    assert later["lease"]["until_ms"] > granted["lease"]["until_ms"]
    assert site.ask("DELETE", f"/v1/claims/{claim['claim']}").json["what"] == "released"
    assert site.get("/v1/leases")["leases"] == []
    assert site.ask("DELETE", f"/v1/claims/{claim['claim']}").json["what"] == "already ended"


def test_a_part_of_a_lease_is_given_back_or_swapped_or_nothing_changes(site: Web) -> None:
    claim = site.post("/v1/claims", {"needs": ["psu:2"], "for": "1h", "detached": True})

    def units() -> list[str]:
        (lease,) = site.get("/v1/leases")["leases"]
        return sorted(unit["name"] for unit in lease["units"])

    left = site.post("/v1/drop", {"key": claim["key"], "drop": ["psu/psu-2"]})["lease"]
    assert [unit["name"] for unit in left["units"]] == ["psu-1"] == units()
    swap = {"key": claim["key"], "drop": ["psu:1"], "add": ["board:1"]}
    with site.node.client() as other:
        held = other.lease("board:3")
        refused = site.ask("POST", "/v1/exchange", swap)
        assert (refused.status, refused.json["code"]) == (409, "not-granted")
        other.release(held.key)
    assert units() == ["psu-1"]
    swapped = site.post("/v1/exchange", swap)["lease"]
    assert [unit["pool"] for unit in swapped["units"]] == ["board"]
    wrong = site.ask("POST", "/v1/drop", {"key": claim["key"], "drop": ["psu"]})
    assert (wrong.status, wrong.json["code"]) == (400, "bad-spec")
    assert "It holds: board/" in wrong.json["detail"]
    assert site.post("/v1/drop", {"key": claim["key"], "drop": ["board"]}) == {"v": 1, "lease": None}
    assert site.ask("POST", "/v1/drop", {"key": claim["key"], "drop": ["board"]}).json["code"] == "not-holder"


def test_use_and_findings_are_those_of_the_command_line(site: Web) -> None:
    claim = site.post("/v1/claims", {"needs": ["psu:2", "board:1"]})
    site.ask("DELETE", f"/v1/claims/{claim['claim']}")
    for by, since in (("holder", "1h"), ("pool", "")):
        options = ("--by", by, *(("--since", since) if since else ()))
        assert site.get(f"/v1/usage?by={by}" + (f"&since={since}" if since else "")) == told(
            site, "usage", *options
        )
    text = site.ask("GET", "/v1/usage?by=unit", headers={"Accept": "text/csv"})
    assert text.headers["content-type"].startswith("text/csv")
    head, *rows = text.data.decode().splitlines()
    assert head.startswith("unit,term,kind,leases")
    assert len(rows) == 3
    assert site.ask("GET", "/v1/usage?by=moon").status == 400
    findings = [(one["about"], one["state"]) for one in site.get("/v1/doctor")["findings"]]
    typed = told(site, "doctor", str(site.node.config))["findings"]
    assert findings == [(one["about"], one["state"]) for one in typed]
    assert ("node", "ok") in findings
    nobody = site.ask("POST", "/v1/nodes/lab-9/forget", {})
    assert (nobody.status, nobody.json["code"]) == (400, "bad-spec")
    assert 'no node "lab-9" is known here' in nobody.json["detail"]


POLICY = """
[policy]
access = "allow"

[[rule]]
name = "students"
limit = "gpu"
who = 'agent.role == "student"'
per = "holder"
max = 1
"""


def test_policies_are_asked_without_being_put_in_force(shared: Web) -> None:
    ask = {"policies": [POLICY], "who": {"id": "ann", "role": "student"}, "needs": ["gpu:2"]}
    told = shared.post("/v1/policy/check", ask)
    assert told["allowed"] is True
    assert (told["terms"]["gpu"]["asked"], told["terms"]["gpu"]["granted"]) == (2, 1)
    assert [line["rule"] for line in told["rules"] if line["term"] == "gpu"] == ["students"]
    mistakes: list[tuple[dict[str, object], str]] = [
        ({"policies": ["[[rule]"]}, "not TOML"),
        ({"needs": ["gpu,model=x:1"]}, "pools by name"),
        ({"needs": []}, "who asks for what"),
        ({"terms": {"net.tx": "5 moons"}}, "net.tx"),
        ({"at": "noon"}, "is no time"),
    ]
    for wrong, text in mistakes:
        answer = shared.ask("POST", "/v1/policy/check", {**ask, **wrong})
        assert (answer.status, answer.json["code"], text in answer.json["detail"]) == (
            400,
            "bad-spec",
            True,
        ), answer.json


def test_a_client_that_falls_silent_loses_its_lease(site: Web) -> None:
    claim = site.post("/v1/claims", {"needs": ["psu:1"], "ttl": "4s"})
    assert claim["state"] == "granted"
    until(lambda: site.get("/v1/leases")["leases"] == [], "the lease has run out")
    ended = site.get(f"/v1/claims/{claim['claim']}")
    assert (ended["state"], ended["problem"]["code"], ended["key"]) == ("ended", "lost", "")
    assert [row["kind"] for row in site.get("/v1/log")["log"]][:1] == ["expired"]


def test_a_lease_outlives_the_server_and_is_taken_up_again_by_its_key(site: Web) -> None:
    claim = site.post("/v1/claims", {"needs": ["psu:1"]})
    site.post(f"/v1/claims/{claim['claim']}/beat", {})
    os.kill(server_pid(site), signal.SIGKILL)
    again = site.ask("POST", f"/v1/claims/{claim['claim']}/beat", {"key": claim["key"]})
    assert again.status == 200, again
    assert again.json["lease"]["units"] == claim["lease"]["units"]
    assert site.ask("DELETE", f"/v1/claims/{claim['claim']}").json["what"] == "released"
    assert site.get("/v1/pools?pool=psu")["pools"][0]["free"] == 2


def test_a_detached_lease_needs_no_word_and_is_released_by_its_key(shared: Web) -> None:
    claim = shared.post("/v1/claims", {"needs": ["psu:2"], "for": "1h", "detached": True, "ttl": "1s"})
    assert claim["lease"]["detached"]
    assert shared.post("/v1/release", {"key": claim["key"]})["what"] == "released"


@pytest.mark.parametrize(
    ("body", "status", "code", "text"),
    [
        ({"needs": ["psu:9"]}, 422, "never", "cannot ever be granted: psu:9"),
        ({"needs": ["PSU"]}, 400, "bad-spec", "is not a pool name"),
        ({"needs": []}, 400, "bad-spec", "needs"),
        ({"needs": ["psu"], "wiat": "1s"}, 400, "bad-spec", "wiat"),
        ({"needs": ["psu"], "ttl": "1d"}, 400, "bad-spec", "ttl"),
        ({"needs": ["psu"], "detached": True}, 400, "bad-spec", "hard end"),
    ],
)
def test_what_can_not_be_is_a_problem_with_the_text_of_the_command_line(
    shared: Web, body: object, status: int, code: str, text: str
) -> None:
    answer = shared.ask("POST", "/v1/claims", body)
    assert (answer.status, answer.json["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert text in answer.json["detail"]
    assert shared.get("/v1/queue")["total"] == 0


def test_not_free_now_is_a_conflict_that_says_who_has_it(shared: Web) -> None:
    with shared.node.client(agent="ci@runner-4") as holder:
        held = holder.lease("psu:2")
        answer = shared.ask("POST", "/v1/claims", {"needs": ["psu:1"], "wait": "0s"})
        holder.release(held.key)
    assert (answer.status, answer.json["code"], answer.json["exit_status"]) == (409, "not-granted", 75)
    assert "ci@runner-4" in answer.json["detail"]


def test_over_tcp_only_health_is_open_and_a_token_opens_the_rest(shared: Web) -> None:
    assert shared.ask("GET", "/healthz", tcp=True).json["ok"] is True
    assert "figures" not in shared.ask("GET", "/healthz", tcp=True).json
    for method, path in (
        ("GET", "/v1/pools"),
        ("GET", "/metrics"),
        ("GET", "/v1/events"),
        ("POST", "/v1/drain"),
    ):
        assert shared.ask(method, path, {} if method == "POST" else None, tcp=True).status == 401
    token = shared.post("/v1/tokens", {"name": "ci"})["token"]
    looking = shared.post("/v1/tokens", {"name": "look", "may": "see"})["token"]
    bearer, looks = {"Authorization": f"Bearer {token}"}, {"Authorization": f"Bearer {looking}"}
    assert shared.ask("GET", "/v1/pools", tcp=True, headers=bearer).status == 200
    body = {"needs": ["psu:1"], "for": "1h", "detached": True}
    assert shared.ask("POST", "/v1/claims", body, tcp=True, headers=looks).status == 403
    made = shared.ask("POST", "/v1/claims", body, tcp=True, headers=bearer)
    assert made.status == 201
    assert shared.post("/v1/release", {"key": made.json["key"]})["what"] == "released"
    assert shared.ask("POST", "/v1/tokens", {"name": "x"}, tcp=True, headers=bearer).status == 403
    assert [one["name"] for one in shared.get("/v1/tokens")["tokens"]] == ["ci", "look"]
    assert shared.ask("DELETE", "/v1/tokens/ci").status == 200
    assert shared.ask("GET", "/v1/pools", tcp=True, headers=bearer).status == 401
    assert shared.ask("GET", "/v1/pools", tcp=True, headers={**looks, "Host": "evil.example"}).status == 421


def test_everybody_may_look_where_the_configuration_says_so_and_change_nothing() -> None:
    with web(http_settings='anonymous = "see"') as site:
        assert site.ask("GET", "/v1/pools", tcp=True).status == 200
        assert site.ask("GET", "/v1/me", tcp=True).json["may"] == ["see"]
        assert site.ask("POST", "/v1/claims", {"needs": ["psu"]}, tcp=True).status == 401


def test_a_link_logs_in_once_and_a_kick_needs_its_header_and_is_logged(site: Web) -> None:
    path = site.post("/v1/logins", {})["path"]
    entered = site.ask("GET", path, tcp=True)
    assert (entered.status, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
    assert site.ask("GET", path, tcp=True).status == 401
    own = {"Cookie": cookie.split(";")[0]}
    with site.node.client() as holder:
        lease = holder.lease("psu:1").lease.lease
        kick = f"/v1/leases/{lease}/kick"
        assert site.ask("POST", kick, {"reason": "needed"}, tcp=True, headers=own).status == 403
        foreign = {**own, "X-Holdall": "1", "Origin": "http://evil.example"}
        assert site.ask("POST", kick, {"reason": "needed"}, tcp=True, headers=foreign).status == 403
        given = {**own, "X-Holdall": "1"}
        answer = site.ask("POST", kick, {"reason": "needed", "unsafe": True}, tcp=True, headers=given)
        assert answer.status == 200, answer
        assert "kicked by force" in answer.json["what"]
    (row,) = [row for row in site.get("/v1/log")["log"] if row["kind"] == "kicked"]
    assert "needed" in row["text"]
    assert site.ask("POST", "/v1/logout", {}, tcp=True, headers=given).status == 200
    assert site.ask("GET", "/v1/pools", tcp=True, headers=own).status == 401


def test_a_page_that_has_not_changed_is_not_sent_again(shared: Web) -> None:
    first = shared.ask("GET", "/v1/pools")
    again = shared.ask("GET", "/v1/pools", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, again.data) == (304, b"")
    with shared.node.client() as holder:
        held = holder.lease("psu:1")
        assert shared.ask("GET", "/v1/pools", headers={"If-None-Match": first.headers["etag"]}).status == 200
        holder.release(held.key)


def test_the_stream_tells_a_grant_and_goes_on_where_it_was_left(site: Web) -> None:
    with site.events() as events:
        name, mark, snapshot = next(events)
        assert (name, snapshot["totals"]["held"]) == ("snapshot", 0)
        with site.node.client() as holder:
            lease = holder.lease("psu:1").lease.lease
            name, latest, change = next(events)
            while not change.get("leases"):
                name, latest, change = next(events)
            assert name == "change"
            assert [row["lease"] for row in change["leases"]["put"]] == [lease]
            with site.events(mark) as again:
                name, number, _ = next(again)
                assert name == "change"
                while number != latest:
                    _, number, _ = next(again)


def test_a_node_that_stands_still_keeps_its_server_from_nothing_but_the_nodes_own_answers(site: Web) -> None:
    with site.events() as events:
        assert next(events)[0] == "snapshot"
        os.kill(site.node.process.pid if site.node.process else 0, signal.SIGSTOP)
        try:
            claim = site.connection()
            claim.request("GET", "/v1/me")
            assert claim.getresponse().status == 200  # the server is not the node, and answers for itself
            claim.close()
        finally:
            os.kill(site.node.process.pid if site.node.process else 0, signal.SIGCONT)
    assert site.get("/v1/pools")["total"] == 2


def test_a_flood_of_requests_is_a_few_questions_to_the_node(shared: Web) -> None:
    connections = [shared.connection() for _ in range(100)]
    for connection in connections:
        connection.request("GET", "/v1/pools")
    for connection in connections:
        assert connection.getresponse().status == 200
        connection.close()
    text = shared.ask("GET", "/metrics").data.decode()
    (asked,) = [
        line for line in text.splitlines() if line.startswith('holdall_question_seconds_count{what="pools"}')
    ]
    assert float(asked.split()[-1]) < 50


def test_a_claim_that_gets_ahead_of_a_waiting_one_is_counted_at_its_pool(shared: Web) -> None:
    with shared.node.client() as holder, shared.node.client() as big, shared.node.client() as small:
        held = holder.lease("board:2")
        big.claim("board:2", "psu:2")
        big.wait(frames.Queued)
        got = small.lease("psu:1")
        text = shared.ask("GET", "/metrics").data.decode()
        for key in (held.key, got.key):
            holder.release(key)
        big.release(big.wait(frames.Granted).key)
    assert 'holdall_pool_overtakes_total{pool="psu"} 1.0' in text.splitlines()
    assert 'pool_overtakes_total{pool="board"}' not in text


def test_only_the_nodes_own_server_may_ask_for_other_users(shared: Web) -> None:
    with shared.node.client() as client:
        client.send(frames.Hello(v=frames.VERSION, for_uid=12345))
        assert "Hello again" in client.wait(frames.Denied).text
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(20)
        peer.connect(str(shared.node.socket))
        peer.sendall(frames.pack(frames.Hello(v=frames.VERSION, for_uid=12345)))
        assert b"own HTTP server" in peer.recv(4096)


def test_the_end_of_the_node_is_the_end_of_its_server(site: Web) -> None:
    site.get("/v1/pools")
    pid = server_pid(site)
    assert site.node.stop() == 0
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the server has ended")  # noqa: PTH110
    assert not site.path.exists()

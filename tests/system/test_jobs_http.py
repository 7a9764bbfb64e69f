"""Jobs over HTTP on a real node: begun as TOML or JSON, shown while they wait, cancelled, forgotten with all they wrote."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from node.waiting import until
from system.web import Web, web

pytestmark = pytest.mark.system
TOML = {"Content-Type": "application/toml"}
JOB = b"""
name = "over-http"
[task.say]
run = "echo said $HOLDALL_TASK; exit 3"
retry = 1
may_fail = true
[task.wait]
when = "say.status == 3"
foreach = ["x", "y"]
needs = ["psu:all"]
run = ["sleep", "600"]
"""


@pytest.fixture
def site() -> Iterator[Web]:
    with web() as made:
        yield made


def task(shown: Any, name: str) -> Any:
    return next(one for one in shown["tasks"] if one["task"] == name)


def test_a_job_is_begun_shown_cancelled_and_forgotten(site: Web) -> None:
    begun = site.ask("POST", "/v1/jobs", JOB, headers=TOML)
    assert begun.status == 201, begun
    job = begun.json["job"]["job"]
    where = f"/v1/jobs/{job}"
    assert begun.headers["location"] == where
    until(lambda: "blocked by" in str(task(site.get(where), "wait")["instances"]), "one of them waits")
    shown = site.get(where)
    assert (shown["job"]["name"], shown["job"]["state"], shown["job"]["total"]) == ("over-http", "running", 3)
    say, wait = task(shown, "say"), task(shown, "wait")
    assert (say["state"], say["may_fail"], wait["after"], wait["waits_for"]) == ("failed", True, ["say"], [])
    attempts = say["instances"][0]["attempts"]
    assert [(one["attempt"], one["kind"], one["status"]) for one in attempts] == [
        (1, "failed", 3),
        (2, "failed", 3),
    ]
    assert say["began_ms"] == attempts[0]["began_ms"] <= attempts[1]["ended_ms"] <= say["ended_ms"]
    waiting, holding = sorted(wait["instances"], key=lambda one: len(one["attempts"][0]["units"]))
    assert "psu:all" in waiting["note"]
    assert holding["attempts"][0]["granted_ms"] is not None
    assert site.get("/v1/jobs")["jobs"] == [shown["job"]]

    logs = site.get(f"{where}/logs?task=say")
    assert [(one["attempt"], one["text"]) for one in logs["outputs"]] == [
        (1, "said say\n"),
        (2, "said say\n"),
    ]
    assert site.get(f"{where}/logs?task=say&attempt=2&bytes=4")["outputs"][0]["text"] == "say\n"
    assert "Did you mean" in site.ask("GET", f"{where}/logs?task=sy").json["detail"]

    early = site.ask("DELETE", where)
    assert (early.status, early.json["code"]) == (403, "refused")
    assert "holdall job cancel" in early.json["detail"]
    assert site.post(f"{where}/cancel", {"reason": "seen enough"})["job"]["cancel"] == "seen enough"
    until(lambda: site.get(where)["job"]["state"] == "cancelled", "it is over")
    folder = Path(shown["job"]["folder"])
    assert folder.is_dir()
    assert site.ask("DELETE", where).json["job"]["state"] == "cancelled"
    assert site.ask("GET", where).status == 400
    assert site.get("/v1/jobs")["jobs"] == []
    until(lambda: not folder.exists(), "its output is removed")
    lines = (site.node.state / "http" / "audit.jsonl").read_bytes().splitlines()
    told = [msgspec.json.decode(line, type=dict[str, Any]) for line in lines]
    assert [one["what"] for one in told] == ["job begun", "job forgotten", "job cancelled", "job forgotten"]


def test_a_job_as_json_has_a_key_and_mistakes_are_told_with_their_places(site: Web) -> None:
    job = {"name": "twice", "task": {"a": {"run": ["true"], "needs": ["psu:1"]}}}
    path = "/v1/jobs?key=0123456789abcdef"
    first, again = site.post(path, job), site.post(path, job)
    assert first["job"]["job"] == again["job"]["job"]
    for body, headers, text in (
        (b"[task.a]\nrun = 5\n", TOML, "job:2:1: run: 5 where"),
        (b"[task.a]\nrun = 'true'\nneeds = ['psu:9']\n", TOML, 'job:3:10: task "a" can never have psu:9'),
        (b"\xff", TOML, "not UTF-8"),
        (b'{"task": {"a": {"run": ["true"], "wehn": "x"}}}', {}, 'Did you mean "when"?'),
    ):
        answer = site.ask("POST", "/v1/jobs", body, headers=headers)
        assert (answer.status, answer.json["code"], answer.json["exit_status"]) == (422, "bad-job", 78)
        assert text in answer.json["detail"]
    assert site.ask("POST", "/v1/jobs", b"{}").status == 400
    assert site.ask("POST", "/v1/jobs", JOB, headers={"Content-Type": "text/plain"}).status == 415
    assert len(site.get("/v1/jobs")["jobs"]) == 1

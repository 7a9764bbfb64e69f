"""Commands that look, at real nodes: every node answers for the whole system, and says what it could not ask."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from node.waiting import until
from system.many_nodes import HOLDALL, NodeProcess, System, system

pytestmark = pytest.mark.system


@pytest.fixture
def hosts() -> Iterator[System]:
    with system() as made:
        yield made


def look(node: NodeProcess, *command: str) -> Any:
    """The JSON of a listing."""
    done = node.command(*command, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def joined(hosts: System) -> tuple[NodeProcess, NodeProcess, NodeProcess]:
    a, b, c = (hosts.node(folder, f"lab-{folder}", f"psu-{folder}") for folder in "abc")
    a.serve("--new")
    for before, node in pairwise((a, b, c)):
        node.join(before.join_line())
    for node in (a, b, c):
        until(lambda node=node: len(look(node, "pools")["pools"]) == 6, f"{node.name} knows all")  # type: ignore[misc]
    return a, b, c


def lease(node: NodeProcess, need: str, reason: str) -> str:
    """A lease of the node: its key."""
    done = node.command("lease", "--need", need, "--for", "1h", "--reason", reason)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_c13_every_node_tells_the_same_and_a_node_that_does_not_answer_is_named(hosts: System) -> None:
    a, b, c = joined(hosts)
    key = lease(b, "bench-b", "soak")
    lease(c, "psu:3", "all of them")
    said = a.folder / "waiting.txt"
    with said.open("w") as stderr:
        waiting = subprocess.Popen(
            [*HOLDALL, "run", "--need", "bench-b", "--need", "bench-a", "--reason", "both", "--", "true"],
            cwd=a.folder,
            env=a.environment,
            stdin=subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        until(lambda: len(look(c, "queue")["waiting"]) == 1, "it waits")
        for node in (a, b, c):
            held = look(node, "who")
            assert held["not_asked"] == []
            assert {
                view["reason"]: sorted(unit["node"] for unit in view["units"]) for view in held["leases"]
            } == {
                "soak": ["lab-b"],
                "all of them": ["lab-a", "lab-b", "lab-c"],
            }
        (claim,) = (one["claim"] for one in look(c, "queue")["waiting"])
        whys = [look(node, "why", claim[:6])["why"] for node in (a, b, c)]
        assert whys[0] == whys[1] == whys[2]
        assert [blocker["reason"] for blocker in whys[0]["blockers"]] == ["soak"]
        assert {line["node"]: line["pools"] for line in whys[0]["lines"]} == {
            "lab-a": ["bench-a"],
            "lab-b": ["bench-b"],
        }
        assert whys[0]["passes_bound"] == 16

        assert look(a, "show", key)["lease"]["node"] == "lab-b"
        refused = a.command("release", key)
        assert refused.returncode == 77
        assert "was made on lab-b, not on lab-a: run it there." in refused.stderr
        assert "Run there: holdall drain" in a.command("drain", "lab-b").stderr
        assert [row["kind"] for row in look(c, "log", "--node", "lab-b")["log"]] == ["started", "granted"]
        assert {row["node"] for row in look(c, "pools", "--local")["pools"]} == {"lab-c"}

        assert b.command("release", key).returncode == 0
        assert waiting.wait(60) == 0, said.read_text()

        assert b.process is not None
        b.process.send_signal(signal.SIGSTOP)
        try:
            listed = c.command("pools")
            assert listed.returncode == 0
            assert "lab-b" not in listed.stdout
            assert "not asked: lab-b (" in listed.stderr
        finally:
            b.process.send_signal(signal.SIGCONT)
        until(lambda: look(c, "pools")["not_asked"] == [], "lab-b answers again")
    finally:
        if waiting.poll() is None:
            waiting.kill()
            waiting.wait()
    assert [node.stop() for node in (a, b, c)] == [0, 0, 0]


def test_watch_follows_all_nodes_and_tells_of_one_that_ends_and_comes_back(hosts: System) -> None:
    a, b = (hosts.node(folder, f"lab-{folder}", f"psu-{folder}") for folder in "ab")
    a.serve("--new")
    b.join(a.join_line())
    until(lambda: len(look(a, "pools")["pools"]) == 4, "lab-a knows lab-b")
    told = (a.folder / "watched").open("w+")
    watching = subprocess.Popen(
        [*HOLDALL, "watch", "--json"],
        cwd=a.folder,
        env={**a.environment, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=told,
    )

    def rows() -> list[tuple[str, str]]:
        text = (a.folder / "watched").read_text()
        lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        return [(row["node"], row["kind"]) for row in lines]

    def is_watched() -> bool:
        lease_key = lease(b, "psu", "something happens")
        assert b.command("release", lease_key).returncode == 0
        return ("lab-b", "released") in rows()

    try:
        until(is_watched, "what happens on lab-b is told at lab-a")
        seen = len(rows())
        b.stop()
        until(lambda: ("lab-b", "node-stopped") in rows()[seen:], "that it ends is told")
        b.serve()
        until(lambda: ("lab-b", "node-serving") in rows()[seen:], "that it is back is told")
        key = lease(b, "psu", "again")
        until(lambda: ("lab-b", "granted") in rows()[seen:], "and what happens there, too")
        assert b.command("release", key).returncode == 0
        os.kill(watching.pid, signal.SIGINT)
        assert watching.wait(30) == 130
    finally:
        if watching.poll() is None:
            watching.kill()
            watching.wait()
        told.close()
    sys.stderr.write((a.folder / "watched").read_text())
    assert [node.stop() for node in (a, b)] == [0, 0]

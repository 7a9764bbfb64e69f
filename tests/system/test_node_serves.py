"""A real node at work: health, hooks, reload, the end of holders and of the node itself, its trace."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from node.lab import CONFIG, Lab, lab
from node.waiting import until

from holdall.machine import trace
from holdall.model import frames
from holdall.node.assembly import host_of_world

pytestmark = pytest.mark.system

HOLDER = (
    "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path; from node.lab import Client\n"
    "c = Client(Path(sys.argv[1]), agent='other'); c.lease('board:3'); print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture
def node() -> Iterator[Lab]:
    with lab() as made:
        yield made


def test_serve_says_what_it_serves_and_what_to_do_next(node: Lab) -> None:
    node.configure(CONFIG.replace('listen = "off"', 'listen = "127.0.0.1:0"'))
    node.start("--new")
    said = node.said()
    assert "pool       board: 3 units" in said
    assert f"socket     {node.socket}" in said
    assert f"next       HOLDALL_URL=unix://{node.socket} holdall run --need board:1 -- COMMAND" in said
    address = re.search(r"health +http://127\.0\.0\.1:(\d+)/healthz", said)
    assert address is not None
    connection = http.client.HTTPConnection("127.0.0.1", int(address[1]), timeout=20)
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    assert answer.status == 200
    assert (body["ok"], body["node"], body["state"], body["quarantine_ms"]) == (True, "lab-1", "serving", 0)


def test_the_log_is_one_json_object_a_line_without_a_terminal(node: Lab) -> None:
    node.start("--new")
    lines = [line for line in node.said().splitlines() if line.startswith("{")]
    assert [json.loads(line)["event"] for line in lines] == ["serving"]


def test_c2_a_killed_holder_on_this_host_is_freed_at_once_and_the_log_says_so(node: Lab) -> None:
    node.start("--new")
    tests = str(Path(__file__).parents[1])
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(node.socket), tests],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == b"held\n"
    with node.client() as waiting:
        waiting.claim("board:1")
        waiting.wait(frames.Queued)
        holder.kill()
        holder.wait()
        holder.stdout.close()
        holder.stdin.close()
        granted = waiting.wait(frames.Granted, within_s=10)
        assert granted.lease.units[0].fence > 3
        assert [row.text for row in waiting.listing("log").log if "holder gone" in row.text]


def test_a_client_that_comes_back_keeps_its_lease_though_its_connection_broke(node: Lab) -> None:
    node.start("--new")
    first = node.client()
    held = first.lease("board:3")
    first.close()
    with node.client(session=first.welcome.session, secret=first.welcome.secret) as again:
        assert again.welcome.resumed
        assert [one[0] for one in again.beat().valid_for_ms] == [held.lease.lease]
        assert again.release(held.key).what == "released"


def test_the_secret_of_a_session_is_needed_to_come_back(node: Lab) -> None:
    node.start("--new")
    with node.client() as first:
        first.lease("board:1")
        with node.client(session=first.welcome.session, secret="0" * 32) as thief:
            assert not thief.welcome.resumed
            assert thief.beat().valid_for_ms == ()


def test_hooks_run_around_a_lease_and_a_failed_one_takes_the_unit_out_of_service(node: Lab) -> None:
    record = node.folder / "hooks"
    node.configure(
        CONFIG
        + f"""
on_grant = "echo on {{unit}} {{fence}} >> {record}"
on_release = "echo off {{unit}} {{fence}} >> {record}; test {{unit}} = psu-1"
"""
    )
    node.start("--new")
    with node.client() as client:
        lease = client.lease("psu:2")
        said = record.read_text()
        assert sorted(line.split()[:2] for line in said.splitlines()) == [["on", "psu-1"], ["on", "psu-2"]]
        client.release(lease.key)
        until(lambda: record.read_text().count("off") == 2, "both units are switched off")

        def states() -> dict[str, str]:
            pools = {row.pool: row for row in client.listing("pools").pools}
            return {unit.unit: unit.state for unit in pools["psu"].units}

        until(lambda: states() == {"psu-1": "free", "psu-2": "quarantined"}, "one is free, one is not")
        client.send(frames.Clear(n=client.n(), unit="psu/psu-2"))
        client.wait(frames.Drained)
        assert states() == {"psu-1": "free", "psu-2": "free"}


def test_a_reload_touches_no_held_unit_and_a_mistake_in_it_changes_nothing(node: Lab) -> None:
    node.start("--new")
    assert node.process is not None
    with node.client() as client:
        held = client.lease("psu:2")
        node.configure(CONFIG.replace('units = ["psu-1", "psu-2"]', 'units = ["psu-2", "psu-3"]'))
        node.process.send_signal(signal.SIGHUP)
        until(lambda: '"event": "reloaded"' in node.said(), "the node has reloaded")
        assert client.listing("who").leases[0].units == held.lease.units
        fresh = client.lease("psu:1")
        assert [unit.name for unit in fresh.lease.units] == ["psu-3"]
        node.configure(CONFIG.replace("count", "cuont").replace("units", "unit"))
        node.process.send_signal(signal.SIGHUP)
        until(lambda: '"event": "not reloaded"' in node.said(), "the node has refused")
        assert 'Did you mean \\"units\\"?' in node.said()
        client.release(held.key)
        client.release(fresh.key)
        pools = {row.pool: row for row in client.listing("pools").pools}
        assert {unit.unit for unit in pools["psu"].units if unit.state == "free"} == {"psu-2", "psu-3"}
        assert pools["board"].free == 3


def test_a_node_that_is_told_to_end_leaves_its_leases_for_the_next_start(node: Lab) -> None:
    node.start("--new")
    client = node.client()
    held = client.lease("board:3")
    assert node.stop() == 0
    assert not node.socket.exists()
    node.start()
    with node.client(session=client.welcome.session, secret=client.welcome.secret) as again:
        assert [one[0] for one in again.beat().valid_for_ms] == [held.lease.lease]
        assert again.release(held.key).what == "released"
        fresh = again.lease("board:3")
        assert min(unit.fence for unit in fresh.lease.units) > max(unit.fence for unit in held.lease.units)
    client.close()


def test_noise_on_the_socket_leaves_the_node_as_it_was(node: Lab) -> None:
    node.start("--new")
    with node.client() as client:
        before = client.listing("node").nodes[0]
        for noise in (b"\xff" * 100, b"\0\0\0\4" + b"\x91" * 4, frames.pack(frames.Beat(n=1)), b"", b"\0"):
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(str(node.socket))
                peer.sendall(noise)
                if len(noise) > 1:
                    peer.settimeout(20)
                    assert b"refused" in peer.recv(4096)
        after = client.listing("node").nodes[0]
        assert (after.leases, after.waiting, after.units) == (before.leases, before.waiting, before.units)
        client.lease("board:3")


def test_the_trace_of_a_run_replays_with_the_same_effects(node: Lab) -> None:
    for number in range(2):
        node.start("--new", "--trace", str(node.folder / f"trace-{number}"))
        with node.client() as client:
            restarts = [row for row in client.listing("log").log if row.kind == "restarted"]
            assert len(restarts) == number
        with node.client() as client, node.client(agent="two") as other:
            lease = client.lease("board:3", "psu:1")
            other.claim("board:2")
            other.wait(frames.Queued)
            client.listing("who")
            client.listing("node")
            client.release(lease.key)
            other.wait(frames.Granted)
        node.kill()
    for number in range(2):
        file = node.folder / f"trace-{number}"
        assert file.stat().st_mode & 0o077 == 0
        with file.open("rb") as lines:
            recorded = trace.read(lines)
        assert len(recorded.steps) > 5
        difference = trace.replay(recorded.steps, lambda _, world=recorded.header.world: host_of_world(world))  # type: ignore[misc]
        assert difference is None


def test_a_stopped_node_answers_when_it_goes_on_and_has_lost_nothing(node: Lab) -> None:
    node.start("--new")
    assert node.process is not None
    with node.client() as client:
        held = client.lease("board:1")
        os.kill(node.process.pid, signal.SIGSTOP)
        number = client.claim("board:1")
        os.kill(node.process.pid, signal.SIGCONT)
        assert client.wait(frames.Granted).n == number
        assert held.lease.lease in dict(client.beat().valid_for_ms)

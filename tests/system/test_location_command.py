"""`holdall location request … -- CMD`: a command under a negotiated lease is held to it, by what there is, and that is told."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from node.waiting import until
from system.many_nodes import HOLDALL, NodeProcess, System, is_alive, system
from system.test_location import at_location, host_count, told

from holdall.guardian.enforcement.ladder import probe

pytestmark = pytest.mark.system
MIB = 1 << 20
NOT_TAKEN, NOT_NOW, LOST = 64, 75, 79
OFFERED = """
[[capacity]]
name = "mem"
amount = "{mem}MiB"
[[capacity]]
name = "cpu"
amount = "2cpu"
[location]
stay_max = "1h"
offer = "60s"
"""
BUSY = """
import time
held = bytearray(40 << 20)
while True:
    sum(range(20000))
    time.sleep(0.01)
"""
GROWS = """
import sys, time
from pathlib import Path
held = bytearray(40 << 20)
print("begun", flush=True)
while not Path(sys.argv[1]).exists():
    time.sleep(0.02)
held += bytearray(150 << 20)
"""
FLEES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.close(1)
            os.close(2)
            time.sleep(1000)
        os.write(1, b"%d\\n" % os.getpid())
        time.sleep(1000)
os.write(1, b"%d\\n" % os.getpid())
while True:
    time.sleep(1)
"""


@pytest.fixture
def hosts() -> Iterator[System]:
    with system() as made:
        yield made


def one_host(hosts: System) -> NodeProcess:
    (node,) = at_location(hosts, "a", more=OFFERED.replace("{mem}", "300"))
    until(lambda: host_count(node) == 1, "the host is known")
    return node


def start(node: NodeProcess, *words: str) -> subprocess.Popen[str]:
    return begin(node, "request", "prague", *words)


def begin(node: NodeProcess, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*HOLDALL, "location", *words],
        env=node.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_command_is_held_to_each_renewal_and_its_host_tells_what_it_uses(hosts: System) -> None:
    node = one_host(hosts)
    asked = ("--term", "mem=200MiB", "--term", "cpu=1cpu", "--term", "stay=1h", "--duration", "6s")
    running = start(node, *asked, "--json", "--", sys.executable, "-c", BUSY)

    def terms() -> dict[str, Any]:
        found = told(node, "status", lease)["lease"]["terms"]
        return {one["name"]: one for one in found}

    try:
        assert running.stderr is not None
        lease = json.loads(running.stderr.readline())["lease"]["lease"]
        until(lambda: terms()["cpu"].get("used", {}).get("total", 0) > 0, "its host knows of its use")
        used = terms()
        assert used["mem"]["used"]["peak_1s"] >= 40 * MIB
        assert {one["enforced"] for one in used.values()} <= {"kernel", "process", "observed"}
        assert (used["stay"]["enforced"], used["stay"]["state"]) == ("process", "ready.processing")
        # The host has less from now on: the next renewal grants less, and the running command is held to that.
        node.config.write_text(node.config.read_text().replace('"300MiB"', '"100MiB"'))
        node.reload()
        until(lambda: terms()["mem"]["granted"] == 100 * MIB, "a renewal grants less")
        events = iter(json.loads(line) for line in running.stderr)
        assert any(str(100 * MIB) in event.get("text", "").replace(",", "") for event in events)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 128 + signal.SIGINT
    assert told(node, "status", lease)["lease"]["state"] == "released"


def test_before_its_end_a_command_gets_the_signal_and_the_status_tells_what_became_of_it(
    hosts: System, tmp_path: Path
) -> None:
    node = one_host(hosts)
    script = f"trap 'echo saved > {tmp_path}/saved' USR1; while :; do sleep 0.05; done"
    # The signal comes after 8 s: a shell that has not begun by then, on a machine that stood still, dies of it.
    asked = ("--term", "stay=10s", "--duration", "12s", "--before-end", "1s:USR1")
    running = start(node, *asked, "--", "sh", "-c", script)
    _, said = running.communicate(timeout=60)
    assert running.returncode == LOST, said
    assert "it has run for 10 s, which is as long as it may" in said
    assert (tmp_path / "saved").read_text() == "saved\n"
    lease = next(word for word in said.split() if word.startswith("L-prague-"))
    found = told(node, "status", lease)["lease"]
    assert found["before_end"] == {"lead_ms": 1000, "signal": "USR1"}
    assert (found["state"], found["before_end_outcome"]) == ("released", "signal SIGUSR1 was sent")


def kept_here(term: str) -> str:
    """By whom this host can keep a limit: the first means that is there and can."""
    return next(rung.keeps[term] for rung in probe() if rung.there and term in rung.keeps)


def children(pid: int) -> list[int]:
    """Of a process, and of those."""
    found = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*found, *(below for one in found for below in children(one))]


def test_of_two_hosts_that_of_the_command_gives_its_terms_and_an_offer_of_the_other_is_refused(
    hosts: System,
) -> None:
    here, there = at_location(hosts, "a", "b", more=OFFERED.replace("{mem}", "300"))
    until(lambda: host_count(here) == host_count(there) == 2, "both hosts are known")
    terms = ("--term", "mem=100MiB", "--term", "cpu=300mcpu")
    offers = {
        node.name: told(node, "request", "prague", *terms, "--duration", "1h")["offer"]
        for node in (here, there)
    }
    own = [name for name, offer in offers.items() if offer["host"] == name]
    # Both hosts are alike and take turns, so one of the two offers is of the other host.
    assert {offer["host"] for offer in offers.values()} == {"lab-a", "lab-b"}
    for node in (here, there):
        offer = offers[node.name]
        running = begin(node, "accept", offer["lease"], "--json", "--", sys.executable, "-c", BUSY)
        if node.name not in own:
            _, said = running.communicate(timeout=60)
            assert running.returncode == NOT_TAKEN
            assert (
                f"cpu and mem: offered by {offer['host']}, and the command would run at {node.name}" in said
            )
            continue
        _is_held(node, running, offer["lease"])
    # Asked with its command in one step, the command's own host alone is asked.
    for node in (here, there):
        running = start(node, *terms, "--json", "--", "true")
        _, said = running.communicate(timeout=60)
        assert running.returncode == 0, said
        assert json.loads(said.splitlines()[0])["lease"]["host"] == node.name


def _is_held(node: NodeProcess, running: "subprocess.Popen[str]", lease: str) -> None:
    """The status says how it is kept, by what this host has; the kernel keeps a busy command to its share."""

    def terms() -> dict[str, Any]:
        return {one["name"]: one for one in told(node, "status", lease)["lease"]["terms"]}

    try:
        assert running.stderr is not None
        assert json.loads(running.stderr.readline())["lease"]["lease"] == lease
        until(lambda: terms()["cpu"].get("used", {}).get("total", 0) > 600, "it has worked for a while")
        used = terms()
        assert {name: one["enforced"] for name, one in used.items()} == {
            "cpu": kept_here("cpu"),
            "mem": kept_here("mem"),
        }
        if kept_here("cpu") == "kernel":
            # A second begins and ends anywhere in the kernel's periods of 100 ms.
            assert used["cpu"]["used"]["peak_1s"] <= 300 + 2 * 30
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=30)
        assert running.returncode == 128 + signal.SIGTERM
    finally:
        running.kill()
        running.wait()
    assert told(node, "status", lease)["lease"]["state"] == "released"


def test_a_command_that_takes_more_than_its_last_renewal_left_it_is_ended(
    hosts: System, tmp_path: Path
) -> None:
    node = one_host(hosts)
    asked = ("--term", "mem=200MiB", "--duration", "6s", "--json")
    running = start(node, *asked, "--", sys.executable, "-c", GROWS, str(tmp_path / "grow"))
    try:
        assert running.stdout is not None
        assert running.stderr is not None
        lease = json.loads(running.stderr.readline())["lease"]["lease"]
        assert running.stdout.readline() == "begun\n"
        node.config.write_text(node.config.read_text().replace('"300MiB"', '"100MiB"'))
        node.reload()
        events = iter(json.loads(line) for line in running.stderr)
        assert any("the renewal grants: mem 104,857,600" in event.get("text", "") for event in events)
        (tmp_path / "grow").touch()
        running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    # 190 MiB were within the first grant. Where the kernel keeps it, it kills; else Python has no memory, or the guardian ends it.
    assert running.returncode == 137 if kept_here("mem") == "kernel" else running.returncode != 0
    assert told(node, "status", lease)["lease"]["state"] == "released"


def test_when_its_node_is_killed_nothing_of_a_command_is_left_at_the_end_of_its_lease(
    hosts: System,
) -> None:
    node = one_host(hosts)
    running = start(node, "--term", "mem=100MiB", "--duration", "6s", "--", sys.executable, "-c", FLEES)
    try:
        assert running.stdout is not None
        told_pids = [int(running.stdout.readline()) for _ in range(4)]
        pids = {*told_pids, *(below for pid in told_pids for below in children(pid))}
        # Three in sessions of their own with a child each, which ignore TERM, and the command.
        assert len(pids) == 7
        assert all(is_alive(pid) for pid in pids)
        node.kill()
        _, said = running.communicate(timeout=60)
        assert not any(is_alive(pid) for pid in pids)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == LOST, said
    assert "lost" in said


def test_of_commands_that_take_one_offer_at_the_same_moment_one_runs(hosts: System, tmp_path: Path) -> None:
    node = one_host(hosts)
    for n in range(3):
        began, may_end = tmp_path / f"began-{n}", tmp_path / f"may-end-{n}"
        command = ("sh", "-c", f"echo $$ >> {began}; until [ -e {may_end} ]; do sleep 0.05; done")
        lease = told(node, "request", "prague", "--term", "mem=10MiB")["offer"]["lease"]
        runs = [begin(node, "accept", lease, "--", *command) for _ in range(4)]
        until(lambda runs=runs: sum(one.poll() is not None for one in runs) >= 3, "the others are refused")  # type: ignore[misc]
        refused = [one for one in runs if one.poll() is not None]
        texts = [one.communicate()[1] for one in refused]
        assert [one.returncode for one in refused] == [NOT_NOW] * 3, texts
        assert all("has its lease alone. Ask anew: holdall location request prague" in one for one in texts)
        may_end.touch()
        (ran,) = (one for one in runs if one not in refused)
        said = ran.communicate(timeout=60)
        assert (ran.returncode, len(began.read_text().split())) == (0, 1), said

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
from system.many_nodes import HOLDALL, NodeProcess, System, system
from system.test_location import at_location, host_count, told

pytestmark = pytest.mark.system
MIB = 1 << 20
LOST = 79
OFFERED = """
[[capacity]]
name = "mem"
amount = "{mem}MiB"
[[capacity]]
name = "cpu"
amount = "2cpu"
[location]
stay_max = "1h"
"""
BUSY = """
import time
held = bytearray(40 << 20)
while True:
    sum(range(20000))
    time.sleep(0.01)
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
    return subprocess.Popen(
        [*HOLDALL, "location", "request", "prague", *words],
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

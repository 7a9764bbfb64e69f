"""`holdall run` that is held to limits, to a stay, and has something to do before its end."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from node.lab import Lab, lab
from system.runs import ran

pytestmark = pytest.mark.system


@pytest.fixture
def host() -> Iterator[Lab]:
    with lab() as made:
        yield made.start("--new")


@pytest.mark.requires("cgroup-limits")
def test_a_command_that_takes_more_memory_than_it_may_is_ended_and_what_it_used_is_told(host: Lab) -> None:
    greedy = "held = [bytearray(1 << 20) for _ in range(300)]"
    done = ran(host, "--need", "psu", "--limit", "mem=60MiB", "--json", "--", sys.executable, "-c", greedy)
    events = [json.loads(line) for line in done.stderr.splitlines()]
    (used,) = [event for event in events if event["event"] == "used"]
    assert done.returncode == 137
    assert used["mem_peak"] <= 60 << 20


def test_e3_a_command_that_has_stayed_as_long_as_it_may_saves_its_work_and_is_ended(
    host: Lab, tmp_path: Path
) -> None:
    script = (
        f"trap 'echo saved > {tmp_path}/saved' USR1; echo > {tmp_path}/began; while :; do sleep 0.05; done"
    )
    # The signal comes after 9 s: a shell that has not begun by then, on a machine that stood still, dies of it.
    done = ran(host, "--need", "psu", "--stay", "10s", "--before-end", "1s:USR1", "--", "sh", "-c", script)
    assert (done.returncode, (tmp_path / "began").exists()) == (79, True), done.stderr
    assert "before the end: signal SIGUSR1 was sent" in done.stderr
    assert "it has run for 10 s, which is as long as it may" in done.stderr
    assert (tmp_path / "saved").read_text() == "saved\n"


def test_limits_are_not_passed_on_to_another_node(host: Lab) -> None:
    done = ran(host, "--need", "psu", "--on", "lab-9", "--limit", "mem=60MiB", "--", "true")
    assert (done.returncode, "are not passed on to another node" in done.stderr) == (64, True)
    assert ran(host, "--need", "psu", "--on", "lab-1", "--limit", "mem=1GiB", "--", "true").returncode == 0

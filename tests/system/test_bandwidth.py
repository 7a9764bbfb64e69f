"""The bandwidth experiment as people run it: judged by ratios, as machines differ; the link's bound holds on each."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from holdall.lab.bandwidth.expected import SENDERS
from holdall.lab.bandwidth.runs import repeat
from holdall.leases.divisions import Rule

HOLDALL = (sys.executable, "-m", "holdall.cli")


def bandwidth(*options: str) -> Any:
    """The document. A second with too much would be exit status 1."""
    done = subprocess.run(
        [*HOLDALL, "lab", "bandwidth", "--json", *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def judge(found: Any) -> None:
    """What leases of bandwidth promise."""
    without = [one["mean_ms"] for one in found["without"]]
    with_ = [one["mean_ms"] for one in found["with"]]
    assert max(without) <= 1.06 * min(without), "without leases all are alike"
    assert with_[0] <= 0.9 * without[0], "the small ones are faster with leases"
    assert with_[1] <= 0.9 * without[1]
    assert with_[3] > without[3], "the largest is slower"
    assert with_[0] <= 1.02 * with_[1], "the smaller, the faster; the two small ones are met in full"
    assert with_[1] < with_[2] < with_[3]
    for link in (found["link_without"], found["link_with"]):
        assert link["busiest_1s"] <= link["capacity"] + link["depth"]


@pytest.mark.system
@pytest.mark.parametrize("rule", [None, "fair"])
def test_a_short_run_over_real_sockets(rule: Rule | None) -> None:
    messages = 4
    run = asyncio.run(repeat(SENDERS, rule=rule, messages=messages, speed=50))
    assert {agent: len(times) for agent, times in run.times_ms.items()} == dict.fromkeys(SENDERS, messages)
    assert run.did.sent == messages * sum(payload + 4 for payload in SENDERS.values())
    assert run.did.busiest_1s <= run.did.capacity + run.did.depth
    granted = {agent: [one.granted for one in run.did.changes if one.holder == agent] for agent in SENDERS}
    for agent, payload in SENDERS.items():
        assert bool(granted[agent]) == (rule is not None)
        assert all(amount <= 50 * payload for amount in granted[agent])
        assert granted[agent][-1:] in ([], [0]), "all is given back at the end"


@pytest.mark.system
@pytest.mark.parametrize(
    "line", ["", "{}", '{"capacity":0,"holders":{}}', '{"capacity":1,"holders":{},"rule":"best"}']
)
def test_a_gate_s_process_that_is_told_nonsense_says_so(line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdall.node.gate"],
        input=line,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("holdall: ")
    assert "Write one line such as" in done.stderr


@pytest.mark.system
def test_small_senders_are_faster_with_leases_and_the_link_is_never_exceeded() -> None:
    judge(bandwidth("--speed", "5", "--reps", "2"))


@pytest.mark.long
def test_the_whole_experiment_at_full_length() -> None:
    found = bandwidth()
    assert (found["speed"], found["reps"], found["messages"]) == (1, 10, 100)
    judge(found)

"""The whole product under kills and pauses: nothing is held twice, nobody starves, nothing leaks."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from system.stress import Outcome, Plan, Stress

SEED = int(os.environ.get("HOLDALL_STRESS_SEED", "20261128"))

pytestmark = [pytest.mark.system, pytest.mark.alone]


def check(histories: Sequence[Path], *options: str) -> tuple[int, dict[str, Any]]:
    """Status and JSON of `holdall check`."""
    done = subprocess.run(
        [sys.executable, "-m", "holdall.cli", "check", "--json", *options, *map(str, histories)],
        capture_output=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def lines_of(histories: Sequence[Path]) -> list[dict[str, Any]]:
    """All whole lines."""
    return [
        json.loads(line)
        for path in histories
        for line in path.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    ]


def unserved(histories: Sequence[Path]) -> list[str]:
    """Claims without a grant whose client was never killed."""
    lines = lines_of(histories)
    granted = {line["claim"] for line in lines if line["t"] == "grant"}
    killed = {line["client"] for line in lines if line["t"] == "crash"}
    return [
        line["claim"]
        for line in lines
        if line["t"] == "claim" and line["claim"] not in granted and line["client"] not in killed
    ]


def stressed(plan: Plan) -> Outcome:
    """A run whose histories are clean; the folder stays when something was found."""
    folder = tempfile.mkdtemp(dir="/tmp", prefix="hd")
    outcome = Stress(plan, Path(folder)).run()
    assert outcome.problems == [], f"kept in {folder}"
    assert unserved(outcome.histories) == [], f"kept in {folder}"
    least = ("--min-grants", str(plan.claims * 8 // 10), "--min-contended", str(plan.claims // 5))
    faults = outcome.kills + outcome.pauses + outcome.node_kills
    status, verdict = check(outcome.histories, *least, "--min-faults", str(faults // 2))
    assert (status, verdict["violations"], verdict["damage"], verdict["shortfalls"]) == (0, [], [], []), (
        folder
    )
    assert verdict["statistics"]["claims"] == plan.claims
    subprocess.run(["rm", "-r", folder], check=True)
    return outcome


def test_nothing_is_found_while_clients_and_the_node_are_killed() -> None:
    outcome = stressed(Plan(seed=SEED, claims=300))
    assert outcome.node_kills >= 5
    assert outcome.kills >= 10
    assert outcome.pauses >= 10


@pytest.mark.long
def test_nothing_is_found_in_two_thousand_claims() -> None:
    outcome = stressed(Plan(seed=SEED + 1, claims=2_000, claims_of_command=20, end_within_s=1_800))
    assert outcome.node_kills >= 10
    assert outcome.kills >= 40
    assert outcome.pauses >= 30

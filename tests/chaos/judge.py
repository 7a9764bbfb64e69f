"""Judges a run: `holdall check` over all histories, the floors, and the figures that are printed."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.plan import Outcome, Plan


def judge(plan: Plan, outcome: Outcome, folder: Path) -> str:
    """The figures, after everything held; else fails with them, and the folder stays."""
    floors = plan.floors
    status, verdict = check(
        outcome.histories, "--min-grants", str(floors.grants), "--min-contended", str(floors.contended)
    )
    figures = figures_of(plan, outcome, verdict["statistics"])
    kept = f"kept in {folder}\n{figures}"
    assert outcome.problems == [], "\n".join([kept, *outcome.problems])
    assert (verdict["violations"], verdict["damage"]) == ([], []), kept
    assert never_answered(outcome.histories) == [], kept
    assert (status, verdict["shortfalls"]) == (0, []), kept
    assert outcome.kills >= floors.kills, kept
    assert outcome.pauses >= floors.pauses, kept
    assert outcome.cuts >= floors.cuts, kept
    measured = len(outcome.reclaims.after_client_hosts) + len(outcome.reclaims.after_pool_hosts)
    assert measured >= floors.reclaims, kept
    shutil.rmtree(folder)
    return figures


def check(histories: Sequence[Path], *options: str) -> tuple[int, dict[str, Any]]:
    """Status and JSON of `holdall check`."""
    done = subprocess.run(
        [sys.executable, "-m", "holdall.cli", "check", "--json", *options, *map(str, histories)],
        capture_output=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def never_answered(histories: Sequence[Path]) -> list[str]:
    """Claims that were not granted, though nothing was done to their client."""
    lines = [
        json.loads(line)
        for path in histories
        for line in path.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    ]
    granted = {line["claim"] for line in lines if line["t"] == "grant"}
    killed = {line["client"] for line in lines if line["t"] == "crash"}
    return [
        line["claim"]
        for line in lines
        if line["t"] == "claim" and line["claim"] not in granted and line["client"] not in killed
    ]


def figures_of(plan: Plan, outcome: Outcome, counted: Mapping[str, Any]) -> str:
    """For people: what was done, what came of it, and the floors."""
    reclaims, floors = outcome.reclaims, plan.floors
    kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(outcome.counts.items()))
    rows = [
        (
            f"seed {plan.seed}: {len(plan.pools)} hosts, {plan.processes} client processes, faults for "
            f"{outcome.lasted_s:.0f} s"
        ),
        f"faults: {kinds}",
        (
            f"kills {outcome.kills} (at least {floors.kills}), pauses {outcome.pauses} ({floors.pauses}), "
            f"cuts {outcome.cuts} ({floors.cuts})"
        ),
        (
            f"claims {counted['claims']}, grants {counted['grants']} ({floors.grants}), contended "
            f"{counted['contended']} ({floors.contended})"
        ),
        f"checker: {json.dumps(counted)}",
        f"units back after the death of a client's host: {spread(reclaims.after_client_hosts)}",
        f"units back after a pool's node was back: {spread(reclaims.after_pool_hosts)}",
        f"all free {outcome.drained_s:.1f} s after the last fault; books read {outcome.readings} times",
    ]
    return "\n".join(rows)


def spread(parts: Sequence[float]) -> str:
    if not parts:
        return "not measured"
    ordered = sorted(parts)
    return f"{len(parts)} units, median {ordered[len(parts) // 2]:.2f} ttl, most {ordered[-1]:.2f} ttl"

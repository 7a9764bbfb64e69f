"""The end: who got what, the judge's word over all recorded histories, and that nothing is left running."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from scripts.demo.lab import POOLS, Lab
from scripts.demo.parties import Party, Stream, note


def summary(lab: Lab, parties: Sequence[Party]) -> None:
    """A line for each party: when, for how long, at how many nodes, which units with which fences."""
    heading = "party  at     asked     waited  grants  units#fences of the last grant"
    granted = (party for party in parties if party.granted_at)
    rows = (
        f"{party.name:<6} {party.node}  {party.asked_at:4.1f} s  {party.granted_at[0] - party.asked_at:5.1f} s"
        f"  {len(party.granted_at):6}  {party.held()}{'  <- killed' if party.killed else ''}"
        for party in sorted(granted, key=lambda one: one.asked_at)
    )
    lab.stage.tell("demo", "\n".join((heading, *rows)))


def check_fences(parties: Iterable[Party]) -> None:
    """Raises RuntimeError when a later holder of a unit has no higher fence than an earlier one."""
    last: dict[tuple[str, str], tuple[int, str]] = {}
    granted = (party for party in parties if party.granted_at)
    for party in sorted(granted, key=lambda one: one.granted_at[-1]):
        for unit, fence in party.holding.items():
            earlier, whose = last.get(unit, (0, "nobody"))
            if fence <= earlier:
                raise RuntimeError(
                    f"{unit[1]} went to {party.name} with fence {fence}, after {whose} with {earlier}"
                )
            last[unit] = (fence, party.name)


def write_history_head(folder: Path) -> None:
    """What the judge must know of the world: the pools."""
    units = {
        pool: {"units": [f"{unit}@{node}" for unit in units]}
        for node, pools in POOLS.items()
        for pool, units in pools.items()
    }
    note(folder, {"t": "meta", "pools": units})


def judge(lab: Lab) -> None:
    """Give the recorded histories to `holdall check`. Raises RuntimeError with its findings."""
    note(lab.folder, {"t": "end", "at": time.monotonic_ns()})
    histories = sorted(str(path) for path in lab.folder.glob("*.jsonl"))
    lab.stage.tell("demo", "$ holdall check *.jsonl")
    # It needs no node.
    lab.stage.tell("demo", lab.ask("lab-2", "check", *histories))
    lab.stage.tell(
        "demo", "as promised: nobody had half of what they need, nobody shared a unit, fences only grew"
    )


def end_everything(lab: Lab, parties: Sequence[Party]) -> bool:
    """End parties and nodes, and look by process id that all are gone. False when something had to be killed."""
    before = processes_of(lab.folder)
    for party in parties:
        party.end()
    lab.end()
    until = time.monotonic() + 8
    while (left := processes_of(lab.folder)) and time.monotonic() < until:
        time.sleep(0.05)
    for process_id in left:
        lab.stage.tell("demo", f"FAILED: process {process_id} was left running; it is killed now")
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)
    if not left:
        lab.stage.tell(
            "demo",
            f"nothing is left running: {len(before)} processes of it were, now none is (nodes, nats-servers, parties,"
            " guardians, commands; looked for in /proc)",
        )
    return not left


def processes_of(folder: Path) -> set[int]:
    """All that were started for the demonstration: they inherited its folder, or have it among their arguments."""
    wanted = str(folder).encode()
    found: set[int] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            told = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            if wanted in told and is_alive(int(process.name)):
                found.add(int(process.name))
    return found


def is_alive(process_id: int) -> bool:
    """Whether a process with this id runs; one that only waits to be noticed as dead does not."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def longest_pause(streams: Iterable[Stream], since: float, until: float) -> float:
    """Seconds of the longest time between two grants to any of them."""
    grants = sorted(at for stream in streams for at in stream.granted_at if since <= at <= until)
    points = [since, *grants, until]
    return max(later - earlier for earlier, later in pairwise(points))

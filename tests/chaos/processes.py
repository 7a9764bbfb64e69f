"""Stopping, continuing and looking at processes, always by their own ids."""

import os
import signal
import time
from pathlib import Path


def state_of(pid: int) -> str:
    """The kernel's letter for a process (`R`, `S`, `T`, `Z` …); empty when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[0]


def is_alive(pid: int) -> bool:
    return state_of(pid) not in {"", "Z", "X"}


def halt(pid: int) -> bool:
    """SIGSTOP, and wait until every thread of it stands. False: it has ended meanwhile."""
    if not send(pid, signal.SIGSTOP):
        return False
    while is_alive(pid):
        if _thread_states(pid) <= {"T", "t"}:
            return True
        time.sleep(0.001)
    return False


def send(pid: int, number: signal.Signals) -> bool:
    """False: there is no such process any more."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _thread_states(pid: int) -> set[str]:
    states: set[str] = set()
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            states.add((thread / "stat").read_text().rpartition(")")[2].split()[0])
    except OSError:
        states.add("gone")
    return states

"""What the watcher of an attempt writes down, line by line, for the runner of the moment, or the next one.

The two lines that decide are on the disk before what they announce happens: `Starting` before the command can run, `Done`
before the lock of the attempt is given up. So of an attempt whose lock is free: with a `Done` its outcome is known;
without one, but with `Starting`, it has ended and nobody knows how; without either its command has never run.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from holdall.jobs.entries import Outcome

FACTS_BYTES_MAX = 1024 * 1024
"""An attempt has a handful of lines, none of them long."""
WAITING = "waiting"
UNITS_BYTES_MAX = 2_500


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt is to do; the runner writes it into the attempt's folder."""

    command: tuple[str, ...]
    needs: tuple[tuple[str, ...], ...]
    environment: dict[str, str]
    folder: str
    node_socket: str
    agent: str
    reason: str
    site: str
    wait_ms: int | None = None
    ttl_ms: int | None = None
    hold_for_ms: int | None = None
    timeout_ms: int | None = None
    on: str = ""
    """The node that it runs on; empty: this one."""
    own: dict[str, str] = {}
    """Of its environment, what the job says: a command on another node gets nothing else of here."""
    task_key: str = ""
    """Of the task, the same for all its attempts, and of no other task of any job."""
    attempt: int = 0


class Got(msgspec.Struct, frozen=True, tag="got"):
    """It has its needs."""

    lease: str
    units: tuple[str, ...]


class Starting(msgspec.Struct, frozen=True, tag="starting"):
    """From here on the command may have run."""


class Stopping(msgspec.Struct, frozen=True, tag="stopping"):
    """It is being ended."""

    text: str


class Done(msgspec.Struct, frozen=True, tag="done"):
    """Nothing of the command is left."""

    outcome: Outcome


Fact: TypeAlias = Got | Starting | Stopping | Done

_decoder: msgspec.json.Decoder[Fact] = msgspec.json.Decoder(Fact)


class Facts:
    """The writer."""

    def __init__(self, file: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(file, flags, 0o600)
        self._waiting = file.with_name(WAITING)

    def write(self, fact: Fact) -> None:
        """Add a line. Raises OSError."""
        os.write(self._descriptor, msgspec.json.encode(fact) + b"\n")
        if isinstance(fact, (Starting, Done)):
            os.fsync(self._descriptor)

    def waits(self, text: str) -> None:
        """What it waits for, in a file of its own: it changes often, and nothing depends on it. Raises OSError."""
        beside = self._waiting.with_name(WAITING + ".new")
        beside.write_text(text, encoding="utf-8")
        beside.rename(self._waiting)

    def close(self) -> None:
        """No more lines."""
        os.close(self._descriptor)


def units_shown(units: Sequence[str]) -> tuple[str, ...]:
    """As many of a lease's units as an entry of the log takes, and how many more there are."""
    room = UNITS_BYTES_MAX
    shown: list[str] = []
    for unit in units:
        room -= len(unit.encode()) + 3
        if room < 0:
            return (*shown, f"and {len(units) - len(shown)} more")
        shown.append(unit)
    return tuple(shown)


def read_facts(file: Path) -> Sequence[Fact]:
    """What stands there, oldest first; a line that was cut off, or is none of ours, counts for nothing."""
    try:
        with file.open("rb") as opened:
            data = opened.read(FACTS_BYTES_MAX)
    except OSError:
        return ()
    found: list[Fact] = []
    for line in data.split(b"\n")[:-1]:
        try:
            found.append(_decoder.decode(line))
        except (msgspec.DecodeError, RecursionError, ValueError):
            continue
    return found


def outcome_of(facts: Sequence[Fact]) -> Outcome:
    """Of an attempt whose lock is free."""
    for fact in reversed(facts):
        if isinstance(fact, Done):
            return fact.outcome
    if any(isinstance(fact, Starting) for fact in facts):
        return Outcome("interrupted", None, "it has ended, and nobody knows how")
    return Outcome("unstarted", None, "it has not begun")

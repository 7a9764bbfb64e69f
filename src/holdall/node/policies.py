"""Policies on this host: read from their file, checked before anything uses them, and replaced as a whole.

A file is taken when all of it can be used: each time zone is known here, and each condition has been compiled and tried once
in a child process within 2 s of processor time. Else the error says why, and whoever holds a policy keeps it.
Source: lease negotiation, sections 6.1 and 6.2.
"""

import datetime as dt
import json
import subprocess
import sys
import zoneinfo
from collections.abc import Sequence
from pathlib import Path

from holdall.model.errors import BadConfig
from holdall.policy.conditions import Asked, variables
from holdall.policy.reading import FILE_BYTES_MAX, parse_policy
from holdall.policy.rules import Agent, Expression, Now, Policy

CPU_S = 2
"""Processor time of one condition."""
WALL_S = 60
"""For all of a file together, when the machine is busy with other things."""
_SAMPLE = Agent(id="agent@host", affiliation="affiliation", groups=("group",), role="role")


class Moment:
    """One instant, as every time zone calls it. `at` without a zone of its own is in that of who reads it."""

    def __init__(self, at: dt.datetime | None = None) -> None:
        self._at = at

    def __call__(self, zone: str) -> Now:
        """Raises ValueError for a zone that this host doesn't know."""
        there = find_zone(zone)
        if self._at is None:
            at = dt.datetime.now(there)
        elif self._at.tzinfo is None:
            at = self._at
        else:
            at = self._at.astimezone(there)
        return Now(at.year, at.month, at.day, at.weekday(), at.hour, at.minute)


def find_zone(name: str) -> dt.tzinfo:
    """A time zone by its name (`Europe/Amsterdam`). Raises ValueError."""
    try:
        return dt.UTC if name == "UTC" else zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError):
        raise ValueError(name) from None


def load_policy(path: Path) -> Policy:
    """The policy in a file, checked. Raises BadConfig with file, rule and what to write; nothing is changed by it."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadConfig(f"can't read {path}: {error.strerror}. Check the path and its permissions.") from None
    if len(raw) > FILE_BYTES_MAX:
        raise BadConfig(f"{path} is too long; at most {FILE_BYTES_MAX:,} bytes are read.")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BadConfig(f"{path} is not UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    return checked(parse_policy(text, name=str(path)))


def checked(policy: Policy) -> Policy:
    """The same, when its zones are known and its conditions end. Raises BadConfig."""
    lines = {rule.name: rule.line for rule in policy.rules}

    def where(rule: str) -> str:
        return f'{policy.name}:{lines[rule]}: [[rule]] "{rule}"'

    conditions = policy.conditions()
    for rule, _, condition in conditions:
        try:
            find_zone(condition.zone)
        except ValueError:
            shown = condition.zone[:60]
            raise BadConfig(
                f'{where(rule)} zone = "{shown}" is not known here; write e.g. "Europe/Amsterdam" or "UTC"'
            ) from None
    if problem := try_conditions([condition for _, _, condition in conditions]):
        at, why = problem
        rule, field, _ = conditions[at]
        raise BadConfig(f"{where(rule)} {field} {why}")
    return policy


def try_conditions(conditions: Sequence[Expression], *, cpu_s: float = CPU_S) -> tuple[int, str] | None:
    """The first that can't be used, and why; None: all can. They run in a child process that is ended when they don't."""
    if not conditions:
        return None
    moment, asked = Moment(), Asked({"term": 1}, 60_000)
    tries = [{"text": one.text, "variables": variables(one, _SAMPLE, asked, moment)} for one in conditions]
    child = [sys.executable, "-m", "holdall.node.policy_child"]
    try:
        ran = subprocess.run(
            child,
            input=json.dumps({"cpu_s": cpu_s, "tries": tries}).encode(),
            capture_output=True,
            timeout=WALL_S,
            check=False,
        )
        output, error = ran.stdout, ran.stderr
    except subprocess.TimeoutExpired as late:
        output, error = late.stdout or b"", b""
    lines = [json.loads(line) for line in output.splitlines() if line.endswith(b"}")]
    for line in lines:
        if "problem" in line:
            return line["at"], line["problem"]
    if lines and "done" in lines[-1]:
        return None
    if not lines:
        last = error.decode(errors="replace").strip().rpartition("\n")[2]
        raise BadConfig(last.partition("BadConfig: ")[2] or f"conditions can't be tried: {last}")
    return lines[-1]["at"], f"takes longer than {cpu_s:g} s, or too much memory; write it without loops"


class PolicyKeeper:
    """The policy that is in force. A file that can't be used leaves it as it is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.policy = load_policy(path)

    def reload(self) -> Policy:
        """Read the file again; the new policy is in force when this returns. Raises BadConfig, and the old one stays."""
        self.policy = load_policy(self._path)
        return self.policy

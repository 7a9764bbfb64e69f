"""Several real parties contend for three pools of a real node; one is killed; everything is shown as it happens.

Started by ./demo. Nothing in it is staged: `holdall serve` and `holdall run` are the installed commands, the kill is
`kill -9`, and at the end the recorded histories go to `holdall check`. Ends with 0 only if what it shows is what
holdall promises, and leaves no process and no file behind.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOLDALL = (sys.executable, "-m", "holdall.cli")
POOLS: Mapping[str, Sequence[str]] = {
    "board": ("board-1", "board-2"),
    "psu": ("psu-1", "psu-2", "psu-3"),
    "bench": ("bench-1",),
}
SECONDS_MAX = 50.0
"""The whole demonstration gives up after this long, so that it ends within a minute."""

COLOURS = {"node": 2, "ann": 36, "bob": 33, "cem": 35, "dia": 34, "demo": 1, "kill": 31}

WORK = """
import json, os, signal, sys
units = {name[14:].lower(): text.split(",") for name, text in os.environ.items() if name.startswith("HOLDALL_UNITS_")}
fences = {pool: [int(one) for one in os.environ["HOLDALL_FENCE_" + pool.upper()].split(",")] for pool in units}
print("@" + json.dumps({pool: dict(zip(names, fences[pool])) for pool, names in sorted(units.items())}), flush=True)
signal.sigtimedwait([], float(sys.argv[1]))
"""
"""What each party runs: says which units it was given with which fences, then works for so many seconds."""

Holding = dict[str, int]
"""Unit -> fence."""


class Stage:
    """Where everything is told: one line each, with the time since the start and whose line it is."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self._lock = threading.Lock()
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def tell(self, who: str, text: str) -> None:
        """Print a line, or several that belong together."""
        shown = who if who in COLOURS else "demo"
        with self._lock:
            for line in text.splitlines():
                name = f"\033[{COLOURS[shown]}m{who:<5}\033[0m" if self._colour else f"{who:<5}"
                print(f"{self.now():5.1f} s  {name} {line}", flush=True)

    def wait_until(self, happened: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
        """Poll until it has happened; raise TimeoutError when it does not."""
        until = min(time.monotonic() + seconds, self.start + SECONDS_MAX)
        while not happened():
            if time.monotonic() > until:
                msg = f"did not happen in time: {what}"
                raise TimeoutError(msg)
            time.sleep(0.02)


@dataclass
class Party:
    """One `holdall run` with its command, and what was seen of it."""

    name: str
    needs: tuple[str, ...]
    task: str
    works_s: float
    story: str
    process: subprocess.Popen[str] | None = None
    asked_at: float = 0.0
    granted_at: float | None = None
    ended_at: float | None = None
    holding: Holding = field(default_factory=dict)

    def ask(self, stage: Stage, folder: Path, environment: Mapping[str, str]) -> None:
        """Start `holdall run` and tell its lines as they come."""
        needs = [word for need in self.needs for word in ("--need", need)]
        command = [*HOLDALL, "run", *needs, "--wait", "40s", "--reason", self.task]
        command += ["--history", str(folder / f"{self.name}.jsonl"), "--"]
        command += [sys.executable, "-c", WORK, str(self.works_s)]
        stage.tell(self.name, self.story)
        stage.tell(self.name, f'$ holdall run {" ".join(needs)} --reason "{self.task}" -- …')
        self.asked_at = stage.now()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, "HOLDALL_AGENT": self.name},
        )
        for stream in (self.process.stdout, self.process.stderr):
            threading.Thread(target=self._follow, args=(stage, stream), daemon=True).start()

    def _follow(self, stage: Stage, stream: "Iterator[str]") -> None:
        for line in stream:
            if line.startswith("@"):
                self.granted_at = stage.now()
                pools: dict[str, Holding] = json.loads(line[1:])
                self.holding = {unit: fence for units in pools.values() for unit, fence in units.items()}
            elif line.strip():
                stage.tell(self.name, line.rstrip())

    def over(self, stage: Stage) -> bool:
        """Whether `holdall run` has ended."""
        if self.process is None or self.process.poll() is None:
            return False
        if self.ended_at is None:
            self.ended_at = stage.now()
        return True


PARTIES = (
    Party(
        "ann",
        ("board:1", "psu:2"),
        "soak test",
        works_s=600,
        story="takes one board and two supplies, and would keep them for ten minutes",
    ),
    Party(
        "bob",
        ("board:2", "psu:1"),
        "nightly on all boards",
        works_s=4,
        story="wants both boards: waits for ann, and holds nothing meanwhile",
    ),
    Party(
        "cem",
        ("psu:1", "bench:1"),
        "calibration",
        works_s=5,
        story="wants the last supply: may pass bob, who can't start now anyway; this is counted",
    ),
    Party(
        "dia",
        ("psu:2", "board:1"),
        "firmware check",
        works_s=2,
        story="names its needs in the other order than ann: no deadlock, it waits behind bob",
    ),
)


def main() -> int:
    """Play it; the exit status says whether everything was as promised."""
    stage = Stage()
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="hd-demo-"))
    url = f"unix://{folder}/state/holdall.sock"
    environment = {
        **os.environ,
        "HOLDALL_URL": url,
        "HOLDALL_RUN_DIR": f"{folder}/run",
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }
    environment.pop("HOLDALL_LEASE", None)
    node: subprocess.Popen[str] | None = None
    status = 1
    try:
        write_history_head(folder)
        node = start_node(stage, folder, environment)
        play(stage, folder, environment)
        summary(stage)
        judge(stage, folder, environment)
        status = 0
    except (TimeoutError, KeyboardInterrupt, RuntimeError) as trouble:
        stage.tell("demo", f"FAILED: {trouble!s}")
        log = folder / "node.log"
        if log.exists():
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            stage.tell("node", "\n".join(lines[-30:]))
    finally:
        left = end_everything(stage, node, url)
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if left else status


def start_node(stage: Stage, folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """`holdall serve` with three pools; returns when its socket answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    lines = ["[node]", 'name = "demo-host"', f'listen = "127.0.0.1:{port}"', f'state = "{folder}/state"']
    for pool, units in POOLS.items():
        lines += ["", "[[pool]]", f'name = "{pool}"', f"units = {json.dumps(list(units))}"]
    config = folder / "holdall.toml"
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for pool, units in POOLS.items():
        stage.tell("demo", f"pool {pool:<6} {' · '.join(units)}")
    stage.tell("node", "$ holdall serve holdall.toml --new")
    with (folder / "node.log").open("w", encoding="utf-8") as log:
        node = subprocess.Popen(
            [*HOLDALL, "serve", str(config), "--new"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            text=True,
            env=dict(environment),
        )

    def ready() -> bool:
        if node.poll() is not None:
            msg = f"the node ended with status {node.returncode}"
            raise RuntimeError(msg)
        with socket.socket(socket.AF_UNIX) as knock, contextlib.suppress(OSError):
            knock.connect(str(folder / "state" / "holdall.sock"))
            return True
        return False

    stage.wait_until(ready, "the node answers")
    stage.tell("node", "is up")
    return node


def play(stage: Stage, folder: Path, environment: Mapping[str, str]) -> None:
    """Ann holds; bob wants all boards; cem passes bob; dia comes last, in the opposite order; ann is killed."""
    ann, bob, cem, dia = PARTIES
    ann.ask(stage, folder, environment)
    stage.wait_until(lambda: bool(ann.holding), "ann is granted")
    bob.ask(stage, folder, environment)
    stage.wait_until(lambda: "bob" in waiting(environment), "bob waits")
    cem.ask(stage, folder, environment)
    stage.wait_until(lambda: bool(cem.holding), "cem is granted, before bob, because bob can't start now")
    dia.ask(stage, folder, environment)
    stage.wait_until(lambda: "dia" in waiting(environment), "dia waits")
    look(stage, environment, "who")
    claim = waiting(environment)["bob"]
    look(stage, environment, "why", f"{claim[:4]}-{claim[4:6]}")
    stage.wait_until(lambda: cem.over(stage), "cem is done")
    kill(stage, folder, ann)
    stage.wait_until(lambda: bool(bob.holding), "bob is granted")
    lowest = {unit: fence for unit, fence in ann.holding.items() if unit in bob.holding}
    for unit, fence in lowest.items():
        if bob.holding[unit] <= fence:
            msg = f"{unit} went to bob with fence {bob.holding[unit]}, not above ann's {fence}"
            raise RuntimeError(msg)
    stage.wait_until(lambda: bob.over(stage) and dia.over(stage), "bob and dia are done")


def waiting(environment: Mapping[str, str]) -> dict[str, str]:
    """Party -> claim id, of all who wait now."""
    answer = json.loads(holdall(environment, "queue", "--json"))
    rows: list[dict[str, Any]] = answer["waiting"]
    return {str(row["holder"]).partition("@")[0]: str(row["claim"]) for row in rows}


def look(stage: Stage, environment: Mapping[str, str], *command: str) -> None:
    """Show what a person would see who asks now."""
    stage.tell("demo", f"$ holdall {' '.join(command)}")
    stage.tell("demo", holdall(environment, *command))


def holdall(environment: Mapping[str, str], *command: str) -> str:
    """What a command prints on standard output. Raises RuntimeError with its message if it fails."""
    ended = subprocess.run(
        [*HOLDALL, *command], capture_output=True, text=True, check=False, env=dict(environment), timeout=20
    )
    if ended.returncode:
        msg = f"holdall {command[0]} ended with {ended.returncode}: {ended.stderr.strip()}{ended.stdout.strip()}"
        raise RuntimeError(msg)
    return ended.stdout


def kill(stage: Stage, folder: Path, party: Party) -> None:
    """`kill -9` of the party's `holdall run`: nobody is left to say goodbye, only its guardian."""
    if party.process is None:
        return
    stage.tell(
        "kill", f"$ kill -9 {party.process.pid}    ({party.name}'s holdall run; nothing of it can react)"
    )
    note_crash(folder, party)
    party.process.kill()
    party.process.wait()
    party.over(stage)
    stage.tell("kill", "its guardian stops the command now; only then the units are free")


def summary(stage: Stage) -> None:
    """Who got which units with which fence, who was killed, and when its units were granted again."""
    ann = PARTIES[0]
    lines = ["", "party  started  held after  held for  units and fences"]
    for party in sorted(PARTIES, key=lambda one: one.granted_at or SECONDS_MAX):
        granted_at, ended_at = party.granted_at or 0.0, party.ended_at or 0.0
        units = " · ".join(f"{unit} fence {fence}" for unit, fence in party.holding.items())
        ending = "   <- killed" if party is ann else ""
        lines.append(
            f"{party.name:<6} {party.asked_at:5.1f} s {granted_at - party.asked_at:9.1f} s"
            f" {ended_at - granted_at:8.1f} s   {units}{ending}"
        )
    lines.append("")
    for unit, fence in ann.holding.items():
        later = [one for one in PARTIES if one is not ann and (one.granted_at or 0) > (ann.ended_at or 0)]
        heirs = sorted((one for one in later if unit in one.holding), key=lambda one: one.granted_at or 0)
        for heir in heirs[:1]:
            after = (heir.granted_at or 0) - (ann.ended_at or 0)
            lines.append(
                f"{unit}: ann held it with fence {fence} and was killed at {ann.ended_at:.1f} s;"
                f" granted to {heir.name} {after:.1f} s later with fence {heir.holding[unit]}"
            )
    stage.tell("demo", "\n".join(line or " " for line in lines))


def write_history_head(folder: Path) -> None:
    """What the judge must know of the world: the pools."""
    pools = {pool: {"units": list(units)} for pool, units in POOLS.items()}
    (folder / "driver.jsonl").write_text(json.dumps({"t": "meta", "pools": pools}) + "\n", encoding="utf-8")


def note_crash(folder: Path, party: Party) -> None:
    """Whoever is killed can't record its end, so the one who kills does, before it does."""
    first = (folder / f"{party.name}.jsonl").read_text(encoding="utf-8").splitlines()[0]
    crash = {"t": "crash", "client": json.loads(first)["client"], "at": time.monotonic_ns()}
    with (folder / "driver.jsonl").open("a", encoding="utf-8") as driver:
        driver.write(json.dumps(crash) + "\n")


def judge(stage: Stage, folder: Path, environment: Mapping[str, str]) -> None:
    """Give the recorded histories to `holdall check`. Raises RuntimeError with its findings."""
    histories = sorted(str(path) for path in folder.glob("*.jsonl"))
    stage.tell("demo", "$ holdall check *.jsonl")
    stage.tell("demo", holdall(environment, "check", *histories))
    stage.tell(
        "demo", "as promised: nobody held half of what they need, nobody shared a unit, fences only grew"
    )


def end_everything(stage: Stage, node: subprocess.Popen[str] | None, url: str) -> list[int]:
    """End parties and node, wait for them; kill and return what of this demonstration is left all the same."""
    for process in [*(party.process for party in PARTIES), node]:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=8)
            if process.poll() is None:
                process.kill()
                process.wait()
    until = time.monotonic() + 8
    while (left := processes_of(url)) and time.monotonic() < until:
        time.sleep(0.05)
    for process_id in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)
        stage.tell("demo", f"FAILED: process {process_id} was left running; it is killed now")
    if not left:
        stage.tell("demo", "nothing is left running")
    return left


def processes_of(url: str) -> list[int]:
    """Other processes that inherited this demonstration's HOLDALL_URL."""
    wanted = f"HOLDALL_URL={url}".encode()
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


if __name__ == "__main__":
    sys.exit(main())

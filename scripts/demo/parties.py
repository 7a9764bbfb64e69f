"""The parties: some run one command with what they need, some are programs that claim again and again."""

import json
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scripts.demo.lab import HOLDALL, Lab
from scripts.demo.stage import Stage

WORK = """
import json, os, signal, sys
lease = json.load(open(os.environ["HOLDALL_LEASE_FILE"]))
print("@" + json.dumps([[unit["node"], unit["name"], unit["fence"]] for unit in lease["units"]]), flush=True)
signal.sigtimedwait([], float(sys.argv[1]))
"""
"""What each command does: says which units it was given with which fences, then works for so many seconds."""

Holding = dict[tuple[str, str], int]
"""Node and unit -> fence."""


@dataclass
class Party(ABC):
    """One process that claims: `holdall run`, or a program. What was seen of it."""

    name: str
    node: str
    needs: tuple[str, ...]
    story: str
    process: subprocess.Popen[str] | None = None
    asked_at: float = 0.0
    granted_at: list[float] = field(default_factory=list)
    ended_at: float | None = None
    killed: bool = False
    holding: Holding = field(default_factory=dict)
    """What it was granted last."""

    @abstractmethod
    def command(self, history: Path) -> Sequence[str]:
        """What is started, and records to `history`."""

    @abstractmethod
    def shown(self) -> str:
        """The same for people."""

    def ask(self, lab: Lab) -> None:
        """Start it, in a session of its own, and tell its lines as they come."""
        lab.stage.tell(self.name, f"at {self.node}: {self.story}")
        lab.stage.tell(self.name, self.shown())
        self.asked_at = lab.stage.now()
        self.process = subprocess.Popen(
            self.command(history_of(lab.folder, self.name)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**lab.at(self.node), "HOLDALL_AGENT": self.name},
            start_new_session=True,
        )
        for stream in (self.process.stdout, self.process.stderr):
            threading.Thread(target=self._follow, args=(lab.stage, stream), daemon=True).start()

    def _follow(self, stage: Stage, stream: "Iterator[str]") -> None:
        for line in stream:
            if line.startswith("@"):
                units: list[tuple[str, str, int]] = json.loads(line[1:])
                self.holding = {(node, unit): fence for node, unit, fence in sorted(units)}
                self.granted_at.append(stage.now())
            elif line.strip():
                stage.tell(self.name, line.rstrip())

    def held(self) -> str:
        """Units with their fences, by node: `lab-1 board-1#3, lab-2 psu-1#4 psu-2#5`."""
        by_node: dict[str, list[str]] = {}
        for (node, unit), fence in self.holding.items():
            by_node.setdefault(node, []).append(f"{unit}#{fence}")
        return ", ".join(" ".join((node, *units)) for node, units in by_node.items())

    def over(self, stage: Stage) -> bool:
        """Whether its process has ended. Raises RuntimeError when it has failed."""
        if self.process is None or self.process.poll() is None:
            return False
        if self.ended_at is None:
            self.ended_at = stage.now()
        if self.process.returncode and not self.killed:
            raise RuntimeError(f"{self.name} ended with status {self.process.returncode}")
        return True

    def kill(self, lab: Lab) -> None:
        """`kill -9`: nobody is left to say goodbye, only the guardian of a command."""
        if self.process is None:
            return
        self.killed = True
        lab.stage.tell("kill", f"$ kill -9 {self.process.pid}    ({self.name}'s holdall run; it can't react)")
        note_crash(lab.folder, self.name)
        self.process.kill()
        self.process.wait()
        self.over(lab.stage)
        lab.stage.tell("kill", "its guardian stops the command now; only then the units are free")

    def end(self) -> None:
        """TERM, time to end in order, then KILL. Does nothing when it has ended."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=8)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class Runner(Party):
    """`holdall run` with a command that works for a while."""

    task: str = ""
    works_s: float = 1.0

    def command(self, history: Path) -> Sequence[str]:
        needs = [word for need in self.needs for word in ("--need", need)]
        options = ["--wait", "40s", "--reason", self.task, "--history", str(history)]
        return [*HOLDALL, "run", *needs, *options, "--", sys.executable, "-c", WORK, str(self.works_s)]

    def shown(self) -> str:
        needs = " ".join(f"--need {need}" for need in self.needs)
        return f'$ holdall run {needs} --reason "{self.task}" -- …'


@dataclass
class Stream(Party):
    """A Python program that claims, works a moment, gives back, and claims again, until it is told to end."""

    def command(self, history: Path) -> Sequence[str]:
        program = Path(__file__).with_name("stream.py")
        return [sys.executable, str(program), str(history), *self.needs]

    def shown(self) -> str:
        needs = ", ".join(f'"{need}"' for need in self.needs)
        return f"a Python program: with hub.lease({needs}): …   again and again"


def history_of(folder: Path, name: str) -> Path:
    """Where a party records what it asked for and what it got."""
    return folder / f"{name}.jsonl"


def note_crash(folder: Path, name: str) -> None:
    """Whoever is killed can't record its end, so the one who kills does, before it does."""
    first = history_of(folder, name).read_text(encoding="utf-8").splitlines()[0]
    note(folder, {"t": "crash", "client": json.loads(first)["client"], "at": time.monotonic_ns()})


def note(folder: Path, line: Mapping[str, object]) -> None:
    """Append a line to what the demonstration itself records for the judge."""
    with history_of(folder, "driver").open("a", encoding="utf-8") as driver:
        driver.write(json.dumps(line) + "\n")

"""Many clients contend on one node while clients are killed and paused and the node is killed and restarted.

Everything is recorded; what it proves is for `holdall check` to say. The order of the faults follows a seed; the
interleaving is the machine's.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from node.lab import Lab
from system.guarded_units import GuardedUnits
from system.stress_worker import Orders, needs_of

import holdall
from holdall.client.history import HistoryWriter, UnitNames
from holdall.model import frames
from holdall.model.errors import HoldallError

POOLS: Mapping[str, int] = {"bench": 3, "board": 4, "gpu": 2, "port": 5, "psu": 3, "scope": 2}
NODE = "stress"
TTL_S = 4.0
RUN_TTL_S = 12.0
"""Shorter than this a command's lease cannot be: it must have time to end."""

WAIT = "5m"
NO_NODE, LEASE_LOST = 69, 79
"""Statuses of `holdall run` when it came while the node was dead, and when a pause cost it its lease."""

CONFIG = """
[node]
name = "{node}"
listen = "off"

[defaults]
ttl = "{ttl}s"
ttl_max = "60s"
margin = "50ms"
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how rough a run is."""

    seed: int
    claims: int
    processes: int = 20
    commands: int = 3
    """So many of the processes are rows of `holdall run`, the others use the Python client."""
    claims_of_command: int = 2
    """So many claims each of the rows makes: each is a new Python process."""
    hold_ms: int = 120
    kill_every_s: tuple[float, float] = (0.6, 2.0)
    pause_every_s: tuple[float, float] = (0.8, 2.5)
    pause_for_s: tuple[float, float] = (0.2, 2 * TTL_S)
    node_kill_every_s: tuple[float, float] = (3.0, 6.0)
    node_away_s: tuple[float, float] = (0.0, 1.5)
    audit_every_s: tuple[float, float] = (0.5, 1.0)
    end_within_s: float = 600.0


@dataclass(slots=True)
class Place:
    """One of the processes; when it is killed another one takes its place and makes the claims that are left."""

    number: int
    is_command: bool
    left: int
    lives: int = 0
    name: str = ""
    process: subprocess.Popen[bytes] | None = None
    paused_since: int | None = None
    resume_at: float = 0.0


@dataclass(slots=True)
class _Fault:
    """Something that is done again and again; not while the node is dead."""

    happen: Callable[[], None]
    every_s: tuple[float, float]
    due: float = 0.0


@dataclass(slots=True)
class Outcome:
    """What the driver saw; `problems` is empty after a run that went as promised."""

    histories: list[Path]
    node_kills: int = 0
    kills: int = 0
    pauses: int = 0
    problems: list[str] = field(default_factory=list[str])


class Stress:
    """One run in one folder (with a short name: there are sockets in it)."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.chance = random.Random(plan.seed)
        self.lab = Lab(folder)
        pools = "".join(
            f'\n[[pool]]\nname = "{pool}"\nunits = {json.dumps(units_of(pool))}\n' for pool in POOLS
        )
        self.lab.configure(CONFIG.replace("{node}", NODE).replace("{ttl}", f"{TTL_S:g}") + pools)
        self.histories = folder / "histories"
        self.histories.mkdir()
        self.history = HistoryWriter(self.histories / "driver.jsonl", "driver")
        self.outcome = Outcome([])
        of_clients = plan.claims - plan.commands * plan.claims_of_command
        share, rest = divmod(of_clients, plan.processes - plan.commands)
        self.places = [
            Place(number, is_command=True, left=plan.claims_of_command)
            if number < plan.commands
            else Place(number, is_command=False, left=share + (number - plan.commands < rest))
            for number in range(plan.processes)
        ]
        self.node_dead_since: int | None = None
        self.node_starts_at = 0.0
        self.node_kill = _Fault(self._kill_node, plan.node_kill_every_s)

    @property
    def url(self) -> str:
        return f"unix://{self.lab.socket}"

    def run(self) -> Outcome:
        self.history.meta(
            {pool: UnitNames([f"{unit}@{NODE}" for unit in units_of(pool)]) for pool in POOLS}, max_wait="60s"
        )
        units = GuardedUnits(self.lab.folder / "units.sock", self.histories / "units.jsonl")
        units.start()
        self.lab.start("--new")
        try:
            self._disturb()
            self._settle()
        finally:
            for place in self.places:
                self._end(place)
            units.stop()
            self.lab.close()
            self.history.close()
        self.outcome.histories = sorted(self.histories.iterdir())
        return self.outcome

    # ------------------------------------------------------------ while it lasts

    def _disturb(self) -> None:
        """Faults at their times, until every claim was made."""
        plan, begun = self.plan, time.monotonic()
        faults = [
            _Fault(self._kill_client, plan.kill_every_s),
            _Fault(self._pause_client, plan.pause_every_s),
            self.node_kill,
            _Fault(self._audit, plan.audit_every_s),
        ]
        for fault in faults:
            fault.due = begun + self._drawn(fault.every_s)
        while any(place.left or place.process for place in self.places):
            if time.monotonic() > begun + plan.end_within_s:
                self.outcome.problems.append(f"not done within {plan.end_within_s:g} s")
                return
            self._keep_node()
            self._keep_places()
            for fault in faults:
                if fault.due <= time.monotonic() and self.node_dead_since is None:
                    fault.happen()
                    fault.due = time.monotonic() + self._drawn(fault.every_s)
            time.sleep(0.02)

    def _drawn(self, bounds: tuple[float, float]) -> float:
        return self.chance.uniform(*bounds)

    def _keep_places(self) -> None:
        """Take note of who has finished; start who has claims left."""
        for place in self.places:
            if place.process is not None and place.process.poll() is not None:
                self._finished(place, place.process.returncode)
            if place.process is None and place.left > 0 and self.node_dead_since is None:
                self._start(place)
            if place.paused_since is not None and place.resume_at <= time.monotonic():
                self._go_on(place)

    def _start(self, place: Place) -> None:
        place.lives += 1
        place.name = f"{'run' if place.is_command else 'sdk'}{place.number}.{place.lives}"
        history = self._history_of(place)
        errors = (self.lab.folder / f"{place.name}.err").open("wb")
        command = self._run_command(place, history) if place.is_command else self._worker(place, history)
        # Who is killed leaves his temporary files behind: they go with the run's folder.
        environment = {
            **os.environ,
            "HOLDALL_URL": self.url,
            "HOLDALL_AGENT": place.name,
            "TMPDIR": str(self.lab.folder),
        }
        with errors:
            place.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
            )

    def _worker(self, place: Place, history: Path) -> list[str]:
        orders = Orders(
            name=place.name,
            url=self.url,
            history=str(history),
            guard=str(self.lab.folder / "units.sock"),
            claims=place.left,
            seed=f"{self.plan.seed} {place.name}",
            pools=dict(POOLS),
            ttl=f"{TTL_S:g}s",
            wait=WAIT,
            hold_ms=self.plan.hold_ms,
        )
        script = Path(__file__).with_name("stress_worker.py")
        return [sys.executable, str(script), msgspec.json.encode(orders).decode()]

    def _run_command(self, place: Place, history: Path) -> list[str]:
        needs = needs_of(random.Random(f"{self.plan.seed} {place.name}"), dict(POOLS))
        options = [word for need in needs for word in ("--need", need)]
        options += [
            "--wait",
            WAIT,
            "--ttl",
            f"{RUN_TTL_S:g}s",
            "--history",
            str(history),
            "--reason",
            "stress",
        ]
        return [
            sys.executable,
            "-m",
            "holdall.cli",
            "run",
            *options,
            "--",
            "sleep",
            f"{self.plan.hold_ms / 1000}",
        ]

    def _history_of(self, place: Place) -> Path:
        return self.histories / f"{place.name}.jsonl"

    def _finished(self, place: Place, status: int) -> None:
        """It ended by itself, or we killed it."""
        place.process = None
        path = self._history_of(place)
        made = path.read_bytes().count(b'"t":"claim"') if path.exists() else 0
        place.left -= made
        if status == -signal.SIGKILL or (place.is_command and status in {0, NO_NODE, LEASE_LOST}):
            return
        if status != 0 or made == 0:
            said = (self.lab.folder / f"{place.name}.err").read_text()[-2000:]
            self.outcome.problems.append(f"{place.name} ended with {status}: {said}")
            place.left = 0

    # ------------------------------------------------------------ faults

    def _victim(self) -> Place | None:
        running = [place for place in self.places if place.process is not None and place.paused_since is None]
        running = [place for place in running if self._history_of(place).exists()]
        return self.chance.choice(running) if running else None

    def _kill_client(self) -> None:
        """Stopped first, so that it says nothing after the line about its end."""
        place = self._victim()
        if place is None or not self._stop(place):
            return
        self.history.crash(place.name)
        assert place.process is not None
        place.process.kill()
        place.process.wait()
        self.outcome.kills += 1

    def _pause_client(self) -> None:
        place = self._victim()
        if place is None:
            return
        since = self.history.now()
        if self._stop(place):
            place.paused_since = since
            place.resume_at = time.monotonic() + self._drawn(self.plan.pause_for_s)
            self.outcome.pauses += 1

    def _stop(self, place: Place) -> bool:
        """True when it is stopped, every thread of it; False when it has ended meanwhile."""
        assert place.process is not None
        place.process.send_signal(signal.SIGSTOP)
        while place.process.poll() is None:
            states = {
                stat.read_text().rpartition(")")[2].split()[0] for stat in self._threads(place.process.pid)
            }
            if states <= {"T", "t"}:
                return True
            time.sleep(0.001)
        return False

    @staticmethod
    def _threads(process: int) -> Iterator[Path]:
        with contextlib.suppress(FileNotFoundError):
            for thread in Path(f"/proc/{process}/task").iterdir():
                yield thread / "stat"

    def _go_on(self, place: Place) -> None:
        if place.process is not None and place.paused_since is not None:
            place.process.send_signal(signal.SIGCONT)
            end = self.history.now()
            self.history.fault("pause", start=place.paused_since, end=end, excuse=True, client=place.name)
        place.paused_since = None

    def _kill_node(self) -> None:
        """Clients live through it; the time without a node is no fault of anybody's."""
        self.node_dead_since = self.history.now()
        self.node_starts_at = time.monotonic() + self._drawn(self.plan.node_away_s)
        self.lab.kill()
        self.outcome.node_kills += 1

    def _keep_node(self) -> None:
        """Start it when its time has come; take note when it serves."""
        if self.node_dead_since is None:
            return
        if self.lab.process is None:
            if time.monotonic() >= self.node_starts_at:
                self.lab.begin()
        elif self.lab._serves():
            self.history.fault("node-kill", start=self.node_dead_since, end=self.history.now(), excuse=True)
            self.node_dead_since = None
            self.node_kill.due = time.monotonic() + self._drawn(self.node_kill.every_s)

    # ------------------------------------------------------------ the product's own books

    def _pools(self) -> tuple[int, tuple[frames.PoolRow, ...]]:
        call = self.history.now()
        with holdall.sync.connect(self.url, agent="driver") as hub:
            return call, hub.pools()

    def _audit(self) -> None:
        call, rows = self._pools()
        for row in rows:
            self._audited(row, call, quiesced=False)

    def _audited(self, row: frames.PoolRow, call: int, *, quiesced: bool) -> None:
        self.history.audit(
            row.pool,
            call=call,
            total=row.total,
            free=row.free,
            held=row.held + row.unusable,
            fences={f"{unit.unit}@{row.node}": unit.fence for unit in row.units},
            quiesced=quiesced,
        )

    def _settle(self) -> None:
        """Nobody holds or asks any more: within two lives of a lease every unit is free."""
        while self.node_dead_since is not None:
            self._keep_node()
            time.sleep(0.02)
        end = time.monotonic() + 2 * RUN_TTL_S + 10
        call, rows = self._pools()
        while any(row.free < row.total for row in rows) and time.monotonic() < end:
            time.sleep(0.1)
            call, rows = self._pools()
        for row in rows:
            self._audited(row, call, quiesced=True)
            if row.free < row.total or row.waiting:
                self.outcome.problems.append(f"at the end {row}")
        if {row.pool: row.total for row in rows} != dict(POOLS):
            self.outcome.problems.append(f"at the end there are {rows}")
        with holdall.sync.connect(self.url, agent="driver") as hub:
            left = [*hub.who(), *hub.queue()]
        if left:
            self.outcome.problems.append(f"at the end there are {left}")
        self.history.end()

    def _end(self, place: Place) -> None:
        if place.process is not None:
            with contextlib.suppress(HoldallError, ProcessLookupError):
                place.process.kill()
            place.process.wait()


def units_of(pool: str) -> list[str]:
    return [f"{pool}-{number}" for number in range(1, POOLS[pool] + 1)]

"""The clients of a run: processes on all hosts that claim again and again, are killed and stopped, and replaced.

Most of them use `holdall.sync`, some are `holdall run`. What each lives through is in its own history; what was done to
it is said by the driver's.
"""

import contextlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from chaos.hosts import HOLDALL, Host
from chaos.processes import children_of, command_of, halt, is_alive, send
from system import stress_worker
from system.stress_worker import Orders, needs_of

from holdall.client.history import HistoryWriter

WAIT = "5m"
NO_NODE, LEASE_LOST = 69, 79
"""Statuses of `holdall run` when it came while its node was dead, and when a fault cost it its lease."""


@dataclass(slots=True)
class Place:
    """One of the processes; when it has ended another one takes its place and makes the claims that are left."""

    number: int
    host: Host
    is_command: bool
    left: int
    lives: int = 0
    name: str = ""
    process: subprocess.Popen[bytes] | None = None
    stopped: bool = False
    hit: bool = False
    """Something was done to it that lets it end in another way than usual."""


@dataclass(frozen=True, slots=True)
class Manners:
    """How clients claim."""

    ttl_s: float
    run_ttl_s: float
    hold_ms: int
    pools: Mapping[str, int]
    two_pools: bool = False


class Crowd:
    """All places; `begin` and `take_note` are called again and again by the driver."""

    def __init__(
        self, places: Sequence[Place], manners: Manners, folder: Path, driver: HistoryWriter, seed: int
    ) -> None:
        self.places = places
        self.manners = manners
        self.folder = folder
        self.histories = folder / "histories"
        self.guard = folder / "units.sock"
        self.driver = driver
        self.seed = seed
        self.problems: list[str] = []
        self._grants, self._count_at = 0, 0.0
        self.of_host: dict[str, str] = {}
        """Host of each client, by the client's name in the history."""

    # ------------------------------------------------------------ while it lasts

    def begin(self, place: Place) -> None:
        place.lives += 1
        place.stopped = place.hit = False
        place.name = f"{'run' if place.is_command else 'sdk'}{place.number}.{place.lives}"
        self.of_host[place.name] = place.host.name
        command = self._run_command(place) if place.is_command else self._worker(place)
        with self._errors_of(place).open("wb") as errors:
            place.process = subprocess.Popen(
                [*place.host.prefix, *command],
                env={**place.host.environment, "HOLDALL_AGENT": place.name},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )

    def take_note(self, place: Place) -> None:
        """Whether it has ended meanwhile, and how."""
        if place.process is None or place.process.poll() is None:
            return
        status = place.process.returncode
        place.process = None
        made = self._claims_made(place)
        place.left -= made
        if place.hit or status == 0 or (place.is_command and status in {NO_NODE, LEASE_LOST}):
            return
        said = self._errors_of(place).read_text(errors="replace")[-2000:]
        self.problems.append(f"{place.name} ended with {status} after {made} claims: {said}")
        place.left = 0

    def busy(self) -> list[Place]:
        return [place for place in self.places if place.process is not None]

    def _worker(self, place: Place) -> list[str]:
        orders = Orders(
            name=place.name,
            url=place.host.url,
            history=str(self._history_of(place)),
            guard=str(self.guard),
            claims=place.left,
            seed=f"{self.seed} {place.name}",
            pools=dict(self.manners.pools),
            ttl=f"{self.manners.ttl_s:g}s",
            wait=WAIT,
            hold_ms=self.manners.hold_ms,
            two_pools=self.manners.two_pools,
        )
        return [sys.executable, str(stress_worker.__file__), msgspec.json.encode(orders).decode()]

    def _run_command(self, place: Place) -> list[str]:
        chance = random.Random(f"{self.seed} {place.name}")
        needs = needs_of(chance, dict(self.manners.pools), two_pools=self.manners.two_pools)
        options = [word for need in needs for word in ("--need", need)]
        options += ["--wait", WAIT, "--ttl", f"{self.manners.run_ttl_s:g}s", "--reason", "chaos"]
        options += ["--history", str(self._history_of(place))]
        return [*HOLDALL, "run", *options, "--", "sleep", f"{self.manners.hold_ms / 1000}"]

    def _history_of(self, place: Place) -> Path:
        return self.histories / f"{place.name}.jsonl"

    def _errors_of(self, place: Place) -> Path:
        return self.folder / f"{place.name}.err"

    def _claims_made(self, place: Place) -> int:
        path = self._history_of(place)
        return path.read_bytes().count(b'"t":"claim"') if path.exists() else 0

    def grants(self) -> int:
        """How many are recorded so far; counted anew once a second."""
        if time.monotonic() >= self._count_at:
            self._grants = sum(path.read_bytes().count(b'"t":"grant"') for path in self.histories.iterdir())
            self._count_at = time.monotonic() + 1.0
        return self._grants

    # ------------------------------------------------------------ what is done to them

    def victims(self) -> list[Place]:
        """Those that have begun to claim, and are not stopped."""
        return [place for place in self.busy() if not place.stopped and self._history_of(place).exists()]

    def kill(self, place: Place) -> bool:
        """Stopped first, so that it says nothing after the line about its end. False: it had ended by itself."""
        assert place.process is not None
        if not place.stopped and not halt(place.process.pid):
            return False
        self.driver.crash(place.name)
        place.hit = True
        place.process.kill()
        place.process.wait()
        self.take_note(place)
        return True

    def kill_below(self, place: Place, chance: random.Random) -> str:
        """Of a `holdall run`: its guardian or its command. Returns which; empty when there is neither yet."""
        assert place.process is not None
        guardians = [pid for pid in children_of(place.process.pid) if "holdall.guardian" in command_of(pid)]
        below = [("guardian", pid) for pid in guardians]
        below += [("command", pid) for guardian in guardians for pid in children_of(guardian)]
        if not below:
            return ""
        what, pid = chance.choice(below)
        place.hit = True
        return what if send(pid, signal.SIGKILL) else ""

    def halt(self, place: Place) -> bool:
        assert place.process is not None
        place.stopped = halt(place.process.pid)
        return place.stopped

    def go_on(self, place: Place, process: "subprocess.Popen[bytes]") -> None:
        """Only if that process is still there: it may have been killed while it was stopped."""
        if place.process is process:
            process.send_signal(signal.SIGCONT)
            place.stopped = False

    # ------------------------------------------------------------ the end

    def ask_to_end(self) -> None:
        """Everybody ends after the claim that it has made."""
        for place in self.places:
            place.left = 0
            if place.process is not None and not place.is_command:
                # Who has not begun yet has no handler for it either.
                place.hit = place.hit or not self._history_of(place).exists()
                place.process.send_signal(signal.SIGTERM)

    def ended_within(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self.busy() and time.monotonic() < end:
            for place in self.places:
                self.take_note(place)
                place.left = 0
            time.sleep(0.05)
        return not self.busy()

    def close(self) -> None:
        for place in self.busy():
            assert place.process is not None
            with contextlib.suppress(ProcessLookupError):
                place.process.kill()
            place.process.wait()


def commands_left(host: Host, pids: Sequence[int]) -> list[str]:
    """What still runs of these process ids of a host."""
    return [f"{host.name}: {pid} {command_of(pid)}" for pid in pids if is_alive(pid)]

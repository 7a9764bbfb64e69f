"""`holdall demo`: a small lab in one process. Everything in it is real: node, socket, leases, a silent holder."""

import contextlib
import io
import itertools
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import holdall
from holdall.client.conversation import Conversation
from holdall.model import frames
from holdall.model.errors import HoldallError
from holdall.model.names import short_id
from holdall.model.spec import parse_needs
from holdall.node.boot import mark_as_new
from holdall.node.in_thread import ServiceThread
from holdall.node.paths import RUN_ENV

ROUND_SECONDS = 20.0
PARTING_SECONDS_MAX = 10.0
TTL_SECONDS = 3
CONFIG = """
[node]
name = "demo-lab"
listen = ""
state = "{state}"
[defaults]
ttl = "3s"
[[pool]]
name = "board"
units = ["board-1", "board-2"]
[[pool]]
name = "psu"
units = ["psu-1", "psu-2", "psu-3"]
[[pool]]
name = "scope"
units = ["scope-1"]
"""
AGENTS: tuple[tuple[str, tuple[str, ...], float], ...] = (
    ("ana", ("board:1", "psu:1"), 0.7),
    ("ben", ("board:1", "scope:1"), 0.9),
    ("chi", ("psu:2",), 0.6),
    ("dov", ("board:2", "psu:1", "scope:1"), 0.8),
    ("eva", ("scope:1", "psu:1"), 0.5),
    ("fay", ("board:1",), 1.1),
)


class Story:
    """Lines on the terminal, each with its time since the start, from many threads."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def tell(self, who: str, text: str, colour: int = 0) -> None:
        """One line; `colour` is an ANSI colour, used on a terminal only."""
        line = f"{time.monotonic() - self._start:6.2f} s  {who:<6} {text}"
        if self._colour and colour:
            line = f"\x1b[{colour}m{line}\x1b[0m"
        with self._lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


class Stopped(Exception):
    """A signal asked for the end: 130 and 143 are what a shell expects of such a program."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_status = 128 + number


class Stopping:
    """INT, TERM and HUP raise Stopped in here, once: another one must not leave half of the lab behind."""

    NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self._held = False
        self._asked: int | None = None
        self._earlier: list[Any] = []

    def __enter__(self) -> Self:
        self._earlier = [signal.signal(number, self._stop) for number in self.NUMBERS]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in zip(self.NUMBERS, self._earlier, strict=True):
            signal.signal(number, handler)

    @contextlib.contextmanager
    def held_back(self) -> Generator[None]:
        """Stopped comes after this: raised while a thread starts, it would leave a thread that nobody can wait for."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._asked is not None:
            raise Stopped(self._asked)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        for one in self.NUMBERS:
            signal.signal(one, signal.SIG_IGN)
        self._asked = number
        if not self._held:
            raise Stopped(number)


class Lab:
    """A node in a thread, with a state folder of its own that goes with it."""

    def __init__(self, stopping: Stopping) -> None:
        self.url = ""
        self._stopping = stopping
        self._folder = Path()
        self._earlier_run_folder = os.environ.get(RUN_ENV)
        self._service: ServiceThread | None = None

    def __enter__(self) -> Self:
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="holdall-demo-"))
            config = self._folder / "holdall.toml"
            config.write_text(CONFIG.format(state=self._folder / "state"), encoding="utf-8")
            mark_as_new(self._folder / "state")
            # With a run folder of its own too, nothing of an earlier demonstration speaks against small fences.
            os.environ[RUN_ENV] = str(self._folder / "run")
            # The node's log would stand in the middle of the story; what goes wrong is raised.
            self._service = ServiceThread(config, new=True, log_to=io.StringIO())
            with self._stopping.held_back():
                self.url = f"unix://{self._service.start()}"
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._service is not None:
            self._service.stop()
        if self._earlier_run_folder is None:
            os.environ.pop(RUN_ENV, None)
        else:
            os.environ[RUN_ENV] = self._earlier_run_folder
        if self._folder != Path():
            shutil.rmtree(self._folder, ignore_errors=True)


class Party(threading.Thread):
    """One of the six: asks for its units, holds them for a while, gives them back, again and again."""

    def __init__(
        self, url: str, name: str, needs: tuple[str, ...], hold: float, story: Story, over: threading.Event
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.problem: Exception | None = None
        """What ended it before its time."""
        self._url, self._needs, self._hold = url, needs, hold
        self._story, self._over = story, over

    def run(self) -> None:
        """Until it is over."""
        try:
            with holdall.sync.connect(self._url, agent=self.name) as hub:
                for number in itertools.count(1):
                    if self._over.is_set():
                        return
                    asked = time.monotonic()
                    with hub.lease(*self._needs, reason=f"round {number}") as lease:
                        text = f"holds {_units(lease)} after {time.monotonic() - asked:.2f} s"
                        self._story.tell(self.name, text, 32)
                        self._over.wait(self._hold)
        # Told by whoever waits for this thread.
        except Exception as problem:  # noqa: BLE001
            self.problem = problem


def run_demo() -> int:
    """Play it: 6 agents contend; one more falls silent while it holds; its units come back after its ttl.

    Returns the exit status. However it ends, no file, thread or socket of it is left.
    """
    try:
        with Stopping() as stopping, Lab(stopping) as lab:
            _play(lab.url, Story(), stopping)
    except Stopped as stopped:
        sys.stderr.write("\nstopped, and nothing is left of it\n")
        return stopped.exit_status
    sys.stdout.write(
        "\nnext      holdall init && holdall serve       your own pools\n"
        "          holdall run --need core:1 -- true   a command that holds a unit\n"
        "          holdall who                         who holds what\n"
    )
    return 0


def _play(url: str, story: Story, stopping: Stopping) -> None:
    story.tell("lab", "3 pools: board (2 units), psu (3), scope (1)")
    story.tell("lab", "6 agents want several units at once, each all or none")
    story.tell("lab", "psu-1#4 is unit psu-1 with fence 4: each holder's is higher")
    over = threading.Event()
    parties = [Party(url, name, needs, hold, story, over) for name, needs, hold in AGENTS]
    try:
        with stopping.held_back():
            for party in parties:
                party.start()
        _silent_holder(url, story)
        over.wait(ROUND_SECONDS / 4)
    finally:
        over.set()
        for party in parties:
            if party.ident is not None:
                party.join(timeout=PARTING_SECONDS_MAX)
    for party in parties:
        if party.problem is not None:
            raise party.problem
    _closing_words(url, story)


def _silent_holder(url: str, story: Story) -> None:
    """A seventh party takes the scope and falls silent, as a cut-off host does: no renewal, no closed socket."""
    with Conversation(url.removeprefix("unix://"), agent="gus") as gus:
        claim = frames.Claim(
            n=gus.number(),
            needs=parse_needs(["scope:1"]),
            ttl_ms=TTL_SECONDS * 1000,
            reason="will fall silent",
        )
        granted = next(answer for answer in gus.answers(claim) if isinstance(answer, frames.Granted))
        try:
            _watch_it_end(url, story, granted.lease)
        except BaseException:
            # Who stops the demonstration does not want to wait for this end.
            with contextlib.suppress(HoldallError):
                gus.ask(frames.Release(n=gus.number(), key=granted.key))
            raise


def _watch_it_end(url: str, story: Story, lease: frames.LeaseView) -> None:
    units = " ".join(f"{unit.name}#{unit.fence}" for unit in lease.units)
    story.tell("gus", f"holds {units}, and is cut off: no word comes from it any more", 31)
    cut = time.monotonic()
    story.tell("lab", f"its lease ends {TTL_SECONDS} s (and 2 %) after its last word", 33)
    _wait_until(lambda: lease.lease not in _holders(url), seconds=ROUND_SECONDS)
    ended = short_id(lease.lease)
    story.tell("lab", f"gus's lease {ended} ended {time.monotonic() - cut:.2f} s after the cut", 33)


def _closing_words(url: str, story: Story) -> None:
    with holdall.sync.connect(url, agent="lab") as hub:
        rows = hub.log()
        for row in rows:
            if row.kind in {"expired", "lost"}:
                story.tell("log", f"{row.kind}: {row.holder}: {row.text}", 33)
        after = [row for row in rows if any("scope/" in unit for unit in row.units) and row.kind == "granted"]
        story.tell("log", f"{len(after)} grants of the scope, with fences {_fences(after)}")
        free = " · ".join(f"{row.pool} {row.free}/{row.total}" for row in hub.pools())
        story.tell("lab", f"all is free again: {free}")


def _fences(rows: list[frames.LogRow]) -> str:
    fences = [unit.partition("#")[2] for row in rows for unit in row.units if "scope/" in unit]
    return " < ".join(fences[:4]) + (" < …" if len(fences) > 4 else "")


def _holders(url: str) -> set[str]:
    with holdall.sync.connect(url, agent="lab") as hub:
        return {lease.lease for lease in hub.who()}


def _units(lease: "holdall.sync.Lease") -> str:
    return " ".join(f"{unit.name}#{unit.fence}" for units in lease.units.values() for unit in units)


def _wait_until(condition: Callable[[], bool], *, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)

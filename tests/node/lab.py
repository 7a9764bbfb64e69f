"""A real node process for tests, and a plain client that speaks frames over its socket."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from node.waiting import until

from holdall.model import frames
from holdall.model.framing import FrameBuffer
from holdall.model.spec import parse_needs
from holdall.node import boot, paths

Answer = TypeVar("Answer", bound=frames.FromNode)

CONFIG = """
[node]
name = "lab-1"
listen = "off"

[defaults]
ttl = "20s"
ttl_max = "{ttl_max}"
margin = "50ms"
durability = "{durability}"

[[pool]]
name = "board"
units = ["board-1", "board-2", "board-3"]

[[pool]]
name = "psu"
units = ["psu-1", "psu-2"]
"""


class Client:
    """One connection; answers are read until the wanted one comes."""

    def __init__(self, path: Path, *, agent: str = "ci", session: str = "", secret: str = "") -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self._buffer = FrameBuffer(1 << 20)
        self._waiting: list[frames.FromNode] = []
        self.other: list[frames.FromNode] = []
        """Frames that came while another was waited for."""
        self._n = 0
        try:
            self.send(frames.Hello(v=frames.VERSION, agent=agent, session=session, secret=secret))
            self.welcome = self.wait(frames.Welcome)
        except BaseException:
            self.close()
            raise

    def n(self) -> int:
        self._n += 1
        return self._n

    def send(self, frame: frames.ToNode) -> None:
        self._socket.sendall(frames.pack(frame))

    def next(self) -> frames.FromNode:
        while not self._waiting:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionResetError("the node has closed the connection")
            self._waiting += [frames.read_answer(body) for body in self._buffer.feed(data)]
        return self._waiting.pop(0)

    def wait(self, kind: type[Answer], *, within_s: float = 30) -> Answer:
        """The next frame of this kind; an unexpected Denied fails the test. Raises TimeoutError."""
        self._socket.settimeout(within_s)
        while True:
            frame = self.next()
            if isinstance(frame, kind):
                return frame
            assert not isinstance(frame, frames.Denied), frame
            self.other.append(frame)

    def wait_renewing(self, kind: type[Answer]) -> Answer:
        """As `wait`, and renew every third of a second meanwhile."""
        for _ in range(90):
            try:
                return self.wait(kind, within_s=0.3)
            except TimeoutError:
                self.send(frames.Beat(n=self.n()))
        raise TimeoutError(kind)

    def claim(self, *specs: str, ttl_ms: int = 20_000, now: bool = False, n: int = 0) -> int:
        """Ask and return the request's number."""
        number = n or self.n()
        self.send(frames.Claim(n=number, needs=parse_needs(specs), ttl_ms=ttl_ms, now=now, reason="test"))
        return number

    def lease(self, *specs: str, ttl_ms: int = 20_000) -> frames.Granted:
        """Ask and wait for the grant."""
        number = self.claim(*specs, ttl_ms=ttl_ms)
        granted = self.wait(frames.Granted)
        assert granted.n == number
        return granted

    def release(self, key: str) -> frames.Released:
        self.send(frames.Release(n=self.n(), key=key))
        return self.wait(frames.Released)

    def beat(self) -> frames.BeatOk:
        self.send(frames.Beat(n=self.n()))
        return self.wait(frames.BeatOk)

    def listing(self, what: str, arg: str = "") -> frames.Listing:
        """All pages of a listing, joined."""
        self.send(frames.Ask(n=self.n(), what=what, arg=arg))  # type: ignore[arg-type]
        page = whole = self.wait(frames.Listing)
        while page.more:
            page = self.wait(frames.Listing)
            whole = frames.Listing(
                n=page.n,
                pools=whole.pools + page.pools,
                leases=whole.leases + page.leases,
                waits=whole.waits + page.waits,
                log=whole.log + page.log,
                nodes=whole.nodes + page.nodes,
            )
        return whole

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Lab:
    """A folder with a configuration, and the node process that serves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "holdall.toml"
        self.state = folder / "state"
        self.errors = folder / "stderr"
        self.environment = {
            **os.environ,
            paths.RUN_ENV: str(folder / "run"),
            boot.BOOT_ID_ENV: "boot-1",
        }
        self.environment.pop("XDG_RUNTIME_DIR", None)
        self.prefix: tuple[str, ...] = ()
        """Words before the command, e.g. to run it in a namespace; the last one must `exec` the rest."""
        self.process: subprocess.Popen[bytes] | None = None
        self.configure()

    @property
    def socket(self) -> Path:
        return self.state / paths.SOCKET_NAME

    def configure(self, text: str = CONFIG, *, ttl_max: str = "60s", durability: str = "process") -> None:
        self.config.write_text(
            text.replace("{ttl_max}", ttl_max)
            .replace("{durability}", durability)
            .replace("[node]\n", f'[node]\nstate = "{self.state}"\n')
        )

    def begin(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        """Start the process without waiting for it to serve."""
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*self.prefix, sys.executable, "-m", "holdall.cli", "serve", str(self.config), *arguments],
                env={**self.environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )

    def start(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Self:
        """Start it and wait until it serves."""
        self.begin(*arguments, environment=environment)
        until(self._serves, "the node serves")
        return self

    def said(self) -> str:
        return self.errors.read_text()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def stop(self) -> int:
        """End it in order; its exit status."""
        return self._signal(signal.SIGTERM)

    def refused(self, *arguments: str, environment: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Start it and wait for its end: exit status and what it said."""
        self.begin(*arguments, environment=environment)
        assert self.process is not None
        status = self.process.wait(60)
        self.process = None
        return status, self.said()

    def ended(self) -> int:
        """Wait until it has ended by itself; its exit status."""
        assert self.process is not None
        status = self.process.wait(60)
        self.process = None
        return status

    def client(self, **changes: str) -> Client:
        return Client(self.socket, **changes)

    def close(self) -> None:
        if self.process is not None:
            self.kill()
        if self.errors.exists():
            sys.stderr.write(self.said())

    def _serves(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the node ended: {self.said()}"
        return "\nnext " in self.said() or self.said().startswith("next ")

    def _signal(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(60)
        self.process = None
        return status


@contextlib.contextmanager
def lab() -> Generator[Lab]:
    """A lab in a folder with a short name, since socket paths must be short."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="hd") as folder:
        made = Lab(Path(folder))
        try:
            yield made
        finally:
            made.close()

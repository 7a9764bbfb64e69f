"""A node for tests that says exactly what a test tells it: real frames over a real unix socket, no rules of its own."""

import contextlib
import socket
import tempfile
import threading
import time
from pathlib import Path
from queue import Empty, Queue
from shutil import rmtree
from types import TracebackType
from typing import Self, TypeVar

from holdall.model import frames
from holdall.model.framing import FrameBuffer

WITHIN_S = 20.0
SECRET = "hush"  # noqa: S105 - of a node that keeps nothing
Frame = TypeVar("Frame")


def lease_view(
    lease: str = "7K4MQ2" + "0" * 20, *, ttl_ms: int = 30_000, pool: str = "gpu", fence: int = 5
) -> frames.LeaseView:
    return frames.LeaseView(
        lease=lease,
        holder="tester@lab-1",
        user="tester",
        pid=1,
        reason="",
        state="active",
        units=(frames.HeldUnit(pool, f"{pool}-0", "lab-1", fence),),
        needs=(f"{pool}:1",),
        since_ms=0,
        waited_ms=0,
        ttl_ms=ttl_ms,
        until_ms=None,
        expires_ms=0,
        renewing=True,
    )


class ScriptedNode:
    """Accepts one connection after the other; `hear` what the client says, `say` the answer."""

    def __init__(self, *, greets: bool = True) -> None:
        self.folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="hd"))
        self.path = self.folder / "holdall.sock"
        self.greets = greets
        self.resumes = True
        self.hellos: list[frames.Hello] = []
        self.heard: Queue[frames.ToNode] = Queue()
        self.beats = 0
        self.unanswered = 0
        """Beats that were heard while none is answered."""
        self.valid_for: dict[str, int] = {}
        """What is answered to each Beat; None in `answers_beats` switches that off."""
        self.answers_beats = True
        self._listener: socket.socket | None = None
        self._connection: socket.socket | None = None
        self._ending = False
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self.listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.go_away()
        for thread in self._threads:
            thread.join(WITHIN_S)
        rmtree(self.folder)

    @property
    def url(self) -> str:
        return f"unix://{self.path}"

    def listen(self) -> None:
        """Come up (again)."""
        self.path.unlink(missing_ok=True)
        self._ending = False
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.path))
        listener.listen(8)
        self._listener = listener
        thread = threading.Thread(target=self._serve, args=(listener,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def go_away(self) -> None:
        """As after kill -9: no socket listens, connections are broken."""
        self._ending = True
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self.break_off()

    def break_off(self) -> None:
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def say(self, frame: frames.FromNode) -> None:
        assert self._connection is not None
        self._connection.sendall(frames.pack(frame))

    def hear(self, kind: type[Frame]) -> Frame:
        """The next frame that is no Hello and no answered Beat; it must be of this kind."""
        try:
            frame = self.heard.get(timeout=WITHIN_S)
        except Empty:
            raise AssertionError(f"no {kind.__name__} came within {WITHIN_S:g} s") from None
        assert isinstance(frame, kind), frame
        return frame

    def hear_beat(self) -> None:
        """Wait for the first Beat."""
        end = time.monotonic() + WITHIN_S
        while self.beats == 0:
            assert time.monotonic() < end, f"no Beat within {WITHIN_S:g} s"
            time.sleep(0.005)

    def wait_for_hello(self, count: int) -> None:
        """Until so many greetings have come in all."""
        end = time.monotonic() + WITHIN_S
        while len(self.hellos) < count:
            assert time.monotonic() < end, f"only {len(self.hellos)} greetings within {WITHIN_S:g} s"
            time.sleep(0.002)

    def hears_nothing_more(self) -> bool:
        return self.heard.empty()

    def grant(
        self, claim: frames.Claim | frames.Attach, lease: frames.LeaseView | None = None, **more: object
    ) -> frames.Granted:
        """Grant, and confirm its renewals from now on."""
        view = lease or lease_view()
        granted = frames.Granted(
            n=claim.n,
            key=str(more.get("key", "key-" + view.lease)),
            lease=view,
            valid_for_ms=int(str(more.get("valid_for_ms", view.ttl_ms))),
            for_left_ms=None if more.get("for_left_ms") is None else int(str(more["for_left_ms"])),
            view=bool(more.get("view")),
        )
        if not granted.view:
            self.valid_for[view.lease] = granted.valid_for_ms
        self.say(granted)
        return granted

    def _serve(self, listener: socket.socket) -> None:
        while not self._ending:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._connection = connection
            with connection, contextlib.suppress(OSError):
                self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        buffer = FrameBuffer()
        while data := connection.recv(1 << 16):
            for body in buffer.feed(data):
                frame = frames.read_request(body)
                if isinstance(frame, frames.Hello):
                    self.hellos.append(frame)
                    if self.greets:
                        connection.sendall(frames.pack(self.welcome(frame)))
                elif isinstance(frame, frames.Beat) and self.answers_beats:
                    connection.sendall(
                        frames.pack(frames.BeatOk(frame.n, tuple(sorted(self.valid_for.items()))))
                    )
                    self.beats += 1
                elif isinstance(frame, frames.Beat):
                    self.unanswered += 1
                else:
                    self.heard.put(frame)

    def welcome(self, hello: frames.Hello) -> frames.Welcome:
        return frames.Welcome(
            v=1,
            node="lab-1",
            session=hello.session or f"session-{len(self.hellos)}",
            secret=SECRET,
            resumed=bool(hello.session) and self.resumes,
            ttl_ms=30_000,
            ttl_max_ms=300_000,
            margin_ms=500,
            rho_ppm=20_000,
        )

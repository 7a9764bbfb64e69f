"""A guardian's connection to its node: comes back after every break, asks in time, and never waits.

Moments are CLOCK_BOOTTIME in milliseconds; a deadline counts from the moment before its request was sent, so a late
answer never makes it later.
"""

import contextlib
import os
import socket
from abc import ABC, abstractmethod
from typing import TypeAlias

import msgspec

from holdall.guardian import reaching
from holdall.guardian.clock import boottime_ms
from holdall.guardian.orders import Start
from holdall.model import frames
from holdall.model.framing import FrameBuffer, FrameTooLong
from holdall.model.terms import LeaseDocument

ASK_LEAST_MS = 200
"""Between two renewals that are asked for because the end is near."""
RETRY_FIRST_MS = 50
RETRY_MAX_MS = 1_000


class Confirmed(msgspec.Struct, frozen=True):
    """Attached or renewed: the lease lives until `deadline_ms`, asked for at `sent_ms`."""

    sent_ms: int
    deadline_ms: int
    hard_end_ms: int | None = None
    lease: frames.LeaseView | None = None
    document: LeaseDocument | None = None
    """Of a negotiated lease: what it grants from now on."""
    is_shorter: bool = False
    """It has been renewed for less time than before: what was confirmed earlier does not count any more."""


class Over(msgspec.Struct, frozen=True):
    """The lease is not ours any more: `code` and text as of an error."""

    code: str
    text: str


class Revoked(msgspec.Struct, frozen=True):
    """The lease is ours still, and must end: stop, then release."""

    text: str


class GivenBack(msgspec.Struct, frozen=True):
    """The node has the release in its journal, or knows nothing of the lease."""

    what: str


Happening: TypeAlias = Confirmed | Over | Revoked | GivenBack


class NodeLine(ABC):
    """One lease, one connection at a time. What is asked, and what an answer means, is said by its kinds."""

    def __init__(self, start: Start, *, beat_every_ms: int) -> None:
        self.start = start
        self.beat_every_ms = beat_every_ms
        self.away_since_ms: int | None = None
        self.not_let_in = ""
        """Why the node, which is there, has refused the connection that was tried last."""
        self._exit: frames.ExitRecord | None = None
        self._socket: socket.socket | None = None
        self._buffer = FrameBuffer()
        self._unsent = b""
        self._welcome: frames.Welcome | None = None
        self._greeted = False
        self._last_number = 0
        self._sent_ms: dict[int, int] = {}
        self._retry_ms = RETRY_FIRST_MS
        self._connect_at_ms = 0
        self._ask_at_ms = 0

    # ------------------------------------------------------------ for the loop

    def fileno(self) -> int:
        """The socket, -1 when there is no connection."""
        return -1 if self._socket is None else self._socket.fileno()

    @property
    def wants_to_write(self) -> bool:
        return bool(self._unsent)

    def wake_ms(self) -> int | None:
        """When `tick` has something to do, if nothing arrives before; None: nothing before the node has greeted."""
        if self._socket is None:
            return self._connect_at_ms
        return self._ask_at_ms if self._greeted else None

    def tick(self) -> None:
        """Whatever is due by the clock: connect again, renew, ask again."""
        now = boottime_ms()
        if self._socket is None:
            if now >= self._connect_at_ms:
                self._connect(now)
        elif self._greeted and now >= self._ask_at_ms:
            self._ask(now)

    def read(self) -> list[Happening]:
        """After the socket became readable."""
        if self._socket is None:
            return []
        try:
            data = self._socket.recv(1 << 16)
            if not data:
                self._break()
                return []
            bodies = self._buffer.feed(data)
        except BlockingIOError:
            return []
        except (OSError, FrameTooLong):
            self._break()
            return []
        happened: list[Happening] = []
        for body in bodies:
            try:
                happened += self._hear(frames.read_answer(body))
            except msgspec.DecodeError:
                self._break()
                break
        return happened

    def write(self) -> None:
        """After the socket became writable, or to try at once."""
        if self._socket is None or not self._unsent:
            return
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            return  # a stopped node reads nothing; its answers are what counts, so nothing is lost by waiting
        except OSError:
            self._break()
            return
        self._unsent = self._unsent[sent:]

    def release(self, exit_record: frames.ExitRecord) -> None:
        """Give the lease back; repeated after every break until GivenBack."""
        self._exit = exit_record
        if self._greeted:
            self._ask(boottime_ms())

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    # ------------------------------------------------------------ for its kinds

    def _ask(self, now: int) -> None:
        """The request that is due."""
        if self._unsent:
            self._ask_at_ms = now + self.beat_every_ms  # the node reads nothing: more would not help
            return
        self._ask_at_ms = now + self.beat_every_ms
        self._say_what_is_due(now)

    @abstractmethod
    def _say_what_is_due(self, now: int) -> None:
        """Release before attach before renewal."""

    @abstractmethod
    def _heard(self, answer: frames.FromNode) -> list[Happening]:
        """What an answer means, but for that to Hello."""

    def _number(self, now: int) -> int:
        """Of a request that is sent now."""
        self._last_number += 1
        self._sent_ms[self._last_number] = now
        return self._last_number

    def _say(self, frame: frames.ToNode) -> None:
        self._unsent += frames.pack(frame)
        self.write()

    def _ask_in_time(self, deadline_ms: int, lead_ms: int) -> None:
        """Ask again, and again, before that has to be done which is due so long before the deadline."""
        now = boottime_ms()
        left_ms = deadline_ms - lead_ms - now
        if now + left_ms <= self._ask_at_ms + ASK_LEAST_MS:
            self._ask_at_ms = min(self._ask_at_ms, now + max(ASK_LEAST_MS, left_ms // 2))

    def _denied(self, denied: frames.Denied) -> list[Happening]:
        if self._sent_ms.pop(denied.n, None) is None and denied.n != 0:
            return []
        if self._exit is not None and denied.definite:
            return [GivenBack(denied.text)]
        if denied.retry_after_ms is not None or not denied.definite:
            self._ask_at_ms = boottime_ms() + max(denied.retry_after_ms or 0, RETRY_FIRST_MS)
            return []
        return [Over(denied.code, denied.text)]

    def _begun_anew(self) -> None:  # noqa: B027 - not every kind has something to forget
        """The session is a new one, of which the node knows nothing yet."""

    # ------------------------------------------------------------ connection

    def _hear(self, answer: frames.FromNode) -> list[Happening]:
        if isinstance(answer, frames.Denied) and not (self._greeted or answer.definite):
            self.not_let_in = answer.text  # it may be accepted again: tried on until the lease's end
            return []
        self.away_since_ms = None
        self.not_let_in = ""
        self._retry_ms = RETRY_FIRST_MS
        if not isinstance(answer, frames.Welcome):
            return self._heard(answer)
        if not answer.resumed:
            self._begun_anew()
        self._welcome = answer
        self._greeted = True
        self._ask(boottime_ms())
        return []

    def _connect(self, now: int) -> None:
        self._connect_at_ms = now + self._retry_ms
        self._retry_ms = min(self._retry_ms * 2, RETRY_MAX_MS)
        try:
            fresh = reaching.begin(self.start.node)
        except OSError:
            self.away_since_ms = now if self.away_since_ms is None else self.away_since_ms
            return
        self._socket = fresh
        self._buffer = FrameBuffer()
        self._unsent = b""
        self._greeted = False
        self._sent_ms.clear()
        known = self._welcome
        self._say(
            frames.Hello(
                v=frames.VERSION,
                role="guardian",
                agent=self.start.agent,
                pid=os.getpid(),
                session=known.session if known else "",
                secret=known.secret if known else "",
            )
        )

    def _break(self) -> None:
        self.close()
        self._greeted = False
        now = boottime_ms()
        self.away_since_ms = now if self.away_since_ms is None else self.away_since_ms
        self._connect_at_ms = now + self._retry_ms

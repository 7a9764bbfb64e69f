"""A guardian's session with its node: takes one lease over, renews it, comes back after a break, gives it back.

Nothing here waits. Moments are CLOCK_BOOTTIME in milliseconds; a deadline counts from the moment before its request was
sent, so a late answer never makes it later.
"""

import contextlib
import os
import socket
from typing import TypeAlias

import msgspec

from holdall.guardian import reaching
from holdall.guardian.clock import boottime_ms
from holdall.guardian.orders import Start
from holdall.model import frames
from holdall.model.framing import FrameBuffer, FrameTooLong

ASK_LEAST_MS = 200
"""Between two renewals that are asked for because the end is near."""
RETRY_FIRST_MS = 50
RETRY_MAX_MS = 1_000
LOOK_AGAIN_MS = (1_000, 250)
"""How long before a hard end stops the command it is looked at whether somebody has extended it."""


class Confirmed(msgspec.Struct, frozen=True):
    """Attached or renewed: the lease lives until `deadline_ms`, asked for at `sent_ms`."""

    sent_ms: int
    deadline_ms: int
    hard_end_ms: int | None
    lease: frames.LeaseView | None = None


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


class Tether:
    """One lease, one session.

    An inherited lease is never attached: a claim in its scope gives a view of it, which lives as long as its holder
    renews it; each Beat tells how long that is.
    """

    def __init__(self, start: Start) -> None:
        self.start = start
        self.lease = start.lease.lease
        self.attached = False
        self.beat_every_ms = max(start.ttl_ms // 3, 50)
        self.away_since_ms: int | None = None
        self._exit: frames.ExitRecord | None = None
        self._hard_end_ms = start.hard_end_ms
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

    def wake_ms(self) -> int:
        """When `tick` has something to do, if nothing arrives before."""
        if self._socket is None:
            return self._connect_at_ms
        return self._ask_at_ms

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

    # ------------------------------------------------------------ connection

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

    def _say(self, frame: frames.ToNode) -> None:
        self._unsent += frames.pack(frame)
        self.write()

    # ------------------------------------------------------------ conversation

    def _ask(self, now: int) -> None:
        """The request that is due: release before attach before renewal."""
        if self._unsent:
            self._ask_at_ms = now + self.beat_every_ms  # the node reads nothing: more would not help
            return
        self._last_number += 1
        number = self._last_number
        self._sent_ms[number] = now
        self._ask_at_ms = self._next_ask_ms(now)
        if self._exit is not None:
            self._say(frames.Release(n=number, key=self.start.key, exit=self._exit))
        elif self.attached and not self._hard_end_is_near(now):
            self._say(frames.Beat(n=number))
        elif self.start.view:
            claim = frames.Claim(
                n=number, needs=self.start.view, under=self.start.key, ttl_ms=self.start.ttl_ms
            )
            self._say(claim)
        else:
            self._say(frames.Attach(n=number, key=self.start.key))

    def _next_ask_ms(self, now: int) -> int:
        """A third of the ttl from now, and shortly before a hard end would stop the command."""
        moments = [now + self.beat_every_ms]
        if self._hard_end_ms is not None:
            stop_at = self._hard_end_ms - self.start.grace_ms
            moments += [stop_at - lead for lead in LOOK_AGAIN_MS if stop_at - lead > now]
        return min(moments)

    def _hard_end_is_near(self, now: int) -> bool:
        """Then asking for the lease as a whole, which renews it too, tells whether somebody has extended it."""
        reach = self.beat_every_ms + self.start.grace_ms
        return self._hard_end_ms is not None and now + reach >= self._hard_end_ms

    def _hear(self, answer: frames.FromNode) -> list[Happening]:
        self.away_since_ms = None
        self._retry_ms = RETRY_FIRST_MS
        match answer:
            case frames.Welcome():
                if not answer.resumed:
                    self.attached = False
                self._welcome = answer
                self._greeted = True
                self._ask(boottime_ms())
                return []
            case frames.Granted():
                return self._confirmed(answer)
            case frames.BeatOk():
                return self._renewed(answer)
            case frames.Released():
                return [GivenBack(answer.what)] if self._exit is not None else []
            case frames.Denied():
                return self._denied(answer)
            case frames.Lost(lease, text, stop) if lease == self.lease:
                return [Revoked(text) if stop else Over("lost", text)]
            case _:
                return []  # nothing else is asked for here

    def _confirmed(self, granted: frames.Granted) -> list[Happening]:
        sent = self._sent_ms.pop(granted.n, None)
        if sent is None:
            return []
        if self.start.view and not granted.view:
            # Not covered any more, and free by chance: that is no part of the lease that we inherited.
            self._say(frames.Release(n=granted.n, key=granted.key))
            return [
                Over("not-holder", "the lease that this process inherited does not cover its needs any more")
            ]
        self.attached = True
        self.lease = granted.lease.lease
        self._hard_end_ms = None if granted.for_left_ms is None else sent + granted.for_left_ms
        self._ask_in_time(sent + granted.valid_for_ms)
        return [Confirmed(sent, sent + granted.valid_for_ms, self._hard_end_ms, granted.lease)]

    def _renewed(self, beat: frames.BeatOk) -> list[Happening]:
        sent = self._sent_ms.pop(beat.n, None)
        if sent is None:
            return []
        valid_for = dict(beat.valid_for_ms).get(self.lease)
        if valid_for is None:
            return [Over("lost", "the node does not know it as this session's any more")]
        if valid_for < 0:
            # The node has come up again and waits for the word of other nodes: what was confirmed before counts.
            self._ask_at_ms = boottime_ms() + RETRY_FIRST_MS
            return []
        self._ask_in_time(sent + valid_for)
        return [Confirmed(sent, sent + valid_for, self._hard_end_ms)]

    def _ask_in_time(self, deadline_ms: int) -> None:
        """Where units lie on other nodes, theirs may be confirmed anew in between: hear it before the command has to stop."""
        now = boottime_ms()
        left_ms = deadline_ms - self.start.grace_ms - now
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

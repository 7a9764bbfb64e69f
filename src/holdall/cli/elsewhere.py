"""The course of `holdall run --on NODE`: the command runs there, its streams, signals and exit status are here."""

import contextlib
import os
import select
import signal
import time
from collections import deque
from pathlib import Path

import msgspec

from holdall.cli.elsewhere_streams import Input, Output
from holdall.cli.run_lines import RunLines
from holdall.cli.run_told import write_down
from holdall.cli.running import LOST_STATUS, Wishes
from holdall.cli.tables import clock_time
from holdall.client.address import find_node
from holdall.client.conversation import Conversation, error_of
from holdall.client.run_link import RunLink
from holdall.client.scope import BEGUN_ENV, LEASE_ENV
from holdall.client.wishes import default_agent
from holdall.guardian.clock import boottime_ms
from holdall.guardian.grace import GRACE_MS
from holdall.guardian.reaching import is_remote, why_not_let_in
from holdall.guardian.signals import Signals
from holdall.model import frames
from holdall.model.errors import BadSpec, NotGranted, Refused, Unreachable, WouldDeadlock
from holdall.model.run_frames import (
    COMMAND_BYTES_MAX,
    SIGNALS_MAX,
    RunBeat,
    RunFed,
    RunLease,
    RunOn,
    RunOver,
    RunPlace,
    RunSaid,
    RunWhere,
    RunWishes,
    RunWord,
    command_bytes,
)

PASSED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_ENDING = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})
IMPATIENT = 3
"""So many ending signals without a sign that the first one has arrived, and we wait no longer."""
RATE_PERCENT = 102
"""Clocks may differ by 2 %."""
ANY = "any"
_RUN = 1
"""The only request of its connection."""


def place_of(wishes: Wishes) -> str | None:
    """The other node that the command is to run on; None: this one. Raises as a `Conversation`."""
    if not wishes.on:
        return None
    where = find_node(wishes.url or None)
    with Conversation(where, agent=default_agent()) as node:
        if wishes.on == node.welcome.node and is_remote(where):
            raise Refused(
                f"{wishes.on} is on another host and is the node that is asked, which begins commands only for users there. "
                "Leave --on out to run it here; to run it there log in there, or let a job do it: holdall job run"
            )
        if wishes.on == node.welcome.node:
            return None
        if wishes.on != ANY:
            return wishes.on
        answer = node.ask(RunWhere(node.number(), wishes.needs))
        if not isinstance(answer, RunPlace):
            raise Unreachable(f"{node.where} gave an unexpected answer; do client and node have one version?")
        return None if answer.node == node.welcome.node else answer.node


class GaveUp(Exception):
    """A signal ends the waiting for a node that does not answer."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Elsewhere:
    """One run on another node; `run` gives the exit status."""

    def __init__(self, wishes: Wishes, node: str) -> None:
        self.wishes = wishes
        self.node = node
        self.lines = RunLines(as_json=wishes.json)
        self.signals = Signals(PASSED_ON)
        self.begun = False
        self._has_lease = False
        self.status: int | None = None
        self.input = Input()
        self.output = Output()
        self._link: RunLink
        self._ttl_ms = 0
        self._heard_ms = boottime_ms()
        """When the other node was heard last."""
        self._heard_wall_ms = time.time_ns() // 1_000_000
        self._sent_wall_ms = self._heard_wall_ms
        """When it may have heard of us last."""
        self._beat_at_ms = 0
        self._told = RunBeat(_RUN)
        self._pending: deque[tuple[int, int]] = deque()
        self._signal_number = 0

    def run(self) -> int:
        """Raises HoldallError for everything that kept the command from running, except what -E is for."""
        try:
            return self._run()
        except NotGranted as problem:
            self.lines.ended("not-granted", problem.text)
            return self.wishes.not_granted_status
        except GaveUp as gave_up:
            return 128 + gave_up.number
        finally:
            self.lines.close()
            self.signals.restore()

    def _run(self) -> int:
        self._link = RunLink(find_node(self.wishes.url or None), agent=default_agent())
        try:
            welcome = self._link.welcome
            self._ttl_ms = welcome.ttl_ms if self.wishes.ttl_ms is None else self.wishes.ttl_ms
            self._send(RunOn(_RUN, self.node, self._ttl_ms, run_wishes(self.wishes, welcome)))
            while self.status is None:
                self._step()
            self._link.send(RunBeat(_RUN, heard=self.output.used))
            return self.status
        finally:
            self._link.close()

    # ------------------------------------------------------------ the loop

    def _step(self) -> None:
        ready = self._wait()
        for number in self.signals.take():
            self._signalled(number)
        if self._link.fileno() in ready:
            self._link.flush()
            self._listen()
        self.output.write()
        if self.begun and self.input.is_ready(ready):
            self._send(self.input.read())
        if self.output.ended is not None:
            self.status = self.output.ended
            return
        self._judge_silence()
        self._beat()

    def _wait(self) -> set[int]:
        poll = select.poll()
        poll.register(self.signals, select.POLLIN)
        poll.register(self._link, select.POLLIN | (select.POLLOUT if self._link.wants_to_write else 0))
        if self.begun and self.input.wants:
            poll.register(self.input.file, select.POLLIN)
        waiting = self.output.file
        if waiting is not None:
            poll.register(waiting, select.POLLOUT)
        due = min(self._beat_at_ms, self._heard_ms + self._ttl_ms) - boottime_ms()
        return {file for file, _ in poll.poll(max(0, due) + 1)}

    def _send(self, frame: RunOn | RunFed | RunBeat) -> None:
        self._link.send(frame)
        self._sent_wall_ms = time.time_ns() // 1_000_000

    def _signalled(self, number: int) -> None:
        if not self.begun or len(self._pending) == SIGNALS_MAX:
            raise GaveUp(number)
        self._signal_number += 1
        self._pending.append((self._signal_number, number))
        if number in _ENDING and sum(one in _ENDING for _, one in self._pending) >= IMPATIENT:
            raise GaveUp(number)
        self._beat_at_ms = 0

    def _beat(self) -> None:
        """Tell how far we are when that has changed, and that we live at each third of the ttl."""
        now_ms = boottime_ms()
        ask = now_ms >= self._beat_at_ms
        told = RunBeat(
            _RUN,
            heard=self.output.used,
            fed=self.input.sent,
            again=self.output.take_lost(ask=ask),
            ask=ask,
            signals=tuple(self._pending) if ask else (),
            deaf=self.output.deaf,
        )
        # Input that was sent needs no word of ours; the next beat that asks tells how much it was.
        if ask or told.again or (told.heard, told.deaf) != (self._told.heard, self._told.deaf):
            self._send(told)
            self._told = told
        if ask:
            self._beat_at_ms = now_ms + max(self._ttl_ms // 3, 50)

    # ------------------------------------------------------------ what is told

    def _listen(self) -> None:
        try:
            for frame in self._link.receive():
                self._hear(frame)
        except Unreachable as problem:
            if not self.begun:
                raise
            here = self._link.welcome.node
            refused = why_not_let_in(self._link.where) if is_remote(self._link.where) else ""
            ended = (
                f"lets this connection in no more ({refused})" if refused else f"has ended ({problem.text})"
            )
            self.status = self._lost(f"{here}, through which {self.node} was reached, {ended}")

    def _hear(self, frame: frames.FromNode) -> None:
        match frame:
            case frames.Denied():
                raise error_of(frame)
            case RunWord():
                self._note_begun()
                self._note_lease(frame.lease)
                self.output.sent_there(frame.said)
                while self._pending and self._pending[0][0] <= frame.signals:
                    self._pending.popleft()
                for piece in self.input.taken(frame.taken, again=frame.again):
                    self._send(piece)
            case RunSaid():
                self.output.take(frame)
            case RunOver():
                self._note_lease(frame.lease)
                self.output.take(frame)
            case _:
                return
        self._heard_ms = boottime_ms()
        self._heard_wall_ms = time.time_ns() // 1_000_000

    def _note_begun(self) -> None:
        if not self.begun and BEGUN_ENV in os.environ:
            with contextlib.suppress(OSError):
                Path(os.environ[BEGUN_ENV]).touch()
        self.begun = True

    def _note_lease(self, lease: RunLease | None) -> None:
        if lease is not None and not self._has_lease:
            self._has_lease = True
            write_down(lease)

    def _judge_silence(self) -> None:
        if boottime_ms() - self._heard_ms < self._ttl_ms:
            return
        since = clock_time(self._heard_wall_ms)
        if not self.begun:
            raise Unreachable(
                f"{self.node} has not answered since {since}. Should the command have been started there, it is "
                f"stopped at the latest {clock_time(self._latest_end_ms())}. See: holdall doctor",
                definite=False,
            )
        self.status = self._lost(f"{self.node} unreachable since {since}")

    def _lost(self, why: str) -> int:
        latest = clock_time(self._latest_end_ms())
        text = f"{why}; the command there is stopped by its guardian at the latest {latest}."
        self.lines.ended("lost", text)
        return LOST_STATUS

    def _latest_end_ms(self) -> int:
        """Wall time: when the other node, having heard of us last when we said something last, has ended it."""
        return self._sent_wall_ms + self._ttl_ms * RATE_PERCENT // 100 + GRACE_MS


def run_wishes(wishes: Wishes, welcome: frames.Welcome) -> RunWishes:
    """What goes to the other node. Raises BadSpec for what can't, WouldDeadlock inside the scope of a lease."""
    if not wishes.command:
        raise BadSpec(
            "nothing to run. Put the command after --, e.g. holdall run --on lab-2 --need gpu:1 -- make"
        )
    if os.environ.get(LEASE_ENV) and not wishes.independent and not wishes.now:
        raise WouldDeadlock(
            f"this process holds a lease already ({LEASE_ENV}), and what runs on another node is not in its scope: "
            "waiting there could wait for itself. Add --now, or --independent."
        )
    command = tuple(os.fsencode(word) for word in wishes.command)
    if command_bytes(command) > COMMAND_BYTES_MAX:
        raise BadSpec(
            f"the command has {command_bytes(command):,} bytes; at most {COMMAND_BYTES_MAX:,} go to another node. "
            "Put what is long into a file there, or on standard input."
        )
    wait = _shown(wishes.wait_ms) if wishes.wait_given else ""
    if not wait and wishes.patient and not wishes.now:
        # Somebody sits here, which the other node can't see.
        wait = _shown(welcome.wait_ms)
    asked = RunWishes(
        command=command,
        needs=wishes.needs,
        wait=wait,
        now=wishes.now,
        ttl="" if wishes.ttl_ms is None else _shown(wishes.ttl_ms),
        hold_for="" if wishes.for_ms is None else _shown(wishes.for_ms),
        reason=wishes.reason,
        settings=wishes.settings,
        not_granted_status=wishes.not_granted_status,
        independent=wishes.independent,
        allow_future=wishes.allow_future,
        json=wishes.json,
        agent=default_agent(),
        term=os.environ.get("TERM", "")[:512],
    )
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(asked), type=RunWishes)
    except msgspec.ValidationError as problem:
        raise BadSpec(f"this can't be told to another node: {problem}. Shorten it.") from None


def _shown(milliseconds: int | None) -> str:
    return "inf" if milliseconds is None else f"{milliseconds}ms"

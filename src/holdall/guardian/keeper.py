"""The guardian's loop: one lease, one command, one wrapper.

It takes the lease over from the wrapper's session, starts the command, renews, and whatever happens first (the command
ends, the lease runs out or is revoked, the wrapper dies or falls silent, somebody asks) leads to the same end: nothing
of the command is left, then the node is told.
"""

import errno
import os
import select
import signal
import socket
import time
from collections.abc import Sequence

import msgspec

from holdall.guardian import group as processes
from holdall.guardian import orders
from holdall.guardian.before_end import Farewell
from holdall.guardian.clock import BootTimer, boottime_ms
from holdall.guardian.enforcement.figures import Figures
from holdall.guardian.enforcement.ladder import Containment
from holdall.guardian.lease_file import LeaseFile, terms_of
from holdall.guardian.leased import LeasedCommand
from holdall.guardian.line import Confirmed, GivenBack, Happening, Over, Revoked
from holdall.guardian.negotiated import NegotiatedTether
from holdall.guardian.terminal import Terminal
from holdall.guardian.tether import Tether
from holdall.guardian.vigil import LOSSES, Act, Reason, Silence, Vigil
from holdall.model.frames import ExitRecord
from holdall.model.terms import LeaseDocument

PULSE_MS_MAX = 1_000
REPEAT_KILL_MS = 50
RELEASE_MS_MAX = 5_000
"""How long a guardian without anything left to guard waits for the node to hear of it."""
SILENCE_SHARE = 2
"""A wrapper that says nothing for ttl / 2 is stopped or hung."""


def pulse_every_ms(ttl_ms: int) -> int:
    """How often wrapper and guardian tell each other that they run."""
    return max(min(PULSE_MS_MAX, ttl_ms // 8), 20)


def _tether(start: orders.Start) -> Tether | NegotiatedTether:
    return Tether(start) if start.negotiated is None else NegotiatedTether(start, start.negotiated)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Keeper:
    """One run of a guardian; `run` returns when its last word has been said."""

    def __init__(
        self, wrapper: socket.socket, wake: int, start: orders.Start, command: Sequence[str]
    ) -> None:
        self.start = start
        self.command = tuple(command)
        self.tether = tether = _tether(start)
        self.leased = None if isinstance(tether, Tether) else LeasedCommand(start, tether)
        self.farewell = Farewell(start.before_end)
        self.vigil = Vigil(
            deadline_ms=start.deadline_ms,
            hard_end_ms=start.hard_end_ms,
            grace_ms=start.grace_ms,
            warn_ms=self.farewell.lead_ms,
            warn_renewed_ms=None if self.leased is None else self.leased.warn_ms,
        )
        self.vigil.running = False
        self.silence = Silence(limit_ms=start.ttl_ms // SILENCE_SHARE, now_ms=_monotonic_ms())
        self.terminal = Terminal.open() if start.terminal else None
        self.lease_file = LeaseFile(start.lease_file, start.lease)
        self.lease_file.terms = {} if start.negotiated is None else terms_of(start.negotiated)
        self.group: processes.Group | None = None
        self._wrapper: socket.socket | None = wrapper
        self._wake = wake
        self._timer = BootTimer()
        self._terminal_given = False
        self._pulse_at_ms = 0
        self._exit: ExitRecord | None = None
        self._stop_text = ""
        self._leftovers = 0
        self._figures = Figures()
        self._empty_ms: int | None = None
        self._releasing = False
        self._over = False
        """The lease is not ours any more: nothing is left to be released."""
        self._never: orders.NotStarted | None = None
        """The command will not run: the last word, said after the release."""
        self._finished = False

    def run(self) -> None:
        """Until nothing is left to do."""
        try:
            while not self._finished:
                self.step()
        finally:
            self.tether.close()
            self.lease_file.remove()
            if self.group is not None:
                self.group.close()

    def step(self) -> None:
        """Wait for something, then do all that is due."""
        self._wait()
        self.tether.tick()
        self._judge_wrapper()
        self._reap()
        self._guard()
        self._finish_if_empty()
        self._pulse()

    # ------------------------------------------------------------ waiting

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        poll.register(self._timer, select.POLLIN)
        if self._wrapper is not None:
            poll.register(self._wrapper, select.POLLIN)
        node = self.tether.fileno()
        if node >= 0:
            poll.register(node, select.POLLIN | (select.POLLOUT if self.tether.wants_to_write else 0))
        self._timer.arm(self._wake_ms())
        for file, events in poll.poll():
            if file == self._wake:
                os.read(self._wake, 512)
            elif file == self._timer.fileno():
                self._timer.arm(None)
            elif self._wrapper is not None and file == self._wrapper.fileno():
                self._listen(self._wrapper)
            elif file == node:
                self.tether.write()
                if events & ~select.POLLOUT:
                    for happening in self.tether.read():
                        self._hear(happening)

    def _wake_ms(self) -> int:
        moments = [self._pulse_at_ms]
        asking = self.tether.wake_ms()
        if asking is not None:
            moments.append(asking)
        if self._empty_ms is not None:
            pass  # nobody is left to be stopped
        elif self.vigil.killing:
            moments.append(boottime_ms() + REPEAT_KILL_MS)
        else:
            due = self.vigil.wake_ms()
            if due is not None:
                moments.append(due)
        return min(moments)

    # ------------------------------------------------------------ the node

    def _hear(self, happening: Happening) -> None:
        match happening:
            case Confirmed():
                self._confirm(happening)
            case Over(code, text):
                self._over = True
                if self.group is None:
                    self._never_ran(orders.NotStarted(text=text, code=code))
                else:
                    self._stop(Reason.LEASE_GONE, text)
            case Revoked(text):
                self._stop(Reason.REVOKED, text)
            case GivenBack(what):
                self._say_ended(what)

    def _confirm(self, confirmed: Confirmed) -> None:
        if self._empty_ms is not None:
            # Of a renewal that was asked for before the end: there is nothing any more that would live by it.
            return
        if confirmed.lease is not None:
            self.lease_file.lease = confirmed.lease
        if confirmed.document is not None:
            self._regrant(confirmed.document)
        if confirmed.is_shorter and confirmed.document is not None:
            self.vigil.shorten(confirmed.document.duration)
        self.vigil.renew(deadline_ms=confirmed.deadline_ms, hard_end_ms=confirmed.hard_end_ms)
        if not self.silence.excused:  # a suspended wrapper reads nothing for hours
            self._say(
                orders.Renewed(
                    sent_ms=confirmed.sent_ms,
                    deadline_ms=confirmed.deadline_ms,
                    hard_end_ms=confirmed.hard_end_ms,
                    is_shorter=confirmed.is_shorter,
                )
            )
        self._write_lease_file("active" if self.vigil.reason is None else "stopping")
        if self.group is None and self._exit is None and self.vigil.leaves_time(boottime_ms()):
            self._say(orders.Attached())
            self.vigil.running = True
            self._begin()

    def _regrant(self, document: LeaseDocument) -> None:
        """A negotiated lease has been renewed, perhaps with other amounts."""
        if self.leased is None or not self.leased.grants(document):
            return
        self.lease_file.terms = terms_of(document)
        if self.group is None:
            return
        containment, leased = self.group.containment, self.leased
        self.group.adjust(leased.limits)
        self.vigil.stay_end_ms = leased.stay_end_ms
        self._say(orders.Regranted(leased.limits, leased.stay_ms, containment.enforced))

    def _write_lease_file(self, state: str) -> None:
        if self.lease_file.path is not None and self._empty_ms is None:
            self._measure()
        self.lease_file.write(
            state=state,
            deadline_ms=self.vigil.deadline_ms,
            hard_end_ms=self.vigil.hard_end_ms,
            used=self._figures,
            enforced={} if self.group is None else self.group.containment.enforced,
        )

    # ------------------------------------------------------------ the command

    def _begin(self) -> None:
        give = self.terminal if self.start.foreground else None
        limits = self.start.limits if self.leased is None else self.leased.limits
        try:
            self.group = processes.start(
                self.command,
                terminal=give,
                ignored=self.start.ignored_signals,
                containment=Containment.make(limits, may_change=self.leased is not None),
            )
        except OSError as problem:
            self._terminal_given = give is not None
            self._take_terminal()
            self._never_ran(
                orders.NotStarted(text=problem.strerror or str(problem), errno=problem.errno or errno.EIO)
            )
            return
        self._terminal_given = give is not None
        began_ms = boottime_ms()
        if self.leased is not None:
            self.leased.begins(began_ms)
            self.vigil.stay_end_ms = self.leased.stay_end_ms
        elif self.start.stay_ms is not None:
            self.vigil.stay_end_ms = began_ms + self.start.stay_ms
        self._say(orders.Started(self.group.pid, self.group.containment.enforced))
        # What reads the command's output must see its end when the command ends, not when we do.
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for file in (0, 1, 2):
            os.dup2(nothing, file)
        os.close(nothing)

    def _reap(self) -> None:
        happened, nobody_left = processes.reap()
        for event in happened:
            if isinstance(event, processes.Ended):
                self.farewell.hear(event)
            if self.group is None or event.pid != self.group.pid:
                continue
            if isinstance(event, processes.Ended):
                self._exit = ExitRecord(code=event.code, signal=event.signal)
                self._take_terminal()
                if not nobody_left:
                    self._leftovers = self.group.count()
                    self._stop(Reason.LEFTOVER, "processes outlived the command")
            elif self.terminal is not None and self.vigil.reason is None and self._wrapper is not None:
                self._take_terminal()
                self.silence.excused = True
                self._say(orders.Halted(event.signal))
        started = self.group is not None or self._exit is not None
        if nobody_left and started and self._empty_ms is None:
            self._empty_ms = boottime_ms()
            self._measure()

    def _measure(self) -> None:
        """What has been used; and the end, where that is more than may be and only we keep the command from it."""
        if self.group is None:
            return
        self._figures = self.group.figures()
        if self.leased is not None:
            self.leased.measured(self._figures, self.group.containment.enforced)
        text = self.group.containment.over(self._figures)
        if text:
            self._stop(Reason.OVER_LIMIT, text)

    def _take_terminal(self) -> None:
        if self.terminal is not None and self._terminal_given:
            self.terminal.give(self.start.wrapper_group)
            self._terminal_given = False

    # ------------------------------------------------------------ stopping

    def _stop(self, reason: Reason, text: str) -> None:
        if self._empty_ms is not None or not self.vigil.stop(reason, boottime_ms()):
            return
        if self.group is None:
            # The command has not been started: what there is to stop is the waiting for the node.
            self._never_ran(orders.NotStarted(text=text, code="lost" if reason in LOSSES else ""))
        else:
            self._tell_stopping(text)

    def _tell_stopping(self, text: str) -> None:
        self._stop_text = text
        reason = self.vigil.reason
        if reason is not None and reason is not Reason.LEFTOVER:
            self._write_lease_file("stopping")
            self._say(orders.Stopping(reason=reason.value, text=text))

    def _guard(self) -> None:
        if self._empty_ms is not None:
            return
        begun = self.vigil.reason is not None
        act = self.vigil.act(boottime_ms())
        if not begun and self.vigil.reason is not None:
            if self.group is None:
                self._never_ran(orders.NotStarted(text=self._end_text(), code="lost"))
            else:
                self._tell_stopping(self._end_text())
        if self.group is None or act is None:
            return
        if act is Act.WARN:
            self.farewell.begin(self.group.pass_on)
            if self.leased is not None:
                self.leased.tether.has_done(self.farewell.outcome)
        elif act is Act.TERM:
            self.group.signal(signal.SIGTERM)
            self.group.signal(signal.SIGCONT)  # a stopped process hears TERM only when it goes on
        else:
            self.group.kill()

    def _end_text(self) -> str:
        if self.vigil.reason is Reason.FOR_OVER:
            return "its hard end (--for) has come"
        if self.vigil.reason is Reason.STAY_OVER:
            stay_ms = self.start.stay_ms if self.leased is None else self.leased.stay_ms
            return f"it has run for {(stay_ms or 0) / 1000:g} s, which is as long as it may"
        text = f"no renewal was confirmed for {self.start.ttl_ms / 1000:g} s"
        since = self.tether.away_since_ms
        if self.tether.not_let_in:
            return f"{text} ({self.tether.not_let_in})"
        return (
            text if since is None else f"{text} (node unreachable for {(boottime_ms() - since) / 1000:.0f} s)"
        )

    # ------------------------------------------------------------ the end

    def _finish_if_empty(self) -> None:
        if self._empty_ms is None or self._finished:
            return
        if not self._releasing:
            self._say(orders.Empty(self._empty_ms))
            self._write_lease_file("ended")
        if self._over or self.start.view:
            self._say_ended("ended" if self._over else "inherited")
        elif not self._releasing:
            self._releasing = True
            self.tether.release(self._exit_record())
        elif boottime_ms() - self._empty_ms >= RELEASE_MS_MAX:
            self._say_ended("")

    def _exit_record(self) -> ExitRecord:
        known = self._exit or ExitRecord()
        reason = self.vigil.reason
        if reason is None or reason is Reason.LEFTOVER:
            return known
        return msgspec.structs.replace(known, reason=f"{reason.value}: {self._stop_text}"[:512])

    def _say_ended(self, released: str) -> None:
        if self._finished:
            return
        reason = self.vigil.reason
        ended = orders.Ended(
            exit=self._exit or ExitRecord(),
            reason="" if reason is None or reason is Reason.LEFTOVER else reason.value,
            text=self._stop_text,
            released=released,
            leftovers=self._leftovers,
            figures=self._figures,
            before_end=self.farewell.outcome,
        )
        self._say(ended if self._never is None else self._never)
        self._close_wrapper()
        self._finished = True

    def _never_ran(self, word: orders.NotStarted) -> None:
        """Nothing will be started: the lease is given back, if it is ours, then the wrapper hears why."""
        if self._never is None:
            self._never = word
            self._exit = ExitRecord(code=word.status(), reason=word.text[:512])

    # ------------------------------------------------------------ the wrapper

    def _listen(self, wrapper: socket.socket) -> None:
        try:
            while True:
                packet = wrapper.recv(orders.ORDER_BYTES_MAX)
                if not packet:
                    self._wrapper_gone()
                    return
                self._obey(orders.read_order(packet))
        except BlockingIOError:
            return
        except (OSError, msgspec.DecodeError):
            self._wrapper_gone()

    def _wrapper_gone(self) -> None:
        self._close_wrapper()
        self._stop(Reason.WRAPPER_GONE, "holdall run has ended")

    def _obey(self, order: orders.ToGuardian) -> None:
        self.silence.heard(_monotonic_ms())
        match order:
            case orders.Resume(foreground):
                self.silence.excused = False
                self._say(orders.GuardianPulse())
                if self.group is not None:
                    if foreground and self.terminal is not None:
                        self._terminal_given = self.terminal.give(self.group.pid)
                    self.group.pass_on(signal.SIGCONT)
            case orders.Forward(number):
                if self.group is not None:
                    self.group.pass_on(number)
                elif number in {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}:
                    self._stop(Reason.ASKED, f"interrupted by signal {number} before the command started")
            case orders.StopCommand(text):
                self._stop(Reason.ASKED, text)
            case orders.Pulse() | orders.Start():
                pass

    def _judge_wrapper(self) -> None:
        if self._wrapper is not None and self.silence.too_long(_monotonic_ms()):
            # Its orders may wait in the socket while we were the one that was stopped.
            self._listen(self._wrapper)
            if self.silence.too_long(_monotonic_ms()):
                seconds = self.silence.limit_ms / 1000
                self._stop(Reason.WRAPPER_SILENT, f"holdall run did not move for {seconds:g} s (stopped?)")

    def _pulse(self) -> None:
        now = boottime_ms()
        if now >= self._pulse_at_ms:
            self._pulse_at_ms = now + pulse_every_ms(self.start.ttl_ms)
            if not self.silence.excused:
                self._say(orders.GuardianPulse())
            if (self.start.limits.asked() or self.start.has_command_terms) and self._empty_ms is None:
                self._measure()

    def _say(self, report: orders.FromGuardian) -> None:
        if self._wrapper is None:
            return
        try:
            self._wrapper.send(orders.pack(report), socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return  # a stopped wrapper reads nothing, and is found silent before its socket is full
        except OSError:
            self._wrapper_gone()

    def _close_wrapper(self) -> None:
        if self._wrapper is not None:
            self._wrapper.close()
            self._wrapper = None

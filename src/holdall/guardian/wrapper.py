"""The side of the one who starts a guardian: gives it its orders, shows it that he lives, passes signals and stops on.

He is the second line, too: when the guardian itself is killed or does not move at the deadline, he ends the command.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from holdall.guardian import group as processes
from holdall.guardian import orders
from holdall.guardian.clock import boottime_ms
from holdall.guardian.enforcement.ladder import discard
from holdall.guardian.keeper import pulse_every_ms
from holdall.guardian.signals import Signals
from holdall.guardian.terminal import Terminal
from holdall.guardian.vigil import Vigil

SECOND_LINE_MS = 200
"""How long after the deadline a guardian must have ended the command before its wrapper does."""
RESUME_SECONDS = 0.2


class GuardianDied(msgspec.Struct, frozen=True):
    """No last word: the guardian was killed. Nothing of the command is left; the lease has not been released."""


LastWord = orders.Ended | orders.NotStarted | GuardianDied


class Wrapper:
    """One guarded command. `signals` must be in force already, `start` is completed here with what the terminal is."""

    def __init__(
        self,
        start: orders.Start,
        command: Sequence[str],
        environment: Mapping[bytes, bytes],
        *,
        signals: Signals,
        on_report: Callable[[orders.FromGuardian], None],
        keep_open: Sequence[int] = (),
    ) -> None:
        """`keep_open`: descriptors that guardian and command inherit, e.g. of a lock that shows that they live."""
        self._terminal = Terminal.open()
        self._keep_open = tuple(keep_open)
        self._stop_text: str | None = None
        self._is_spawned = False
        self.start = msgspec.structs.replace(
            start,
            wrapper_group=os.getpgrp(),
            terminal=self._terminal is not None,
            foreground=self._is_whole_job_in_foreground(),
            ignored_signals=signals.ignored,
        )
        self._command = tuple(command)
        self._environment = dict(environment)
        self._signals = signals
        self._on_report = on_report
        self._vigil = Vigil(deadline_ms=start.deadline_ms, hard_end_ms=start.hard_end_ms, grace_ms=0)
        self._socket: socket.socket
        self._guardian: subprocess.Popen[bytes]
        self._command_pid = 0
        self._is_empty = False
        """Nothing of the command is left; what remains is talking to the node."""
        self._pulse_at = 0.0
        self._last_word: LastWord | None = None

    def run(self) -> LastWord:
        """Start the guardian, and stay until it has said its last word or has died.

        Raises OSError when it can't be started: nothing has run then, and the lease is still the caller's.
        """
        processes.become_subreaper()  # who the guardian leaves behind when it is killed comes to us
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            self._socket = self._spawn()
            with self._socket:
                self._tell(self.start)
                self._is_spawned = True
                if self._stop_text is not None:
                    self._tell(orders.StopCommand(self._stop_text))
                while self._last_word is None:
                    self._step()
                self._guardian.wait()
        finally:
            signal.signal(signal.SIGTTOU, before)
            if self._terminal is not None:
                self._terminal.close()
        return self._last_word

    def stop(self, text: str) -> None:
        """From any thread, or a signal handler: end the command (TERM, grace, KILL), then release."""
        self._stop_text = text
        if self._is_spawned:
            self._tell(orders.StopCommand(text))

    def _spawn(self) -> socket.socket:
        """The guardian is started; returns our end of what joins us."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._guardian = subprocess.Popen(
                    # -P: the folder we are in must not replace modules of the guardian.
                    [
                        sys.executable,
                        "-P",
                        "-m",
                        "holdall.guardian",
                        str(theirs.fileno()),
                        "--",
                        *self._command,
                    ],
                    env=self._environment,
                    pass_fds=(theirs.fileno(), *self._keep_open),
                    process_group=0,  # what the terminal sends to our job is not for the guardian
                )
            except OSError:
                ours.close()
                raise
        return ours

    def _step(self) -> None:
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        poll.register(self._socket, select.POLLIN)
        poll.poll(self._wait_ms())
        for number in self._signals.take():
            self._tell(orders.Forward(number))
        self._listen()
        self._pulse()
        self._judge_guardian()

    def _wait_ms(self) -> int:
        wait = max(self._pulse_at - time.monotonic(), 0) * 1000
        end = self._vigil.end_ms
        if end is not None:
            wait = min(wait, max(end + SECOND_LINE_MS - boottime_ms(), 0))
        return int(wait) + 1

    # ------------------------------------------------------------ talking

    def _tell(self, order: orders.ToGuardian) -> None:
        try:
            self._socket.send(orders.pack(order), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return  # it does not move; what the deadline asks for is done without it
        except OSError:
            self._guardian_died()

    def _listen(self) -> None:
        while self._last_word is None:
            try:
                packet = self._socket.recv(orders.ORDER_BYTES_MAX, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self._guardian_died()
                return
            self._hear(orders.read_report(packet))

    def _hear(self, report: orders.FromGuardian) -> None:
        match report:
            case orders.Renewed(_, deadline_ms, hard_end_ms, is_shorter) if not self._is_empty:
                if is_shorter:
                    self._vigil.deadline_ms = None
                self._vigil.renew(deadline_ms=deadline_ms, hard_end_ms=hard_end_ms)
            case orders.Started(pid):
                self._command_pid = pid
            case orders.Ended() | orders.NotStarted():
                self._last_word = report
            case orders.Empty():
                self._is_empty = True
                self._vigil.deadline_ms = self._vigil.hard_end_ms = None
            case _:
                pass
        self._on_report(report)
        if isinstance(report, orders.Halted):
            self._suspend(report.signal)

    def _pulse(self) -> None:
        if time.monotonic() >= self._pulse_at:
            self._pulse_at = time.monotonic() + pulse_every_ms(self.start.ttl_ms) / 1000
            self._tell(orders.Pulse())

    # ------------------------------------------------------------ job control

    def _in_foreground(self) -> bool:
        return self._terminal is not None and self._terminal.foreground() == os.getpgrp()

    def _is_whole_job_in_foreground(self) -> bool:
        """In a pipeline the others may need the terminal (`… | less`): there the command gets it when it asks."""
        return self._in_foreground() and all(os.isatty(file) for file in (0, 1))

    def _suspend(self, number: int) -> None:
        """The command was stopped: stop our whole job, as a shell expects it; go on when the shell says so."""
        if number in {signal.SIGTTIN, signal.SIGTTOU} and self._in_foreground():
            self._tell(orders.Resume(foreground=True))
            return
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        stopped_at = time.monotonic()
        os.killpg(os.getpgrp(), signal.SIGTSTP)
        # …here we are stopped, until somebody sends SIGCONT.
        signal.signal(signal.SIGTSTP, ours)
        if time.monotonic() - stopped_at < RESUME_SECONDS:
            # No shell controls this job (the kernel has not stopped us): a command that stops again and again
            # must not keep us busy.
            time.sleep(RESUME_SECONDS)
        self._tell(orders.Resume(foreground=self._in_foreground()))

    # ------------------------------------------------------------ second line

    def _judge_guardian(self) -> None:
        end = self._vigil.end_ms
        if self._last_word is not None or end is None or boottime_ms() < end + SECOND_LINE_MS:
            return
        self._guardian.kill()
        self._guardian_died()

    def _guardian_died(self) -> None:
        """What it started is ours now (or dies with it): end it all."""
        if self._last_word is not None:
            return
        self._last_word = GuardianDied()
        self._guardian.kill()
        self._guardian.wait()
        nobody_left = False
        while not nobody_left:
            processes.kill_descendants()
            _, nobody_left = processes.reap()
            if not nobody_left:
                time.sleep(0.01)
        discard(self._guardian.pid)
        if self._terminal is not None and self.start.foreground:
            self._terminal.give(os.getpgrp())

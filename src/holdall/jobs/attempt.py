"""`python -m holdall.jobs.attempt FOLDER LOCK`: one attempt of a task. Started by a runner, and outlives it.

It claims what the task needs, has its command guarded as `holdall run` does, and writes down what happens. LOCK is the
descriptor of the attempt's lock, which it passes on to guardian and command. SIGTERM ends the attempt.
"""

import contextlib
import os
import select
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import msgspec

from holdall.client.address import url_of
from holdall.client.calls import ClaimCall
from holdall.client.conversation import Conversation
from holdall.client.link import Link
from holdall.client.surroundings import (
    LEASE_FILE_NAME,
    child_environment,
    lease_folder,
    remove_lease_folder,
)
from holdall.client.tenure import Tenure
from holdall.guardian import orders
from holdall.guardian.clock import boottime_ms
from holdall.guardian.grace import grace_ms, ttl_of_command
from holdall.guardian.signals import Signals
from holdall.guardian.vigil import LOSSES, Reason
from holdall.guardian.wrapper import GuardianDied, LastWord, Wrapper
from holdall.jobs.bare import run_bare
from holdall.jobs.elsewhere import run_elsewhere
from holdall.jobs.entries import TEXT_MAX, Outcome
from holdall.jobs.facts import Done, Facts, Got, Order, Starting, Stopping, units_shown
from holdall.jobs.folders import BEGUN, FACTS, ORDER, PID, write_synced
from holdall.jobs.waiting_text import waiting_text
from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.errors import (
    BadSpec,
    HoldallError,
    NeverSatisfiable,
    NotGranted,
    Refused,
    Unreachable,
    WouldDeadlock,
)
from holdall.model.spec import parse_needs

NODE_AGAIN_S = 0.5
_STOPPED_WITH_LEASE = {reason.value for reason in LOSSES} | {Reason.WRAPPER_SILENT.value}


class _Stopped(Exception):
    """SIGTERM came before the command could run."""


class Attempt:
    """One of them, in its own process."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.order = msgspec.json.decode((folder / ORDER).read_bytes(), type=Order)
        self.facts_file = folder / FACTS
        self.facts = Facts(self.facts_file)
        self.begun = folder / BEGUN
        # A runner that was killed before it knew our number must not matter to the next one.
        write_synced(folder / PID, b"%d\n" % os.getpid())
        self.signals = Signals(())
        self.stopped = False
        self.timed_out = False
        self._lock = lock
        self._queued = ""
        self._wrapper: Wrapper | None = None
        self._timer: threading.Timer | None = None
        signal.signal(signal.SIGTERM, self._stop)

    def run(self) -> None:
        """From the claim to the last line of its facts."""
        try:
            outcome = self._outcome()
        except _Stopped:
            outcome = Outcome("unstarted", None, "stopped before it began")
        except NotGranted as problem:
            outcome = Outcome("not-granted", None, problem.text)
        except (NeverSatisfiable, Refused, BadSpec, WouldDeadlock) as problem:
            outcome = Outcome("refused", None, problem.text)
        except HoldallError as problem:
            outcome = Outcome("unstarted", None, problem.text)
        except OSError as problem:
            # No folder, no guardian (too many processes, too little memory): nothing has run.
            outcome = Outcome("unstarted", None, f"not started: {problem}")
        self.facts.write(Done(msgspec.structs.replace(outcome, text=outcome.text[:TEXT_MAX])))

    def _outcome(self) -> Outcome:
        try:
            os.chdir(self.order.folder)
        except OSError as problem:
            return Outcome("refused", None, f"folder {self.order.folder}: {problem.strerror}")
        if self.order.on:
            self._begins()
            return run_elsewhere(self)
        if not self.order.needs:
            self._begins()
            return run_bare(self)
        link = self._link()
        try:
            tenure = self._claim(link)
            units = tuple(f"{one.pool}/{one.name}@{one.node}#{one.fence}" for one in tenure.lease.units)
            self.facts.write(Got(tenure.lease.lease, units_shown(units)))
            folder = lease_folder()
            environment = child_environment(
                {os.fsencode(name): os.fsencode(text) for name, text in self.order.environment.items()},
                tenure,
                node_url=url_of(link.where),
                lease_file=str(folder / LEASE_FILE_NAME),
                settings=(),
            )
            self._begins()
            link.hand_over(tenure)
        finally:
            link.close()
        return self._guarded(tenure, link.where, folder, environment)

    def _begins(self) -> None:
        if self.stopped:
            raise _Stopped
        self.facts.write(Starting())

    # ------------------------------------------------------------ waiting

    def _link(self) -> Link:
        """A session with the node; one that is down is waited for, as long as the claim may wait."""
        end = None if self.order.wait_ms is None else boottime_ms() + self.order.wait_ms
        while True:
            try:
                link = Link(self.order.node_socket, role="cli", agent=self.order.agent)
                link.open()
            except Unreachable as problem:
                if end is not None and boottime_ms() >= end:
                    raise
                self.says_queued(f"the node does not answer: {problem.text}")
                self._wait(NODE_AGAIN_S)
            else:
                return link

    def _claim(self, link: Link) -> Tenure:
        order, welcome = self.order, link.welcome
        ttl_ms = ttl_of_command(order.ttl_ms, welcome, named="ttl")
        claim = frames.Claim(
            n=0,
            needs=parse_needs(order.needs),
            wait_ms=order.wait_ms,
            ttl_ms=ttl_ms,
            for_ms=order.hold_for_ms,
            reason=order.reason[:512],
            site=order.site[:512],
            guarded=True,
        )
        call: ClaimCall = link.claim(claim, on_queued=lambda _: self.signals.poke())
        call.future.add_done_callback(lambda _: self.signals.poke())
        try:
            while not call.done:
                if call.why is not None:
                    self.says_queued(waiting_text(call.why))
                self._wait(1.0)
            return call.future.result()
        except BaseException:
            link.abandon(call)
            raise

    def says_queued(self, text: str) -> None:
        """What it waits for, if that is news."""
        if text != self._queued:
            self._queued = text
            self.facts.waits(text[:TEXT_MAX])

    def _wait(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self.signals, select.POLLIN)
        poll.poll(seconds * 1000)
        self.signals.take()
        if self.stopped:
            raise _Stopped

    def _stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.stopped = True
        self.signals.poke()
        if self._wrapper is not None:
            self._wrapper.stop("the job ends it")

    # ------------------------------------------------------------ the command

    def _guarded(self, tenure: Tenure, node: str, folder: Path, environment: dict[bytes, bytes]) -> Outcome:
        start = orders.Start(
            key=tenure.key,
            lease=tenure.lease,
            node=node,
            ttl_ms=tenure.ttl_ms,
            deadline_ms=tenure.deadline_ms,
            hard_end_ms=tenure.hard_end_ms,
            grace_ms=grace_ms(tenure.hard_end_ms),
            agent=self.order.agent,
            lease_file=str(folder / LEASE_FILE_NAME),
        )
        wrapper = Wrapper(
            start,
            self.order.command,
            environment,
            signals=self.signals,
            on_report=self._hear,
            keep_open=(self._lock,),
        )
        self._wrapper = wrapper
        if self.stopped:
            wrapper.stop("the job ends it")
        try:
            last = wrapper.run()
        except OSError:
            _release(tenure, node)
            raise
        finally:
            self._wrapper = None
            if self._timer is not None:
                self._timer.cancel()
            remove_lease_folder(folder)
        if isinstance(last, GuardianDied):
            _release(tenure, node)
        return self._judged(last)

    def _limit(self) -> None:
        """From now on its time runs."""
        wrapper = self._wrapper
        if self.order.timeout_ms is None or wrapper is None:
            return

        def over() -> None:
            self.timed_out = True
            wrapper.stop(self.timeout_text())

        self._timer = threading.Timer(self.order.timeout_ms / 1000, over)
        self._timer.daemon = True
        self._timer.start()

    def timeout_text(self) -> str:
        """Why it was stopped."""
        return f"it ran longer than {show_duration(self.order.timeout_ms or 0)}"

    def _hear(self, report: orders.FromGuardian) -> None:
        if isinstance(report, orders.Started):
            self._limit()
        elif isinstance(report, orders.Stopping):
            self.facts.write(Stopping(report.text[:TEXT_MAX]))

    def _judged(self, last: LastWord) -> Outcome:
        match last:
            case GuardianDied():
                return Outcome(
                    "lost", None, "the process that guarded it was killed, and the command with it"
                )
            case orders.NotStarted():
                status = last.status()
                if status is not None:
                    return Outcome("refused", status, f"cannot run {self.order.command[0]}: {last.text}")
                return Outcome("unstarted", None, last.text)
            case orders.Ended():
                pass
        status = 128 + last.exit.signal if last.exit.signal is not None else last.exit.code
        if last.reason in _STOPPED_WITH_LEASE:
            return Outcome("lost", status, last.text)
        return self.plain(status, was_stopped=last.reason == Reason.ASKED.value)

    def plain(self, status: int | None, *, was_stopped: bool) -> Outcome:
        """Of a command that has not lost its lease."""
        if was_stopped and self.timed_out and not self.stopped:
            return Outcome("timeout", status, self.timeout_text())
        if was_stopped:
            return Outcome("failed", status, "stopped")
        if status == 0:
            return Outcome("ok", 0)
        return Outcome("failed", status, f"exit status {status}")


def _release(tenure: Tenure, node: str) -> None:
    """The guardian can't. Where the node does not answer, the lease runs out by itself."""
    record = frames.ExitRecord(reason="the guardian was killed; nothing of the command is left")
    with contextlib.suppress(HoldallError), Conversation(node) as conversation:
        conversation.ask(frames.Release(n=conversation.number(), key=tenure.key, exit=record))


def main(arguments: list[str]) -> int:
    """The status says nothing; the facts say everything."""
    if len(arguments) != 2 or not arguments[1].isdecimal():
        sys.stderr.write("holdall.jobs.attempt is started by a job's runner; see: holdall job --help\n")
        return 64
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    lock = int(arguments[1])
    os.set_inheritable(lock, True)
    attempt = Attempt(Path(arguments[0]), lock)
    attempt.run()
    attempt.facts.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

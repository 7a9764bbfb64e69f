"""The course of one `holdall run`: claim, wait, hand the lease to a guardian, tell how it ended."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from holdall.cli.enforcing import kept_text
from holdall.cli.options import BOUNDED_NOTE, HOUR_MS
from holdall.cli.run_lines import RunLines, lost_text
from holdall.cli.run_told import tell_starter
from holdall.client import scope
from holdall.client.address import url_of
from holdall.client.calls import ClaimCall
from holdall.client.conversation import Conversation
from holdall.client.link import Link
from holdall.client.opening import open_link
from holdall.client.recorder import Recorder, client_name, open_recorder
from holdall.client.surroundings import (
    LEASE_FILE_NAME,
    check_settings,
    child_environment,
    lease_folder,
    remove_lease_folder,
)
from holdall.client.tenure import Tenure
from holdall.client.wishes import default_agent
from holdall.guardian import orders
from holdall.guardian.clock import boottime_ms
from holdall.guardian.enforcement.figures import Limits
from holdall.guardian.grace import grace_ms, ttl_of_command
from holdall.guardian.signals import Signals
from holdall.guardian.vigil import LOSSES, Reason
from holdall.guardian.wrapper import GuardianDied, LastWord, Wrapper
from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.errors import BY_CODE, BadSpec, HoldallError, LeaseLost, NotGranted
from holdall.model.names import short_id

LOST_STATUS = LeaseLost.exit_status
_ENDING = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}
_STOPPED_WITH_LEASE = {reason.value for reason in LOSSES} | {Reason.WRAPPER_SILENT.value}


class Wishes(msgspec.Struct, frozen=True):
    """The command line, read."""

    command: tuple[str, ...]
    needs: tuple[frames.Need, ...]
    wait_ms: int | None
    wait_given: bool
    now: bool
    ttl_ms: int | None
    for_ms: int | None
    reason: str
    on: str
    settings: tuple[tuple[str, str], ...]
    not_granted_status: int
    history: str
    independent: bool
    allow_future: bool
    json: bool
    url: str
    patient: bool
    """Somebody sits at a terminal: waiting needs no limit."""
    limits: Limits = Limits()
    stay_ms: int | None = None
    before_end: orders.BeforeEnd | None = None


def read_settings(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """`--set VAR=POOL` as pairs. Raises BadSpec."""
    pairs: list[tuple[str, str]] = []
    for text in texts:
        variable, equals, pool = text.partition("=")
        if not equals or not pool or not variable.isidentifier() or not variable.isascii():
            raise BadSpec(f"--set {text!r}: write VAR=POOL, e.g. --set CUDA_VISIBLE_DEVICES=gpu")
        pairs.append((variable, pool))
    return tuple(pairs)


class Interrupted(Exception):
    """A signal came while nothing was held yet."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Run:
    """One run; `run` gives the exit status."""

    def __init__(self, wishes: Wishes) -> None:
        self.wishes = wishes
        self.lines = RunLines(as_json=wishes.json)
        self.signals = Signals()
        self.stopped_at_ms: int | None = None
        self._empty_stamp = 0
        self._bounded = False
        """The wait has a limit that nobody asked for."""
        self._tenure: Tenure
        self._recorder = Recorder(None)

    def run(self) -> int:
        """Raises HoldallError for everything that kept the command from running, except what -E is for."""
        try:
            return self._run()
        except NotGranted as problem:
            self.lines.ended("not-granted", problem.text)
            return self.wishes.not_granted_status
        except Interrupted as interrupted:
            return 128 + interrupted.number
        except HoldallError:
            raise  # some of these are OSErrors, too: Unreachable, Refused
        except OSError as problem:
            # No place for the lease file, no guardian (too many processes, too little memory): nothing has run.
            name = self.wishes.command[0]
            self.lines.ended("not-started", f"{name} was not started: {problem}. See: holdall doctor")
            return 126
        finally:
            self.lines.close()
            self.signals.restore()
            self._recorder.close()

    def _run(self) -> int:
        if not self.wishes.command:
            raise BadSpec(
                "nothing to run. Put the command after --, e.g. holdall run --need gpu:1 -- nvidia-smi"
            )
        link = open_link(
            self.wishes.url or None, agent=default_agent(), history=self.wishes.history or None, role="cli"
        )
        try:
            claim = self._claim(link.welcome)
            check_settings(self.wishes.settings, self.wishes.needs)
            started = time.monotonic()
            tenure = self._wait(link, link.claim(claim, on_queued=self._queued))
            left = None if tenure.hard_end_ms is None else tenure.hard_end_ms - boottime_ms()
            self.lines.granted(
                tenure.lease, waited_seconds=time.monotonic() - started, for_left_ms=left, view=tenure.view
            )
            tell_starter(tenure.lease)
            where, node = link.where, link.welcome.node
            folder = lease_folder()
            environment = child_environment(
                os.environb,
                tenure,
                node_url=url_of(where),
                lease_file=str(folder / LEASE_FILE_NAME),
                settings=self.wishes.settings,
            )
            link.hand_over(tenure)
        finally:
            link.close()
        self._tenure = tenure
        self._recorder = open_recorder(self.wishes.history or None, client_name(default_agent()))
        return self._guard(where, node, folder, environment)

    # ------------------------------------------------------------ waiting

    def _claim(self, welcome: frames.Welcome) -> frames.Claim:
        wishes = self.wishes
        ttl_ms = ttl_of_command(wishes.ttl_ms, welcome, named="--ttl")
        wait_ms = wishes.wait_ms if wishes.wait_given else welcome.wait_ms
        if not wishes.wait_given and wait_ms is None and not wishes.patient and not wishes.now:
            wait_ms = HOUR_MS
            self._bounded = True
        return frames.Claim(
            n=0,
            needs=wishes.needs,
            wait_ms=wait_ms,
            now=wishes.now,
            ttl_ms=ttl_ms,
            for_ms=wishes.for_ms,
            reason=wishes.reason,
            site=f"holdall run {wishes.command[0]}"[:512],
            under="" if wishes.independent else os.environ.get(scope.LEASE_ENV, ""),
            independent=wishes.independent,
            allow_future=wishes.allow_future,
            guarded=True,
        )

    def _queued(self, queued: frames.Queued) -> None:
        """In the link's thread; the text is written by ours."""
        del queued
        self.signals.poke()

    def _wait(self, link: Link, call: ClaimCall) -> Tenure:
        call.future.add_done_callback(lambda _: self.signals.poke())
        shown = None
        poll = select.poll()
        poll.register(self.signals, select.POLLIN)
        try:
            while not call.done:
                if call.why is not None and call.why is not shown:
                    if self._bounded and shown is None:
                        self.lines.note(BOUNDED_NOTE)
                    shown = call.why
                    self.lines.queued(shown)
                else:
                    self.lines.waits_on()
                poll.poll(1000)
                for number in self.signals.take():
                    self._obey_while_waiting(number)
            return call.future.result()
        except BaseException:
            link.abandon(call)
            raise

    @staticmethod
    def _obey_while_waiting(number: int) -> None:
        if number in _ENDING:
            raise Interrupted(number)
        if number != signal.SIGTSTP:
            return
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)

    # ------------------------------------------------------------ the command

    def _guard(self, where: str, node: str, folder: Path, environment: Mapping[bytes, bytes]) -> int:
        tenure = self._tenure
        start = orders.Start(
            key=tenure.key,
            lease=tenure.lease,
            node=where,
            ttl_ms=tenure.ttl_ms,
            deadline_ms=tenure.deadline_ms,
            hard_end_ms=tenure.hard_end_ms,
            grace_ms=grace_ms(tenure.hard_end_ms),
            view=self.wishes.needs if tenure.view else (),
            agent=default_agent(),
            lease_file=str(folder / LEASE_FILE_NAME),
            limits=self.wishes.limits,
            stay_ms=self.wishes.stay_ms,
            before_end=self.wishes.before_end,
        )
        wrapper = Wrapper(start, self.wishes.command, environment, signals=self.signals, on_report=self._hear)
        try:
            last = wrapper.run()
        except OSError:
            self._release_ourselves(where)  # no guardian could be started
            raise
        finally:
            remove_lease_folder(folder)
        return self._status(last, where, node)

    def _hear(self, report: orders.FromGuardian) -> None:
        match report:
            case orders.Renewed(sent_ms, deadline_ms, _):
                if sent_ms != self._tenure.sent_ms:
                    self._tenure.renew(sent_ms, deadline_ms - sent_ms)
                    self._recorder.renewed(self._tenure)
            case orders.Started(enforced=enforced):
                if text := kept_text(enforced):
                    self.lines.note(text)
            case orders.Stopping(reason, text):
                self.stopped_at_ms = time.time_ns() // 1_000_000
                if reason not in _STOPPED_WITH_LEASE:
                    self.lines.note(f"stopping the command: {text}")
            case orders.Empty(at_ms):
                if self.stopped_at_ms is not None:
                    self.stopped_at_ms = time.time_ns() // 1_000_000
                self._empty_stamp = self._recorder.releasing(self._tenure, at_ms=at_ms)
            case orders.Ended(released=what):
                self._recorder.released(self._tenure, self._empty_stamp, ok=True if what else None)
            case orders.NotStarted():
                self._recorder.released(self._tenure, self._empty_stamp, ok=None)
            case _:
                pass

    def _status(self, last: LastWord, where: str, node: str) -> int:
        match last:
            case GuardianDied():
                self._release_ourselves(where)
                return self._lost("the process that guarded it was killed, and the command with it")
            case orders.NotStarted():
                return self._not_started(last)
            case orders.Ended():
                pass
        if last.before_end:
            self.lines.note(f"before the end: {last.before_end}")
        self.lines.used(last.figures)
        if last.leftovers:
            some = "process that" if last.leftovers == 1 else "processes that"
            self.lines.note(f"ended {last.leftovers} {some} outlived the command")
        if not last.released and not self._tenure.view:
            ttl = show_duration(self._tenure.ttl_ms)
            self.lines.note(
                f"{node} has not confirmed the release; the units are free at the latest {ttl} after its return"
            )
        if last.reason in _STOPPED_WITH_LEASE:
            return self._lost(last.text)
        if last.exit.signal is not None:
            return 128 + last.exit.signal
        return last.exit.code or 0

    def _lost(self, why: str) -> int:
        self.lines.ended("lost", lost_text(self._tenure.lease, why, stopped_at_ms=self.stopped_at_ms))
        return LOST_STATUS

    def _not_started(self, word: orders.NotStarted) -> int:
        name = self.wishes.command[0]
        status = word.status()
        if status is not None:
            self.lines.ended("not-started", f"cannot run {name}: {word.text}")
            return status
        if word.code:
            self.lines.ended(
                "lost",
                f"lease {short_id(self._tenure.lease.lease)} was lost before {name} started: {word.text}",
            )
            return LOST_STATUS if word.code == "not-holder" else BY_CODE.get(word.code, LeaseLost).exit_status
        self.lines.ended("not-started", f"{name} was not started: {word.text}")
        return 128 + signal.SIGINT

    def _release_ourselves(self, where: str) -> None:
        """The guardian can't any more. Where the node does not answer, the lease runs out by itself."""
        record = frames.ExitRecord(reason="the guardian was killed; nothing of the command is left")
        stamp, ok = self._recorder.releasing(self._tenure), None
        with contextlib.suppress(HoldallError), Conversation(where) as node:
            node.ask(frames.Release(n=node.number(), key=self._tenure.key, exit=record))
            ok = True
        self._recorder.released(self._tenure, stamp, ok=ok)

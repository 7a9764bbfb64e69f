"""A command that needs no resources: in a group of its own, stopped in time, and nobody of it left when this returns."""

import os
import select
import time
from typing import Protocol

from holdall.guardian import group as processes
from holdall.guardian.enforcement.figures import Limits
from holdall.guardian.enforcement.ladder import Containment
from holdall.guardian.signals import Signals
from holdall.jobs.entries import Outcome
from holdall.jobs.facts import Order

GRACE_S = 5.0
KILL_AGAIN_S = 0.05
_SIGTERM = 15
_SIGCONT = 18


class Bare(Protocol):
    """What it needs of the attempt that it is part of."""

    order: Order
    signals: Signals
    stopped: bool
    timed_out: bool

    def plain(self, status: int | None, *, was_stopped: bool) -> Outcome:
        """How it ended."""
        ...


def run_bare(attempt: Bare) -> Outcome:
    """Run it to its end. Raises OSError when nothing could be started."""
    order = attempt.order
    os.environ.clear()
    os.environ.update(order.environment)
    processes.become_subreaper()
    try:
        group = processes.start(
            order.command,
            terminal=None,
            ignored=(),
            containment=Containment.make(Limits()),
        )
    except OSError as problem:
        not_run = 127 if isinstance(problem, FileNotFoundError) else 126
        return Outcome("refused", not_run, f"cannot run {order.command[0]}: {problem.strerror}")
    end = None if order.timeout_ms is None else time.monotonic() + order.timeout_ms / 1000
    exit_of: processes.Ended | None = None
    stopped_at: float | None = None
    while True:
        happened, nobody_left = processes.reap()
        for event in happened:
            if isinstance(event, processes.Ended) and event.pid == group.pid:
                exit_of = event
        if nobody_left:
            break
        now = time.monotonic()
        if end is not None and now >= end and stopped_at is None and exit_of is None:
            attempt.timed_out = True
        is_due = attempt.stopped or attempt.timed_out or exit_of is not None
        if is_due and stopped_at is None:
            # Who has outlived the command is ended after it, as by a guardian.
            stopped_at = now
            group.signal(_SIGTERM)
            group.signal(_SIGCONT)
        elif stopped_at is not None and now >= stopped_at + GRACE_S:
            group.kill()
        _wait(attempt.signals, end, stopped_at, now)
    group.close()
    was_stopped = attempt.stopped or attempt.timed_out
    if exit_of is None:
        return attempt.plain(None, was_stopped=was_stopped)
    status = exit_of.code if exit_of.signal is None else 128 + exit_of.signal
    return attempt.plain(status, was_stopped=was_stopped and status != 0)


def _wait(signals: Signals, end: float | None, stopped_at: float | None, now: float) -> None:
    if stopped_at is not None:
        left = stopped_at + GRACE_S - now
        seconds = left if left > 0 else KILL_AGAIN_S
    else:
        seconds = 60.0 if end is None else min(60.0, max(end - now, 0.0))
    poll = select.poll()
    poll.register(signals, select.POLLIN)
    poll.poll(seconds * 1000 + 1)
    signals.take()

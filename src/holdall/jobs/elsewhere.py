"""A task on another node: an attempt's command is a `holdall run --on NODE`, and the other host keeps its attempts apart.

What is known here of a command there can be late: a node falls silent, a start that was sent goes astray and arrives after
all. So never twice at once is kept where the command runs. It begins as a few lines of shell that take a lock of the task's
own and are refused when a later attempt has had it; the command and all that it starts inherit the lock, as attempts here do.
"""

import select
import sys
from pathlib import Path
from typing import Protocol

import msgspec

from holdall.client.scope import BEGUN_ENV, FACTS_ENV
from holdall.guardian.clock import boottime_ms
from holdall.guardian.signals import Signals
from holdall.jobs.bare import Bare, run_bare
from holdall.jobs.entries import Outcome
from holdall.jobs.facts import Order
from holdall.model.errors import LeaseLost, NeverSatisfiable, NotGranted, Refused, Unreachable

AGAIN_S = 2.0
"""Until a node that can't be reached is asked again."""
TRIES_MAX = 100_000
"""Of one attempt, so that numbers of the next one are greater."""
BEFORE_IT_S = 60
"""How long the lock is waited for: an earlier attempt there has its grace, then its kill."""
SCRIPT = """
folder=${XDG_STATE_HOME:-$HOME/.local/state}/holdall/elsewhere
mkdir -p -m 700 "$folder" || exit 77
exec 9<>"$folder/$1"
flock -w "$3" 9 || { echo "holdall: an earlier attempt has not ended on this host" >&2; exit 79; }
read -r last <&9
[ "${last:-0}" -lt "$2" ] || { echo "holdall: a later attempt has begun on this host" >&2; exit 77; }
echo "$2" >"$folder/$1"
shift 3
exec env "$@"
"""
_EXEC = ("/bin/sh", "-c", 'exec "$@"', "sh")
"""Between the environment and the command, whose first word may have a `=`."""


class Away(Bare, Protocol):
    """What it needs of the attempt that it is part of."""

    facts_file: Path
    """Where what happens is written down,"""
    begun: Path
    """and the file that says whether the other node has begun."""

    def says_queued(self, text: str) -> None:
        """What it waits for."""
        ...


def run_elsewhere(attempt: Away) -> Outcome:
    """Run it to its end; a node that can't be reached is asked again, as long as `wait` lasts."""
    order = attempt.order
    end = None if order.wait_ms is None else boottime_ms() + order.wait_ms
    for number in range(TRIES_MAX):
        if attempt.stopped:
            break
        left = None if end is None else max(0, end - boottime_ms())
        attempt.order = msgspec.structs.replace(
            order,
            command=command_there(order, number, left),
            environment={
                **order.environment,
                BEGUN_ENV: str(attempt.begun),
                FACTS_ENV: str(attempt.facts_file),
            },
            timeout_ms=None,
        )
        outcome = run_bare(attempt)
        is_away = outcome.kind == "failed" and outcome.status == Unreachable.exit_status
        if not is_away or attempt.begun.exists():
            return judged(outcome, order.on)
        if left is not None and left <= AGAIN_S * 1000:
            return Outcome("not-granted", None, f"{order.on} could not be reached within its wait")
        attempt.says_queued(f"{order.on} can't be reached; it is asked again")
        _pause(attempt.signals)
    return Outcome("failed", None, "stopped")


def command_there(order: Order, number: int, wait_ms: int | None) -> tuple[str, ...]:
    """The words of the `holdall run` here; `number` counts the tries of this attempt, from 0."""
    words = [sys.executable, "-P", "-m", "holdall.cli", "run", f"--on={order.on}"]
    for first, *others in order.needs:
        words += ["--need", first]
        for other in others:
            words += ["--or", other]
    words.append("--wait=inf" if wait_ms is None else f"--wait={wait_ms}ms")
    for option, ms in (("--ttl", order.ttl_ms), ("--for", order.hold_for_ms)):
        if ms is not None:
            words.append(f"{option}={ms}ms")
    fence = order.attempt * TRIES_MAX + number
    lock = ("/bin/sh", "-c", SCRIPT, "sh", order.task_key, str(fence), str(BEFORE_IT_S))
    own = [f"{name}={value}" for name, value in order.own.items()]
    return (*words, f"--reason={order.reason[:512]}", "--", *lock, *own, *_EXEC, *order.command)


def judged(outcome: Outcome, node: str) -> Outcome:
    """Of a `holdall run`: its exit status says what a command's own can't."""
    if outcome.kind != "failed" or outcome.text == "stopped":
        return outcome
    match outcome.status:
        case LeaseLost.exit_status:
            return Outcome("lost", None, f"its lease was lost, or {node} was; its output says more")
        case NotGranted.exit_status:
            return Outcome("not-granted", None, f"its needs did not come free for {node}")
        case NeverSatisfiable.exit_status | Refused.exit_status | 64:
            return Outcome("refused", outcome.status, f"{node} can't or may not run it; its output says why")
        case _:
            return outcome


def _pause(signals: Signals) -> None:
    poll = select.poll()
    poll.register(signals, select.POLLIN)
    poll.poll(AGAIN_S * 1000)
    signals.take()

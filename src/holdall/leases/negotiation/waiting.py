"""The line of a location: requests that can't be met now and may wait.

A request with `wait_ms` stands in line from when it comes until it is offered something, is refused for good, or has waited
for so long; then it is declined as it was last. In each heartbeat's time those are tried again that share no term with one
that stands before them, so a large one is not passed by small ones for ever. For the same reason a request that may not
wait is declined where it shares a term with one in line, as a claim without waiting would be. A renewal waits for nobody.
The line is the leading manager's and is lost with it; whoever waits asks the next one. Source: lease negotiation, 3.4 and 4.2.
"""

from collections.abc import Hashable, Iterable
from itertools import takewhile

import msgspec

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.desk import Asked
from holdall.leases.negotiation.settling import Kept
from holdall.leases.negotiation.unheard import LIMITS_UNSURE
from holdall.machine.contract import CancelTimer, Send, SetTimer
from holdall.protocols.hooks import Effects

WAIT_TIMER, LINE_TIMER, QUIET_TIMER = "wait", "line", "quiet"
QUIET_MS = 60_000
"""Whoever waits asks every few seconds. One who has said nothing for so long holds nobody up any more: his node is gone."""
WAIT_MS_MAX = 3_600_000
LINE_MOST = 1000
"""Requests in line; more are told to come again."""
OTHERS_WAIT = "others_wait"
MAY_COME = frozenset({"oversubscribed", "not_free", "no_answer", OTHERS_WAIT, LIMITS_UNSURE})
"""Reasons that time may mend."""


class Waiter(msgspec.Struct, frozen=True):
    """One in line. `last`: as it was declined last; None: it is being asked for the first time."""

    kept: Kept
    last: m.Declined | None = None


class Line:
    """In the order in which they came."""

    def __init__(self) -> None:
        self.waiters: dict[Asked, Waiter] = {}

    @property
    def waiting(self) -> int:
        """How many could not be met when that was tried last."""
        return sum(one.last is not None for one in self.waiters.values())

    def joins(self, kept: Kept, heartbeat_ms: int, out: Effects) -> bool:
        """At its end, if it is not there. False: there are too many."""
        asked = asked_of(kept)
        if asked in self.waiters:
            return True
        if len(self.waiters) >= LINE_MOST:
            return False
        if not self.waiters:
            out.append(SetTimer(LINE_TIMER, heartbeat_ms))
        self.waiters[asked] = Waiter(kept)
        out.append(SetTimer(_timer(asked), kept.message.request.wait_ms))
        self.hears(asked, out)
        return True

    def hears(self, asked: Asked, out: Effects) -> None:
        """Whoever waits has asked again."""
        if asked in self.waiters:
            out.append(SetTimer(_timer(asked, QUIET_TIMER), QUIET_MS))

    def waits_on(self, asked: Asked, declined: m.Declined, out: Effects) -> bool:
        """It was declined, and may yet be met. Told once where it stands. False: it does not stand in line."""
        waiter = self.waiters.get(asked)
        if waiter is None or declined.reason not in MAY_COME:
            return False
        self.waiters[asked] = msgspec.structs.replace(waiter, last=declined)
        if waiter.last is None:
            self.tells(asked, out)
        return True

    def tells(self, asked: Asked, out: Effects) -> None:
        """Where it stands by now; nothing before it has been declined for the first time."""
        waiter = self.waiters.get(asked)
        if waiter is None or waiter.last is None:
            return
        last, wanted = waiter.last, set(waiter.kept.message.request.terms)
        before = list(takewhile(lambda other: other != asked, self.waiters))
        ahead = sum(not wanted.isdisjoint(self.waiters[other].kept.message.request.terms) for other in before)
        queued = m.Queued(asked[1], len(before) + 1, ahead, last.reason, last.term, last.best_possible)
        out.append(Send(waiter.kept.agent, queued))

    def leaves(self, asked: Asked, out: Effects) -> Waiter | None:
        """It is offered something, or is over."""
        waiter = self.waiters.pop(asked, None)
        if waiter is not None:
            out += (CancelTimer(_timer(asked)), CancelTimer(_timer(asked, QUIET_TIMER)))
        if waiter is not None and not self.waiters:
            out.append(CancelTimer(LINE_TIMER))
        return waiter

    def named(self, name: str) -> Asked | None:
        """Whose timer that is."""
        return next((asked for asked in self.waiters if f"{asked[0]} {asked[1]}" == name), None)

    def is_behind(self, asked: Asked, terms: Iterable[str]) -> bool:
        """Whether one that stands before it wants one of these terms."""
        wanted = set(terms)
        for other, waiter in self.waiters.items():
            if other == asked:
                return False
            if not wanted.isdisjoint(waiter.kept.message.request.terms):
                return True
        return False

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return repr(list(self.waiters.items()))

    def copy(self) -> "Line":
        """An independent twin."""
        twin = Line()
        twin.waiters = dict(self.waiters)
        return twin


def asked_of(kept: Kept) -> Asked:
    """Holder and request."""
    return kept.asker.holder, kept.message.request.request


def _timer(asked: Asked, kind: str = WAIT_TIMER) -> str:
    return f"{kind}/{asked[0]} {asked[1]}"

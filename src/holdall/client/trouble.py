"""When the node is silent or gone: deadlines that pass, requests that get no answer, and coming back."""

import time
from typing import Any

from holdall.client.calls import Call, ClaimCall, ReleaseCall
from holdall.client.session import Session
from holdall.guardian.clock import boottime_ms
from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.errors import HoldallError, Refused, Unreachable
from holdall.model.names import short_id

ANSWER_MS_MAX = 15_000
"""A node that is connected and says nothing for so long does not count as reachable (a waiting claim has its wait)."""
AWAY_MS_MAX = 10_000
"""So long a request waits for the node to come back."""
AWAY_CLAIM_MS_MAX = 60_000
"""So long a waiting claim does; a node keeps its claims over a restart."""


class Trouble:
    """Judges a session by the clock."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def judge(self) -> None:
        """What the clock has ended: leases whose deadline has passed, requests without an answer."""
        now = boottime_ms()
        for tenure in list(self._session.tenures.values()):
            if tenure.lost is not None and not tenure.revoked:
                self._session.tenures.pop(tenure.lease.lease, None)
        for view in self._session.views:
            view.expire_if_due()
        for call in list(self._session.calls.values()):
            if call.answer_by_ms is not None and now >= call.answer_by_ms:
                self.fail(call, self._no_answer("it is connected, and has not answered in time"))
        if self._session.wire.ready:
            self._session.away_since_ms = None
        elif self._session.not_let_in:
            self._refused(self._session.not_let_in)

    def come_back(self) -> None:
        """The connection is gone: what can't be repeated has an unknown outcome, the rest is sent again."""
        now = boottime_ms()
        if self._session.away_since_ms is None:
            self._session.away_since_ms = now
            self._session.beats.clear()
            self._session.beat_sent_ms = 0
            for tenure in self._session.tenures.values():
                tenure.node_away_since_unix = tenure.node_away_since_unix or time.time()
            for call in list(self._session.calls.values()):
                if call.sent_ms is not None and not call.repeatable:
                    self.fail(call, self._no_answer("it broke the connection off before it answered"))
        away = now - self._session.away_since_ms
        for call in list(self._session.calls.values()):
            if call.patient:
                continue
            patience = AWAY_CLAIM_MS_MAX if isinstance(call, ClaimCall) else AWAY_MS_MAX
            if away >= patience:
                self.fail(call, self._no_answer(f"it is away for {show_duration(away)}"))
        if now >= self._session.wire.retry_at_ms:
            self._session.wire.reconnect(self._session.hello())

    def _refused(self, text: str) -> None:
        """Requests need not wait for the end of this; leases last until their deadline, should we be let in again."""
        for tenure in self._session.tenures.values():
            tenure.not_let_in = text
        for call in list(self._session.calls.values()):
            if not call.patient:
                self.fail(call, Refused(text, definite=False))

    def _no_answer(self, how: str) -> Unreachable:
        name = self._session.welcome.node
        return Unreachable(
            f"no answer from {name} at {self._session.wire.where}: {how}. What was asked for may have happened. Look: holdall doctor",
            definite=False,
        )

    def fail(self, call: Call[Any], problem: HoldallError) -> None:
        """No answer will come. What was never sent has definitely not happened."""
        self._session.calls.pop(call.number, None)
        unknown = problem if call.sent_ms is not None else type(problem)(problem.text, definite=True)
        if isinstance(call, ClaimCall):
            self._session.settle_claim(call, unknown)
            if call.sent_ms is not None and not call.abandoned and not self._session.stopped:
                call.abandoned = True
                self._session.cancel(call)
        elif isinstance(call, ReleaseCall) and call.tenure is not None:
            if call.history_stamp:
                self._session.recorder.released(call.tenure, call.history_stamp, ok=None)
            if self._session.tenures.pop(call.tenure.lease.lease, None) is not None:
                self._session.give_up(call.tenure)
            call.succeed(
                frames.Released(
                    n=call.number,
                    lease=call.tenure.lease.lease,
                    what=f"not confirmed: {short_id(call.tenure.lease.lease)} ends by itself, as it is not renewed any more",
                    free_by_ms=call.tenure.ttl_ms * (1_000_000 + self._session.welcome.rho_ppm) // 1_000_000,
                )
            )
        else:
            call.fail(unknown)

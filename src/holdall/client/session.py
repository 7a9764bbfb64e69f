"""What a link and its node have between them: leases, requests under way, renewals; and what is due to be sent.

Used by the link's thread; other threads come in through the link, which holds the lock.
"""

import itertools
import os
import threading
from typing import Any, Literal

import msgspec

from holdall.client.calls import Call, ClaimCall, LeaseCall, ReleaseCall
from holdall.client.recorder import Recorder
from holdall.client.tenure import Tenure
from holdall.client.wire import Wire
from holdall.guardian.clock import boottime_ms
from holdall.model import frames
from holdall.model.errors import HoldallError, Unreachable

RENEW_SHARE = 3
"""Renew at each third of the shortest ttl."""
LOOK_AGAIN_MS = 1_000
"""How long before its hard end a lease is asked for once more: somebody else may have extended it."""

Role = Literal["client", "guardian", "cli"]


class Session:
    """One session with a node, over one connection after the other. Moments are CLOCK_BOOTTIME in milliseconds."""

    def __init__(
        self, wire: Wire, *, role: Role, agent: str, recorder: Recorder, lock: threading.RLock
    ) -> None:
        self.wire = wire
        self.role: Role = role
        self.agent = agent
        self.recorder = recorder
        self.lock = lock
        self.tenures: dict[str, Tenure] = {}
        """By printed id: what this session renews."""
        self.views: dict[Tenure, frames.Claim] = {}
        """Views of leases that other processes renew, and what was asked for; each Beat tells how long they last."""
        self.calls: dict[int, Call[Any]] = {}
        """By number: what has no final answer yet."""
        self.unsent: list[Call[Any]] = []
        self.beats: dict[int, int] = {}
        """Number -> when it was sent, of renewals that have no answer yet."""
        self.beat_sent_ms = 0
        self.beat_not_before_ms = 0
        """The node has asked for a little time: it waits for the word of other nodes."""
        self.away_since_ms: int | None = None
        self.not_let_in = ""
        """Why the node, which is there, has refused the connection that was tried last."""
        self.stopped = False
        self.welcome: frames.Welcome
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """A fresh request number, unique in the session."""
        return next(self._numbers)

    def hello(self) -> frames.Hello:
        """The greeting: of a new session, or of this one when it has begun."""
        known: frames.Welcome | None = self.wire.session
        return frames.Hello(
            v=frames.VERSION,
            role=self.role,
            agent=self.agent,
            pid=os.getpid(),
            session=known.session if known else "",
            secret=known.secret if known else "",
        )

    def post(self, call: Call[Any]) -> None:
        """Hand a request in: it is sent as soon as the node is there."""
        if self.stopped:
            call.fail(Unreachable("this hub is closed. Open another: holdall.connect()"))
            return
        self.calls[call.number] = call
        self.unsent.append(call)
        self.wire.wake()

    def send_due(self) -> None:
        """What was handed in, and a renewal where one is due."""
        if not self.wire.ready:
            return
        now = boottime_ms()
        unsent, self.unsent = self.unsent, []
        for call in unsent:
            if call.number not in self.calls:
                continue
            if call.not_before_ms > now:
                self.unsent.append(call)
            else:
                self._send(call)
        now = boottime_ms()
        due = self._beat_due_ms()
        if due is not None and now >= due:
            self.beat(now)

    def beat(self, now: int) -> None:
        """Renew everything."""
        number = self.number()
        self.beats[number] = now
        self.beat_sent_ms = now
        self.wire.send(frames.Beat(n=number))
        for tenure in list(self.tenures.values()):
            # Near its hard end a lease is asked for as a whole: somebody else may have extended it.
            if (
                tenure.hard_end_ms is not None
                and not tenure.released
                and now + tenure.ttl_ms >= tenure.hard_end_ms
            ):
                self.attach(tenure)

    def attach(self, tenure: Tenure) -> None:
        """Ask for a lease by its key, at once."""
        number = self.number()
        self._attach(frames.Attach(n=number, key=tenure.key), number, tenure)

    def look_again(self, view: Tenure) -> None:
        """A node that was started again knows of no views: ask for the same one, at once."""
        number = self.number()
        self._attach(msgspec.structs.replace(self.views[view], n=number), number, view)

    def _attach(self, frame: frames.ToNode, number: int, tenure: Tenure) -> None:
        call = LeaseCall(frame, number, tenure, repeatable=True, attach=True)
        call.future.add_done_callback(lambda done: done.exception())  # nobody waits for it
        self.calls[number] = call
        self._send(call)

    def _send(self, call: Call[Any]) -> None:
        now = boottime_ms()
        frame = call.frame
        if isinstance(call, ClaimCall):
            call.base_ms = now
            if call.sent_ms is not None and call.wait_until_ms is not None and not call.confirms:
                rest_ms = max(call.wait_until_ms - now, 0)
                frame = msgspec.structs.replace(call.claim, wait_ms=rest_ms, asked_wait_ms=call.claim.wait_ms)
        call.sent_ms = now
        self.wire.send(frame)

    def _beat_due_ms(self) -> int | None:
        """A third of its ttl after the last confirmed renewal of what must be renewed first."""
        due: list[int] = []
        shortest = 0
        for tenure in itertools.chain(self.tenures.values(), self.views):
            due.append(tenure.sent_ms + tenure.ttl_ms // RENEW_SHARE)
            shortest = min(shortest or tenure.ttl_ms, tenure.ttl_ms)
            if tenure.hard_end_ms is not None and tenure.sent_ms < tenure.hard_end_ms - LOOK_AGAIN_MS:
                due.append(tenure.hard_end_ms - LOOK_AGAIN_MS)
        for call in self.calls.values():
            if isinstance(call, ClaimCall) and call.base_ms is not None:
                due.append(call.base_ms + call.claim.ttl_ms // RENEW_SHARE)
                shortest = min(shortest or call.claim.ttl_ms, call.claim.ttl_ms)
        if not due:
            return None
        # A beat whose answer is missing is not repeated at once: its third has to pass again.
        again = self.beat_sent_ms + shortest // RENEW_SHARE if self.beats else 0
        return max(min(due), again, self.beat_not_before_ms)

    def wake_ms(self) -> int | None:
        """The next moment at which something is due; None: only when something happens."""
        moments = [call.answer_by_ms for call in self.calls.values() if call.answer_by_ms is not None]
        held = [
            *self.tenures.values(),
            *self.views,
        ]  # looking at one may show that it is over, and take it out
        moments += [tenure.end_ms() for tenure in held if not tenure.released and tenure.lost is None]
        if self.wire.ready:
            due = self._beat_due_ms()
            moments += [] if due is None else [due]
            moments += [call.not_before_ms for call in self.unsent]
        elif not self.wire.connected:
            moments.append(self.wire.retry_at_ms)
        return min(moments, default=None)

    def settle_claim(self, call: ClaimCall, problem: HoldallError) -> None:
        """It was not granted."""
        self.recorder.failed(call.history, definite=problem.definite)
        call.fail(problem)

    def cancel(self, call: ClaimCall) -> None:
        """End a claim that was sent; the node releases what it has granted in the meantime."""
        number = self.number()
        cancel = ReleaseCall(
            frames.Cancel(n=number, claim=f"#{call.number}"), number, claim_number=call.number
        )
        cancel.patient = True
        self.post(cancel)

    def give_up(self, tenure: Tenure, *, not_before_ms: int = 0) -> None:
        """Nobody here holds this lease any more, but its node may: there each frame of this session renews it."""
        number = self.number()
        call = ReleaseCall(frames.Release(n=number, key=tenure.key), number)
        call.patient = True
        call.not_before_ms = not_before_ms
        self.post(call)

    def over_by_ms(self, tenure: Tenure) -> int:
        """When its node ends a lease that is not renewed any more, by our clock."""
        return tenure.sent_ms + tenure.ttl_ms * (1_000_000 + self.welcome.rho_ppm) // 1_000_000

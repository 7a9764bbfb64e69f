"""A session with a node, in a thread of its own: renews, watches deadlines, comes back after a break.

The user's threads and loops only hand in requests and wait for futures; however long they compute or block, renewal goes
on. Everything that both sides touch is guarded by one lock.
"""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Literal

import msgspec

from holdall.client.answers import Answers
from holdall.client.calls import Call, ClaimCall, LeaseCall, ListingCall, NegotiateCall, ReleaseCall
from holdall.client.recorder import Recorder
from holdall.client.session import Role, Session
from holdall.client.tenure import Tenure
from holdall.client.trouble import ANSWER_MS_MAX, Trouble
from holdall.client.wire import Wire
from holdall.guardian.clock import boottime_ms
from holdall.model import frames
from holdall.model.errors import HoldallError, NotGranted, NotHolder, Unreachable

CLOSE_SECONDS_MAX = 3.0
NEGOTIATED_MS_MAX = 30_000
"""A location has so long to answer; its node says before that when none has."""


class Link:
    """Open it, use it from any thread, close it. `where`: the path of the node's socket, or https://HOST:PORT."""

    def __init__(
        self, where: str, *, role: Role = "client", agent: str = "", recorder: Recorder | None = None
    ) -> None:
        self.where = where
        self.recorder = recorder or Recorder(None)
        self.lock = threading.RLock()
        self.pid = os.getpid()
        self._wire = Wire(where)
        self._session = Session(self._wire, role=role, agent=agent, recorder=self.recorder, lock=self.lock)
        self._answers = Answers(self._session, self.release)
        self._trouble = Trouble(self._session)
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="holdall link", daemon=True)

    @property
    def welcome(self) -> frames.Welcome:
        """What the node said last about itself."""
        return self._session.welcome

    @property
    def tenures(self) -> dict[str, Tenure]:
        """By printed id: what this session renews."""
        return self._session.tenures

    # ------------------------------------------------------------ for any thread

    def open(self) -> None:
        """Connect and begin. Raises Unreachable when no node answers."""
        self._session.welcome = self._wire.greet(self._session.hello())
        _links.add(self)
        self._thread.start()

    def claim(
        self, claim: frames.Claim, *, on_queued: Callable[[frames.Queued], None] | None = None
    ) -> ClaimCall:
        """Ask for all needs; `claim.n` is set here. The call's future gives a Tenure or raises."""
        self._must_be_ours()
        wait_until = None if claim.wait_ms is None or claim.now else boottime_ms() + claim.wait_ms
        history = self.recorder.claiming(claim)
        with self.lock:
            number = self._session.number()
            call = ClaimCall(msgspec.structs.replace(claim, n=number), number, wait_until_ms=wait_until)
            call.on_queued = on_queued
            call.history = history
            if claim.now:
                call.answer_by_ms = boottime_ms() + ANSWER_MS_MAX
            elif wait_until is not None:
                call.answer_by_ms = wait_until + ANSWER_MS_MAX
            self._session.post(call)
        return call

    def abandon(self, call: ClaimCall) -> None:
        """Nobody wants this claim any more, whatever has become of it. Waits for nothing; more than once is once."""
        with self.lock:
            if call.abandoned:
                return
            call.abandoned = True
            if self._session.stopped:
                return
            if not call.done:
                if call.sent_ms is None:
                    self._session.calls.pop(call.number, None)
                    self._session.settle_claim(call, NotGranted("cancelled before it was sent"))
                    return
                self._session.cancel(call)
            elif call.future.exception() is None:
                self.release(call.future.result())

    def release(self, tenure: Tenure, *, wait: bool = False) -> Call[frames.Released]:
        """Give a lease back: the request is under way when this returns."""
        self._must_be_ours()
        with self.lock:
            number = self._session.number()
            call = ReleaseCall(frames.Release(n=number, key=tenure.key, wait=wait), number, tenure=tenure)
            if not wait:
                call.answer_by_ms = boottime_ms() + ANSWER_MS_MAX
            if tenure.view or (tenure.released and not wait) or (tenure.lost and not tenure.revoked):
                what = "view" if tenure.view else "already released" if tenure.released else "already ended"
                tenure.released = tenure.released or tenure.view
                call.succeed(frames.Released(n=number, lease=tenure.lease.lease, what=what))
                return call
            if not tenure.released:
                tenure.released = True
                call.history_stamp = self.recorder.releasing(tenure)
            self._session.post(call)
        return call

    def change(
        self, tenure: Tenure, make: Callable[[int], frames.ToNode], *, repeatable: bool
    ) -> Call[frames.Granted]:
        """Extend, Drop or Exchange: `make` gives the frame for a number."""
        self._must_be_ours()
        with self.lock:
            number = self._session.number()
            call = LeaseCall(make(number), number, tenure, repeatable=repeatable)
            problem = tenure.fail_if_not_held()
            if problem is not None:
                call.fail(problem)
                return call
            if isinstance(call.frame, (frames.Drop, frames.Exchange)):
                self.recorder.changing(tenure)
            call.answer_by_ms = boottime_ms() + ANSWER_MS_MAX
            self._session.post(call)
        return call

    def ask(
        self,
        what: Literal["pools", "who", "queue", "why", "log", "show", "node", "usage"],
        arg: str = "",
        since_ms: int | None = None,
    ) -> Call[frames.Listing]:
        """A question; the parts of its answer come joined."""
        self._must_be_ours()
        with self.lock:
            number = self._session.number()
            call = ListingCall(frames.Ask(n=number, what=what, arg=arg, since_ms=since_ms), number)
            call.answer_by_ms = boottime_ms() + ANSWER_MS_MAX
            self._session.post(call)
        return call

    def negotiate(self, body: bytes, *, wait_ms: int = 0) -> Call[frames.Negotiated]:
        """A question about locations, one of `model.location_frames`; `wait_ms`: it may wait there for so long."""
        self._must_be_ours()
        with self.lock:
            number = self._session.number()
            call = NegotiateCall(frames.Negotiate(number, body), number, repeatable=False)
            call.answer_by_ms = boottime_ms() + NEGOTIATED_MS_MAX + wait_ms
            self._session.post(call)
        return call

    def hand_over(self, tenure: Tenure) -> None:
        """Somebody else (a guardian) attaches this lease: it is neither renewed nor judged here any more."""
        with self.lock:
            self._session.tenures.pop(tenure.lease.lease, None)

    def close(self) -> None:
        """Give everything back, wait for the node to hear it (3 s at most), end the session. Idempotent."""
        if self.pid != os.getpid():
            return
        with self.lock:
            if self._closing:
                return
            self._closing = True
            open_claims = [call for call in self._session.calls.values() if isinstance(call, ClaimCall)]
            for call in open_claims:
                self.abandon(call)
            releases = [self.release(tenure) for tenure in list(self._session.tenures.values())]
        give_up = time.monotonic() + CLOSE_SECONDS_MAX
        if threading.current_thread() is not self._thread:
            for future in [call.future for call in releases] + [call.future for call in open_claims]:
                with contextlib.suppress(HoldallError, TimeoutError):
                    future.result(timeout=max(give_up - time.monotonic(), 0))
        self._session.stopped = True
        self._wire.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # ------------------------------------------------------------ the link's own thread

    def _run(self) -> None:
        session = self._session
        try:
            while not session.stopped:
                with self.lock:
                    session.send_due()
                    wake_at = session.wake_ms()
                bodies = self._wire.wait(wake_at)
                with self.lock:
                    for body in bodies:
                        self._answers.read(body)
                    self._trouble.judge()
                    if not self._wire.connected:
                        self._trouble.come_back()
        finally:
            with self.lock:
                self._wire.close()
                session.stopped = True
                gone = Unreachable("the session was closed", definite=False)
                for call in list(session.calls.values()):
                    self._trouble.fail(call, gone)
                self.recorder.close()

    def _must_be_ours(self) -> None:
        if self.pid != os.getpid():
            raise NotHolder(
                f"this hub belongs to process {self.pid}; a fork does not share it. Open one here: holdall.connect() "
                "(a lease's key, passed on as HOLDALL_LEASE, makes it count as the same holder)"
            )

    def forked(self) -> None:
        """In a forked child: its copy of the connection must not keep the session open."""
        self._session.stopped = True
        self._wire.close()
        self.lock = threading.RLock()  # the other one may have been taken by a thread that is not here
        for tenure in self.tenures.values():
            tenure.lock = self.lock


_links: "weakref.WeakSet[Link]" = weakref.WeakSet()


def _forked() -> None:
    for link in list(_links):
        link.forked()


os.register_at_fork(after_in_child=_forked)

"""A session with a node, in a thread of its own: renews, watches deadlines, comes back after a break.

The user's threads and loops only hand in requests and wait for futures; however long they compute or block, renewal goes
on. Everything here that both sides touch is guarded by one lock.
"""

import contextlib
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from holdall.client.calls import Call, ClaimCall, LeaseCall, ListingCall, ReleaseCall
from holdall.client.conversation import error_of
from holdall.client.recorder import Recorder
from holdall.client.tenure import Tenure
from holdall.client.wire import Wire
from holdall.guardian.clock import boottime_ms
from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.errors import HoldallError, NotGranted, NotHolder, Unreachable
from holdall.model.names import short_id

ANSWER_MS_MAX = 15_000
"""A node that is connected and says nothing for so long does not count as reachable (a waiting claim has its wait)."""
AWAY_MS_MAX = 10_000
"""So long a request waits for the node to come back."""
AWAY_CLAIM_MS_MAX = 60_000
"""So long a waiting claim does; a node keeps its claims over a restart."""
CLOSE_SECONDS_MAX = 3.0
RENEW_SHARE = 3
"""Renew at each third of the shortest ttl."""

Role = Literal["client", "guardian", "cli"]


_ENDED_THERE = "the node has ended it; it was not renewed in time or was taken away."


class Link:
    """Open it, use it from any thread, close it.

    `clock` gives CLOCK_BOOTTIME in milliseconds.
    """

    def __init__(
        self, path: Path, *, role: Role = "client", agent: str = "", recorder: Recorder | None = None
    ) -> None:
        self.path = path
        self.role: Role = role
        self.agent = agent
        self.recorder = recorder or Recorder(None)
        self.lock = threading.RLock()
        self.pid = os.getpid()
        self.tenures: dict[str, Tenure] = {}
        """By printed id: what this session renews."""
        self._views: list[Tenure] = []
        """Views of leases that other processes renew; each Beat tells how long they last."""
        self._calls: dict[int, Call[Any]] = {}
        self._unsent: list[Call[Any]] = []
        self._beats: dict[int, int] = {}
        self._beat_sent_ms = 0
        self._away_since_ms: int | None = None
        self._numbers = itertools.count(1)
        self._closing = False
        self._stopped = False
        self._wire = Wire(path)
        self._watchers: dict[int, Callable[[frames.LogRow], None]] = {}
        self._thread = threading.Thread(target=self._run, name="holdall link", daemon=True)
        self.welcome: frames.Welcome

    # ------------------------------------------------------------ for any thread

    def open(self) -> None:
        """Connect and begin. Raises Unreachable when no node answers."""
        self.welcome = self._wire.greet(self._hello())
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
            number = next(self._numbers)
            call = ClaimCall(msgspec.structs.replace(claim, n=number), number, wait_until_ms=wait_until)
            call.on_queued = on_queued
            call.history = history
            if claim.now:
                call.answer_by_ms = boottime_ms() + ANSWER_MS_MAX
            elif wait_until is not None:
                call.answer_by_ms = wait_until + ANSWER_MS_MAX
            self._post(call)
        return call

    def abandon(self, call: ClaimCall) -> None:
        """Nobody wants this claim any more, whatever has become of it. Waits for nothing; more than once is once."""
        with self.lock:
            if call.abandoned:
                return
            call.abandoned = True
            if self._stopped:
                return
            if not call.done:
                if call.sent_ms is None:
                    self._forget(call)
                    self._settle_claim(call, NotGranted("cancelled before it was sent"))
                    return
                number = next(self._numbers)
                self._post(
                    ReleaseCall(
                        frames.Cancel(n=number, claim=f"#{call.number}"), number, claim_number=call.number
                    )
                )
            elif call.future.exception() is None:
                self.release(call.future.result())

    def release(self, tenure: Tenure, *, wait: bool = False) -> Call[frames.Released]:
        """Give a lease back: the request is under way when this returns."""
        self._must_be_ours()
        with self.lock:
            number = next(self._numbers)
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
            self._post(call)
        return call

    def change(
        self, tenure: Tenure, make: Callable[[int], frames.ToNode], *, repeatable: bool
    ) -> Call[frames.Granted]:
        """Extend, Drop or Exchange: `make` gives the frame for a number."""
        self._must_be_ours()
        with self.lock:
            number = next(self._numbers)
            call = LeaseCall(make(number), number, tenure, repeatable=repeatable)
            problem = tenure.fail_if_not_held()
            if problem is not None:
                call.fail(problem)
                return call
            call.answer_by_ms = boottime_ms() + ANSWER_MS_MAX
            self._post(call)
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
            number = next(self._numbers)
            call = ListingCall(frames.Ask(n=number, what=what, arg=arg, since_ms=since_ms), number)
            call.answer_by_ms = boottime_ms() + ANSWER_MS_MAX
            self._post(call)
        return call

    def hand_over(self, tenure: Tenure) -> None:
        """Somebody else (a guardian) attaches this lease: it is neither renewed nor judged here any more."""
        with self.lock:
            self.tenures.pop(tenure.lease.lease, None)

    def close(self) -> None:
        """Give everything back, wait for the node to hear it (3 s at most), end the session. Idempotent."""
        if self.pid != os.getpid():
            return
        with self.lock:
            if self._closing:
                return
            self._closing = True
            open_claims = [call for call in self._calls.values() if isinstance(call, ClaimCall)]
            for call in open_claims:
                self.abandon(call)
            releases = [self.release(tenure) for tenure in list(self.tenures.values())]
        give_up = time.monotonic() + CLOSE_SECONDS_MAX
        if threading.current_thread() is not self._thread:
            for future in [call.future for call in releases] + [call.future for call in open_claims]:
                with contextlib.suppress(HoldallError, TimeoutError):
                    future.result(timeout=max(give_up - time.monotonic(), 0))
        self._stopped = True
        self._wire.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # ------------------------------------------------------------ the link's own thread

    def _run(self) -> None:
        try:
            while not self._stopped:
                with self.lock:
                    self._send_due()
                    wake_at = self._wake_ms()
                bodies = self._wire.wait(wake_at)
                with self.lock:
                    for body in bodies or ():
                        self._read(body)
                    self._judge()
                    if not self._wire.connected:
                        self._come_back()
        finally:
            with self.lock:
                self._wire.close()
                self._stopped = True
                gone = Unreachable("the session was closed", definite=False)
                for call in list(self._calls.values()):
                    self._fail(call, gone)
                self.recorder.close()

    def _read(self, body: bytes) -> None:
        try:
            answer = frames.read_answer(body)
        except msgspec.DecodeError:
            self._wire.drop()
            return
        self._hear(answer)

    def _hear(self, answer: frames.FromNode) -> None:
        match answer:
            case frames.Welcome():
                self._welcomed(answer)
            case frames.Queued():
                self._queued(answer)
            case frames.Granted():
                self._granted(answer)
            case frames.Denied():
                self._denied(answer)
            case frames.BeatOk():
                self._beaten(answer)
            case frames.Lost(lease, text, stop):
                tenure = self.tenures.get(lease)
                if tenure is not None:
                    tenure.revoked = stop
                    tenure.lose(text)
                for view in self._views:
                    if view.lease.lease == lease:
                        view.lose(text)
            case frames.Released():
                self._released(answer)
            case frames.Listing():
                self._listed(answer)
            case frames.Happened(n, row):
                watcher = self._watchers.get(n)
                if watcher is not None:
                    watcher(row)
            case frames.Drained():
                pass  # asked for by commands of their own, not through a link

    def _queued(self, queued: frames.Queued) -> None:
        call = self._calls.get(queued.n)
        if isinstance(call, ClaimCall):
            if not call.queued_in_history:
                call.queued_in_history = True
                self.recorder.queued(call.history, queued)
            call.printed = queued.claim
            call.why = queued.why
            if call.on_queued is not None:
                call.on_queued(queued)

    def _granted(self, granted: frames.Granted) -> None:
        call = self._calls.pop(granted.n, None)
        match call:
            case ClaimCall():
                base = call.base_ms if call.base_ms is not None else boottime_ms()
                tenure = Tenure(granted, base, lock=self.lock)
                if tenure.view:
                    tenure.outer = self.tenures.get(granted.lease.lease)
                    if tenure.outer is None:
                        self._views.append(tenure)
                else:
                    self.tenures[granted.lease.lease] = tenure
                    tenure.listen(lambda _: self._tenure_lost(tenure))
                self.recorder.granted(call.history, tenure)
                if call.abandoned:
                    self.release(tenure)
                call.succeed(tenure)
            case LeaseCall():
                call.tenure.change(granted, call.sent_ms or 0)
                call.succeed(granted)
            case _:
                # A grant that nobody here asked for any more must not stay held.
                number = next(self._numbers)
                self._wire.send(frames.Release(n=number, key=granted.key))

    def _tenure_lost(self, tenure: Tenure) -> None:
        self.recorder.lost(tenure)
        if not tenure.revoked:
            self.tenures.pop(tenure.lease.lease, None)

    def _denied(self, denied: frames.Denied) -> None:
        call = self._calls.pop(denied.n, None)
        problem = error_of(denied)
        match call:
            case None:
                if denied.n == 0:
                    self._wire.drop()  # it did not like our greeting; the next one starts a new session
                    self._wire.forget_session()
            case ClaimCall() if denied.retry_after_ms == 0 and self._is_wanted(call):
                self._ask_again(call)
            case ClaimCall():
                self._settle_claim(call, problem)
            case ReleaseCall(tenure=None):
                # Nothing to cancel: it has ended. If its last word was lost in a break, this is it.
                claim = self._calls.pop(call.claim_number, None)
                if isinstance(claim, ClaimCall):
                    self._settle_claim(claim, problem)
                call.succeed(frames.Released(n=call.number, lease="", what=denied.text))
            case ReleaseCall():
                self._end_release(call, frames.Released(n=call.number, lease="", what="already ended"))
            case LeaseCall(attach=True):
                if denied.definite and denied.retry_after_ms is None:
                    call.tenure.lose(f"{denied.text} {call.tenure.name} was not renewed in time.")
                call.fail(problem)
            case _:
                call.fail(problem)

    def _is_wanted(self, call: ClaimCall) -> bool:
        """Is there still somebody who waits for it, and time to wait."""
        has_time = call.wait_until_ms is None or boottime_ms() < call.wait_until_ms
        return has_time and not call.claim.now and not call.abandoned

    def _ask_again(self, call: ClaimCall) -> None:
        """This process was stopped for so long that the node gave its place up: the same wish, as a new claim."""
        call.number = next(self._numbers)
        call.frame = call.claim = msgspec.structs.replace(call.claim, n=call.number)
        call.base_ms = None
        call.printed = ""
        call.queued_in_history = False
        self._post(call)

    def _settle_claim(self, call: ClaimCall, problem: HoldallError) -> None:
        self.recorder.failed(call.history, definite=problem.definite)
        call.fail(problem)

    def _beaten(self, beat: frames.BeatOk) -> None:
        sent = self._beats.pop(beat.n, None)
        if sent is None:
            return
        alive = dict(beat.valid_for_ms)
        for lease, tenure in list(self.tenures.items()):
            if lease in alive:
                tenure.renew(sent, alive[lease])
                self.recorder.renewed(tenure)
            elif tenure.sent_ms <= sent and tenure.born_ms < sent and not tenure.released:
                tenure.lose(_ENDED_THERE)
        self._views = [view for view in self._views if not view.released and view.lost is None]
        for view in self._views:
            if view.lease.lease in alive:
                view.renew(sent, alive[view.lease.lease])
            elif view.born_ms < sent:
                view.lose(_ENDED_THERE)
        for call in self._calls.values():
            if isinstance(call, ClaimCall) and call.sent_ms is not None and call.sent_ms <= sent:
                call.base_ms = sent

    def _released(self, released: frames.Released) -> None:
        call = self._calls.pop(released.n, None)
        if isinstance(call, ReleaseCall):
            if call.tenure is None:
                claim = self._calls.pop(call.claim_number, None)
                if isinstance(claim, ClaimCall):
                    self._settle_claim(claim, NotGranted("cancelled while it waited"))
                call.succeed(released)
            else:
                self._end_release(call, released)
        elif isinstance(call, LeaseCall):
            # A drop of all that was left.
            call.tenure.released = True
            self.tenures.pop(call.tenure.lease.lease, None)
            call.fail(NotHolder(f"lease {call.tenure.name} has no units left and was released"))

    def _end_release(self, call: ReleaseCall, released: frames.Released) -> None:
        if call.tenure is not None:
            self.tenures.pop(call.tenure.lease.lease, None)
            if call.history_stamp:
                self.recorder.released(call.tenure, call.history_stamp, ok=True)
        call.succeed(released)

    def _listed(self, listing: frames.Listing) -> None:
        call = self._calls.get(listing.n)
        if not isinstance(call, ListingCall):
            return
        call.parts.append(listing)
        if not listing.more:
            del self._calls[listing.n]
            call.succeed(_joined(call.parts))

    # ------------------------------------------------------------ sending

    def _post(self, call: Call[Any]) -> None:
        if self._stopped:
            call.fail(Unreachable("this hub is closed. Open another: holdall.connect()"))
            return
        self._calls[call.number] = call
        self._unsent.append(call)
        self._wire.wake()

    def _send_due(self) -> None:
        if not self._wire.ready:
            return
        unsent, self._unsent = self._unsent, []
        for call in unsent:
            if call.number in self._calls:
                self._send(call)
        now = boottime_ms()
        due = self._beat_due_ms()
        if due is not None and now >= due:
            self._beat(now)

    def _beat(self, now: int) -> None:
        number = next(self._numbers)
        self._beats[number] = now
        self._beat_sent_ms = now
        self._wire.send(frames.Beat(n=number))
        for tenure in list(self.tenures.values()):
            # Near its hard end a lease is asked for as a whole: somebody else may have extended it.
            if (
                tenure.hard_end_ms is not None
                and not tenure.released
                and now + tenure.ttl_ms >= tenure.hard_end_ms
            ):
                self._attach(tenure)

    def _attach(self, tenure: Tenure) -> None:
        number = next(self._numbers)
        call = LeaseCall(
            frames.Attach(n=number, key=tenure.key), number, tenure, repeatable=True, attach=True
        )
        call.future.add_done_callback(lambda done: done.exception())  # nobody waits for it
        self._calls[number] = call
        self._send(call)

    def _send(self, call: Call[Any]) -> None:
        now = boottime_ms()
        frame = call.frame
        if isinstance(call, ClaimCall):
            call.base_ms = now
            if call.sent_ms is not None and call.wait_until_ms is not None:
                frame = msgspec.structs.replace(call.claim, wait_ms=max(call.wait_until_ms - now, 0))
        call.sent_ms = now
        self._wire.send(frame)

    def _beat_due_ms(self) -> int | None:
        """A third of its ttl after the last confirmed renewal of what must be renewed first."""
        due: list[int] = []
        shortest = 0
        for tenure in itertools.chain(self.tenures.values(), self._views):
            due.append(tenure.sent_ms + tenure.ttl_ms // RENEW_SHARE)
            shortest = min(shortest or tenure.ttl_ms, tenure.ttl_ms)
        for call in self._calls.values():
            if isinstance(call, ClaimCall) and call.base_ms is not None:
                due.append(call.base_ms + call.claim.ttl_ms // RENEW_SHARE)
                shortest = min(shortest or call.claim.ttl_ms, call.claim.ttl_ms)
        if not due:
            return None
        # A beat whose answer is missing is not repeated at once: its third has to pass again.
        return max(min(due), self._beat_sent_ms + shortest // RENEW_SHARE if self._beats else 0)

    def _wake_ms(self) -> int | None:
        moments = [call.answer_by_ms for call in self._calls.values() if call.answer_by_ms is not None]
        moments += [tenure.end_ms() for tenure in self.tenures.values() if not tenure.released]
        if self._wire.ready:
            due = self._beat_due_ms()
            moments += [] if due is None else [due]
        elif not self._wire.connected:
            moments.append(self._wire.retry_at_ms)
        return min(moments, default=None)

    # ------------------------------------------------------------ trouble

    def _judge(self) -> None:
        now = boottime_ms()
        for tenure in list(self.tenures.values()):
            if tenure.lost is not None and not tenure.revoked:
                self.tenures.pop(tenure.lease.lease, None)
        for call in list(self._calls.values()):
            if call.answer_by_ms is not None and now >= call.answer_by_ms:
                self._fail(call, self._no_answer("it is connected, and has not answered in time"))
        if self._wire.ready:
            self._away_since_ms = None

    def _come_back(self) -> None:
        """The connection is gone: what can't be repeated has an unknown outcome, the rest is sent again."""
        now = boottime_ms()
        if self._away_since_ms is None:
            self._away_since_ms = now
            self._beats.clear()
            self._beat_sent_ms = 0
            for tenure in self.tenures.values():
                tenure.node_away_since_unix = tenure.node_away_since_unix or time.time()
            for call in list(self._calls.values()):
                if call.sent_ms is not None and not call.repeatable:
                    self._fail(call, self._no_answer("it broke the connection off before it answered"))
        away = now - self._away_since_ms
        for call in list(self._calls.values()):
            patience = AWAY_CLAIM_MS_MAX if isinstance(call, ClaimCall) else AWAY_MS_MAX
            if away >= patience:
                self._fail(call, self._no_answer(f"it is away for {show_duration(away)}"))
        if now >= self._wire.retry_at_ms:
            self._wire.reconnect(self._hello())

    def _welcomed(self, welcome: frames.Welcome) -> None:
        self.welcome = welcome
        self._away_since_ms = None
        self._wire.accept(welcome)
        for call in self._calls.values():
            if isinstance(call, ClaimCall):
                call.queued_in_history = False
        for call in list(self._calls.values()):
            if isinstance(call, LeaseCall) and call.attach:
                del self._calls[call.number]
        self._unsent = [call for _, call in sorted(self._calls.items())]
        if not welcome.resumed:
            # The node does not know our session any more: ask for each lease by its key.
            for tenure in list(self.tenures.values()):
                self._attach(tenure)
        elif self.tenures or self._views:
            self._beat(boottime_ms())

    def _no_answer(self, how: str) -> Unreachable:
        node = getattr(self, "welcome", None)
        name = node.node if node is not None else "the node"
        return Unreachable(
            f"no answer from {name} at {self.path}: {how}. What was asked for may have happened. Look: holdall doctor",
            definite=False,
        )

    def _fail(self, call: Call[Any], problem: Unreachable) -> None:
        self._forget(call)
        unknown = problem if call.sent_ms is not None else Unreachable(problem.text, definite=True)
        if isinstance(call, ClaimCall):
            self._settle_claim(call, unknown)
            if call.sent_ms is not None and not call.abandoned and not self._stopped:
                call.abandoned = True
                number = next(self._numbers)
                self._post(
                    ReleaseCall(
                        frames.Cancel(n=number, claim=f"#{call.number}"), number, claim_number=call.number
                    )
                )
        elif isinstance(call, ReleaseCall) and call.tenure is not None:
            if call.history_stamp:
                self.recorder.released(call.tenure, call.history_stamp, ok=None)
            self.tenures.pop(call.tenure.lease.lease, None)
            call.succeed(
                frames.Released(
                    n=call.number,
                    lease=call.tenure.lease.lease,
                    what=f"not confirmed: {short_id(call.tenure.lease.lease)} ends by itself, as it is not renewed any more",
                    free_by_ms=call.tenure.ttl_ms * (1_000_000 + self.welcome.rho_ppm) // 1_000_000,
                )
            )
        else:
            call.fail(unknown)

    def _forget(self, call: Call[Any]) -> None:
        self._calls.pop(call.number, None)

    def _hello(self) -> frames.Hello:
        known: frames.Welcome | None = self._wire.session
        return frames.Hello(
            v=frames.VERSION,
            role=self.role,
            agent=self.agent,
            pid=os.getpid(),
            session=known.session if known else "",
            secret=known.secret if known else "",
        )

    def _must_be_ours(self) -> None:
        if self.pid != os.getpid():
            raise NotHolder(
                f"this hub belongs to process {self.pid}; a fork does not share it. Open one here: holdall.connect() "
                "(a lease's key, passed on as HOLDALL_LEASE, makes it count as the same holder)"
            )

    def forked(self) -> None:
        """In a forked child: its copy of the connection must not keep the session open."""
        self._stopped = True
        self._wire.close()


def _joined(parts: list[frames.Listing]) -> frames.Listing:
    return frames.Listing(
        n=parts[0].n,
        pools=tuple(row for part in parts for row in part.pools),
        leases=tuple(row for part in parts for row in part.leases),
        waits=tuple(row for part in parts for row in part.waits),
        log=tuple(row for part in parts for row in part.log),
        nodes=tuple(row for part in parts for row in part.nodes),
    )


_links: "weakref.WeakSet[Link]" = weakref.WeakSet()


def _forked() -> None:
    for link in list(_links):
        link.forked()


os.register_at_fork(after_in_child=_forked)

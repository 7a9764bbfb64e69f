"""What the node says, and what it means for the leases and requests of a session."""

from collections.abc import Callable

import msgspec

from holdall.client.calls import ClaimCall, LeaseCall, ListingCall, NegotiateCall, ReleaseCall
from holdall.client.conversation import error_of
from holdall.client.session import Session
from holdall.client.tenure import Tenure
from holdall.guardian.clock import boottime_ms
from holdall.model import frames
from holdall.model.errors import NotGranted

UNCONFIRMED_PAUSE_MS = 250
"""Before the next Beat, while other nodes of a lease have yet to confirm it to the node that came up again."""
_ENDED_THERE = "the node has ended it; it was not renewed in time or was taken away."


class Answers:
    """Reads frames for a session. `give_back` releases a lease that nobody wants any more."""

    def __init__(self, session: Session, give_back: Callable[[Tenure], object]) -> None:
        self._session = session
        self._give_back = give_back

    def read(self, body: bytes) -> None:
        """One frame. A node that says what is no frame is not listened to any more."""
        try:
            answer = frames.read_answer(body)
        except msgspec.DecodeError:
            self._session.wire.drop()
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
                tenure = self._session.tenures.get(lease)
                if tenure is not None:
                    tenure.revoked = stop
                    self._lost_there(tenure, text)
                for view in self._session.views:
                    if view.lease.lease == lease:
                        view.lose(text)
            case frames.Released():
                self._released(answer)
            case frames.Listing():
                self._listed(answer)
            case frames.Negotiated():
                call = self._session.calls.get(answer.n)
                if isinstance(call, NegotiateCall):
                    del self._session.calls[answer.n]
                    call.succeed(answer)
            case _:
                pass  # history, nodes, commands on other nodes: asked for by commands of their own, not through a link

    def _queued(self, queued: frames.Queued) -> None:
        call = self._session.calls.get(queued.n)
        if isinstance(call, ClaimCall):
            if not call.queued_in_history:
                call.queued_in_history = True
                self._session.recorder.queued(call.history, queued)
            call.printed = queued.claim
            call.why = queued.why
            if call.on_queued is not None:
                call.on_queued(queued)

    def _granted(self, granted: frames.Granted) -> None:
        call = self._session.calls.pop(granted.n, None)
        match call:
            case ClaimCall():
                base = call.base_ms if call.base_ms is not None else boottime_ms()
                if self._is_stale(call, granted, base):
                    self._confirm(call, granted)
                    return
                tenure = Tenure(granted, base, lock=self._session.lock)
                if tenure.view:
                    tenure.outer = self._session.tenures.get(granted.lease.lease)
                    if tenure.outer is None:
                        self._session.views[tenure] = call.claim
                else:
                    self._session.tenures[granted.lease.lease] = tenure
                    tenure.listen(lambda _: self._tenure_lost(tenure))
                self._session.recorder.granted(call.history, tenure)
                if call.abandoned:
                    self._give_back(tenure)
                call.succeed(tenure)
            case LeaseCall():
                call.tenure.change(granted, call.sent_ms or 0)
                call.succeed(granted)
            case _ if granted.view:
                pass  # the lease is somebody else's
            case _ if (known := self._session.tenures.get(granted.lease.lease)) is not None:
                known.lease = granted.lease  # a change that nobody waits for any more has come true
            case _:
                # A grant that nobody here asked for any more must not stay held.
                number = self._session.number()
                self._session.wire.send(frames.Release(n=number, key=granted.key))

    def _is_stale(self, call: ClaimCall, granted: frames.Granted, base_ms: int) -> bool:
        """A node that was stopped grants before it reads our renewals: over by our clock, but not by the node's."""
        over = base_ms + granted.valid_for_ms <= boottime_ms()
        return over and not (granted.view or call.abandoned or call.claim.now)

    def _confirm(self, call: ClaimCall, granted: frames.Granted) -> None:
        """Nothing has used the lease yet: it begins with an answer that is fresh."""
        call.number = self._session.number()
        call.frame = frames.Attach(n=call.number, key=granted.key)
        call.confirms = True
        self._session.post(call)

    def _tenure_lost(self, tenure: Tenure) -> None:
        """Called by whoever has looked at the clock, in any thread."""
        session = self._session
        with session.lock:
            session.recorder.lost(tenure)
            if not tenure.revoked and session.tenures.pop(tenure.lease.lease, None) is not None:
                # By our clock; whoever still works with it has until the node's own end of it.
                session.give_up(tenure, not_before_ms=session.over_by_ms(tenure))

    def _lost_there(self, tenure: Tenure, text: str) -> None:
        """The node says so: nothing is left to be given back, unless it only asks for it."""
        if not tenure.revoked:
            self._session.tenures.pop(tenure.lease.lease, None)
        tenure.lose(text)

    def _denied(self, denied: frames.Denied) -> None:
        call = self._session.calls.pop(denied.n, None)
        problem = error_of(denied)
        match call:
            case None:
                if denied.n == 0 and not denied.definite:
                    self._session.not_let_in = denied.text
                    self._session.wire.drop()
                elif denied.n == 0:
                    self._session.wire.drop()  # it did not like our greeting; the next one starts a new session
                    self._session.wire.forget_session()
            case ClaimCall() if (denied.retry_after_ms == 0 or call.confirms) and self._is_wanted(call):
                self._ask_again(call)
            case ClaimCall():
                self._session.settle_claim(call, problem)
            case ReleaseCall(tenure=None):
                # Nothing to cancel: it has ended. If its last word was lost in a break, this is it.
                claim = self._session.calls.pop(call.claim_number, None)
                if isinstance(claim, ClaimCall):
                    self._session.settle_claim(claim, problem)
                call.succeed(frames.Released(n=call.number, lease="", what=denied.text))
            case ReleaseCall():
                self._end_release(call, frames.Released(n=call.number, lease="", what="already ended"))
            case LeaseCall(attach=True):
                if denied.definite and denied.retry_after_ms is None:
                    self._lost_there(
                        call.tenure, f"{denied.text} {call.tenure.name} was not renewed in time."
                    )
                call.fail(problem)
            case _:
                call.fail(problem)

    def _is_wanted(self, call: ClaimCall) -> bool:
        """Is there still somebody who waits for it, and time to wait."""
        has_time = call.wait_until_ms is None or boottime_ms() < call.wait_until_ms
        return has_time and not call.claim.now and not call.abandoned

    def _ask_again(self, call: ClaimCall) -> None:
        """This process was stopped for so long that the node gave its place up: the same wish, as a new claim."""
        call.number = self._session.number()
        call.frame = call.claim = msgspec.structs.replace(call.claim, n=call.number)
        call.confirms = False
        call.base_ms = None
        call.printed = ""
        call.queued_in_history = False
        self._session.post(call)

    def _beaten(self, beat: frames.BeatOk) -> None:
        sent = self._session.beats.pop(beat.n, None)
        if sent is None:
            return
        alive = dict(beat.valid_for_ms)
        if any(valid_for_ms < 0 for valid_for_ms in alive.values()):
            self._session.beat_not_before_ms = boottime_ms() + UNCONFIRMED_PAUSE_MS
        for lease, tenure in list(self._session.tenures.items()):
            if lease in alive:
                tenure.renew(sent, alive[lease])
                if alive[lease] >= 0:
                    self._session.recorder.renewed(tenure)
            elif tenure.sent_ms <= sent and tenure.born_ms < sent and not tenure.released:
                tenure.revoked = False
                self._lost_there(tenure, _ENDED_THERE)
        self._session.views = {
            view: claim
            for view, claim in self._session.views.items()
            if not view.released and view.lost is None
        }
        for view in self._session.views:
            if view.lease.lease in alive:
                view.renew(sent, alive[view.lease.lease])
            elif view.born_ms < sent:
                view.lose(_ENDED_THERE)
        for call in self._session.calls.values():
            if isinstance(call, ClaimCall) and call.sent_ms is not None and call.sent_ms <= sent:
                call.base_ms = sent

    def _released(self, released: frames.Released) -> None:
        call = self._session.calls.pop(released.n, None)
        if isinstance(call, ReleaseCall):
            if call.tenure is None:
                claim = self._session.calls.pop(call.claim_number, None)
                if isinstance(claim, ClaimCall):
                    self._session.settle_claim(claim, NotGranted("cancelled while it waited"))
                call.succeed(released)
            else:
                self._end_release(call, released)
        elif isinstance(call, LeaseCall):
            # A drop of all that was left.
            call.tenure.released = True
            self._session.tenures.pop(call.tenure.lease.lease, None)
            nothing = msgspec.structs.replace(call.tenure.lease, units=())
            call.succeed(frames.Granted(released.n, call.tenure.key, nothing, 0, None))

    def _end_release(self, call: ReleaseCall, released: frames.Released) -> None:
        if call.tenure is not None:
            self._session.tenures.pop(call.tenure.lease.lease, None)
            if call.history_stamp:
                self._session.recorder.released(call.tenure, call.history_stamp, ok=True)
        call.succeed(released)

    def _listed(self, listing: frames.Listing) -> None:
        call = self._session.calls.get(listing.n)
        if not isinstance(call, ListingCall):
            return
        call.parts.append(listing)
        if not listing.more:
            del self._session.calls[listing.n]
            call.succeed(_joined(call.parts))

    def _welcomed(self, welcome: frames.Welcome) -> None:
        self._session.welcome = welcome
        self._session.away_since_ms = None
        self._session.not_let_in = ""
        self._session.wire.accept(welcome)
        for call in self._session.calls.values():
            if isinstance(call, ClaimCall):
                call.queued_in_history = False
        for call in list(self._session.calls.values()):
            if isinstance(call, LeaseCall) and call.attach:
                del self._session.calls[call.number]
        self._session.unsent = [call for _, call in sorted(self._session.calls.items())]
        for view in list(self._session.views):
            self._session.look_again(view)
        if not welcome.resumed:
            # The node does not know our session any more: ask for each lease by its key.
            for tenure in list(self._session.tenures.values()):
                self._session.attach(tenure)
        elif self._session.tenures or self._session.views:
            self._session.beat(boottime_ms())


def _joined(parts: list[frames.Listing]) -> frames.Listing:
    return frames.Listing(
        n=parts[0].n,
        pools=tuple(row for part in parts for row in part.pools),
        leases=tuple(row for part in parts for row in part.leases),
        waits=tuple(row for part in parts for row in part.waits),
        log=tuple(row for part in parts for row in part.log),
        nodes=tuple(row for part in parts for row in part.nodes),
        known=tuple(row for part in parts for row in part.known),
        usage=tuple(row for part in parts for row in part.usage),
        not_asked=tuple(one for part in parts for one in part.not_asked),
    )

"""A guardian's conversation with its node about a negotiated lease: used, so much, and renewed by the node; then given back.

What a renewal grants, less or more than before, is told to the guardian, which holds its command to it.
"""

import secrets

from holdall.guardian.clock import boottime_ms
from holdall.guardian.line import Confirmed, GivenBack, Happening, NodeLine, Over, Revoked
from holdall.guardian.orders import Start
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.terms import LeaseDocument, TermUse

SHARE = 4
"""So often within its duration the lease is said to be used."""
TELL_MS_MAX = 1_000
"""What a command has used is told at least so often, and heard what others did with the lease: ended, cut or shortened it."""
BEAT_MS_LEAST = 50
TAKE_UP_MS = 2_000
"""A node that has begun anew is asked to take the lease up, and again after so long."""


class NegotiatedTether(NodeLine):
    """`document`: as the host had it at the last renewal that is known here."""

    def __init__(self, start: Start, document: LeaseDocument) -> None:
        every_ms = min(document.duration // SHARE, TELL_MS_MAX)
        super().__init__(start, beat_every_ms=max(every_ms, BEAT_MS_LEAST))
        self.document = document
        self.lead_ms = start.grace_ms
        """So long before the deadline something is due: until then it is asked again and again."""
        self.uses: tuple[TermUse, ...] = ()
        """Of the command, until now; told with what is asked next."""
        self.before_end = ""
        self._meter = secrets.token_hex(8)
        self._takes_up = False

    def has_done(self, outcome: str) -> None:
        """What became of that which was to be done before the end; told at once when it is news."""
        outcome = outcome[: f.BEFORE_END_MAX]
        if outcome != self.before_end:
            self.before_end = outcome
            if self._greeted:
                self._ask(boottime_ms())

    def _say_what_is_due(self, now: int) -> None:
        if self._takes_up and self._exit is None:
            self._ask_at_ms = now + max(self.beat_every_ms, TAKE_UP_MS)
            self._negotiate(now, f.RenewLease(self.document.lease, self.document.duration))
            return
        used = f.TellUse(self.document.lease, self.uses, self._meter, self.before_end, guarded=True)
        self._negotiate(now, used)
        if self._exit is not None:
            self._negotiate(now, f.EndLease(self.document.lease))

    def _negotiate(self, now: int, question: f.FromClient) -> None:
        self._say(frames.Negotiate(self._number(now), f.pack(question)))

    def _heard(self, answer: frames.FromNode) -> list[Happening]:
        match answer:
            case frames.Negotiated(n, body):
                sent = self._sent_ms.pop(n, None)
                return [] if sent is None else self._answered(sent, f.read_answer(body))
            case frames.Denied():
                return self._denied(answer)
            case _:
                return []  # nothing else is asked for here

    def _answered(self, sent: int, answer: f.ToClient) -> list[Happening]:
        match answer:
            case f.Held((held,)):
                return self._held(sent, held)
            case f.LeaseIs(document, valid_for_ms):
                self._takes_up = False
                return self._confirmed(sent, document, valid_for_ms)
            case f.Over(_, reason) if self._exit is not None:
                return [GivenBack(reason)]
            case f.Over(_, "unknown"):
                return []  # its location may have begun anew, too: what was confirmed counts, and it is asked again
            case f.Over(_, reason):
                return [Over("lost", f"the lease is over: {reason}")]
            case f.NoOffer("revoking"):
                return [Revoked("the lease is being taken away")]
            case _:
                return []  # not renewed now: what was confirmed counts, and it is asked again

    def _held(self, sent: int, held: f.HeldLease) -> list[Happening]:
        if self._exit is not None:
            return []
        if held.document is None and held.reason == "unknown":
            # The node has begun anew and holds it for nobody; its host still knows it.
            self._takes_up = True
            self._ask(boottime_ms())
            return []
        if held.document is None:
            return [Over("lost", f"the lease is over: {held.reason or 'expired'}")]
        happened = self._confirmed(sent, held.document, held.valid_for_ms)
        return [*happened, Revoked(held.warned)] if held.warned else happened

    def _confirmed(self, sent: int, document: LeaseDocument, valid_for_ms: int) -> list[Happening]:
        if valid_for_ms <= 0:
            return []
        is_shorter = document.duration < self.document.duration
        self.document = document
        self.beat_every_ms = max(min(self.beat_every_ms, document.duration // SHARE), BEAT_MS_LEAST)
        deadline_ms = sent + valid_for_ms
        self._ask_in_time(deadline_ms, self.lead_ms)
        return [Confirmed(sent, deadline_ms, document=document, is_shorter=is_shorter)]

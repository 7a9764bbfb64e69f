"""Requests of clients that have no lease yet: asked, in line, offered, and taken or not."""

from collections.abc import Hashable, Iterable

import msgspec

from holdall.leases.negotiation import agent_messages as a
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Asker
from holdall.leases.negotiation.messages import Declined
from holdall.machine.contract import CancelTimer, Effect, SetTimer
from holdall.model import location_frames as f
from holdall.model.refusals import Refusal
from holdall.model.terms import LeaseDocument, checked_request
from holdall.parties.location.answering import WAIT_MS, Answering, Wait
from holdall.parties.location.dealings import TIMER, Dealings, NegotiatorSettings, Outcomes
from holdall.parties.location.listing import Listings
from holdall.parties.location.together import TURN_LOOK_MS, Together
from holdall.parties.location.using import Using

OPEN_MAX = 256
"""Requests of one user that may be open at a time."""
GIVEN_UP_MAX = 4096


class _Open(msgspec.Struct):
    """A request that has no lease yet."""

    location: str
    holder: str
    offer: LeaseDocument | None = None
    until_ms: int = 0
    is_patient: bool = False
    """It may wait for long, and is dropped when nobody waits for it any more."""
    is_part: bool = False
    """Of several that are asked together: it is nobody's to take by itself."""
    told: list[Wait] = msgspec.field(default_factory=list[Wait])
    """Those who hear where it stands in line."""


class Requesting:
    """All that are open on one node."""

    def __init__(
        self,
        settings: NegotiatorSettings,
        dealings: Dealings,
        answering: Answering,
        *,
        using: Using,
        listings: Listings,
    ) -> None:
        self._dealings, self._answering = dealings, answering
        self._using, self._listings = using, listings
        self.together = Together(settings, dealings, answering, self)
        self._open: dict[str, _Open] = {}
        self._given_up: dict[str, None] = {}
        """Requests of which a lease may come all the same, as it was being taken already; it is given back."""

    # ------------------------------------------------------------ asked

    def ask(self, wait: Wait, asker: Asker, question: f.AskOffer, out: list[Effect]) -> Outcomes:
        """The same again is answered by the same."""
        if not self._listings.is_known(question.location, wait, out):
            return []
        refused = self._wrong(asker, question)
        if refused is not None:
            self._answering.answer(wait, refused, out)
            return []
        name, known = question.request.request, self._open.get(question.request.request)
        if known is not None and known.offer is not None:
            self._answering.answer(wait, self._offer(known.offer, known.until_ms), out)
            return []
        within_ms = question.request.wait_ms + (2 * WAIT_MS if question.take else WAIT_MS)
        self._answering.wait(f"offer/{name}", wait, out, within_ms=within_ms)
        outcomes = self._send(asker, question, out, told=() if known is None else known.told)
        if question.tell:
            self._open[name].told.append(wait)
        return outcomes

    def ask_together(self, wait: Wait, asker: Asker, question: f.AskTogether, out: list[Effect]) -> None:
        """All of them, or none."""
        names: set[str] = set()
        for part in question.parts:
            if not self._listings.is_known(part.location, wait, out):
                return
            name = part.request.request
            refused = self._wrong(asker, part)
            if name in names or name in self._open or self.together.has(name):
                refused = f.NoOffer("request.id", text="each part needs an id of its own")
            elif part.request.wait_ms:
                refused = f.NoOffer(
                    "request.wait", text="no part waits while others are held: ask without wait_ms"
                )
            if refused is not None:
                self._answering.answer(wait, refused, out)
                return
            names.add(name)
        key = self.together.next_key()
        self._answering.wait(key, wait, out, within_ms=2 * WAIT_MS)
        self.together.begin(key, asker, question, out)
        out.append(SetTimer(f"{TIMER}turn/{key}", TURN_LOOK_MS))

    def _send(
        self,
        asker: Asker,
        question: f.AskOffer,
        out: list[Effect],
        *,
        is_part: bool = False,
        told: Iterable[Wait] = (),
    ) -> Outcomes:
        name = question.request.request
        is_patient = question.request.wait_ms > 0
        self._open[name] = _Open(
            question.location, asker.holder, is_patient=is_patient, is_part=is_part, told=list(told)
        )
        self._given_up.pop(name, None)
        self._dealings.note_asker(name, asker)
        self._dealings.manager(question.location)
        request = question.request
        if request.host is not None:
            request = msgspec.structs.replace(request, host=self._dealings.node_named(request.host))
        return self._dealings.tell(question.location, a.Want(request, question.take), out)

    def _wrong(self, asker: Asker, question: f.AskOffer) -> f.NoOffer | None:
        request, known = question.request, self._open.get(question.request.request)
        try:
            checked_request(request)
        except Refusal as refusal:
            return f.NoOffer(refusal.reason, refusal.where, text=refusal.text)
        if known is not None and (known.holder != asker.holder or known.location != question.location):
            return f.NoOffer("request.id", text="another request has this id; take another one")
        if request.host is not None and self._dealings.node_named(request.host) is None:
            return f.NoOffer(
                "request.host", text=f"no node is named {request.host}. See: holdall location list"
            )
        if self.together.has(request.request):
            return f.NoOffer(
                "request.id", text="a part of a request for several has this id; take another one"
            )
        if sum(1 for one in self._open.values() if one.holder == asker.holder) >= OPEN_MAX:
            return f.NoOffer("busy", text=f"{OPEN_MAX} of your requests are open; take or decline some")
        return None

    # ------------------------------------------------------------ parts of several

    def send_part(self, asker: Asker, question: f.AskOffer, out: list[Effect]) -> Outcomes:
        """As `together.Parts`."""
        return self._send(asker, question, out, is_part=True)

    def take_part(self, request: str, location: str, out: list[Effect]) -> Outcomes:
        """As `together.Parts`."""
        out.append(CancelTimer(f"{TIMER}offer/{request}"))
        return self._dealings.tell(location, a.Take(request), out)

    def drop_part(self, request: str, out: list[Effect]) -> Outcomes:
        """As `together.Parts`."""
        return self.drop(request, "declined", out)

    # ------------------------------------------------------------ offered

    def offers(self, asker: Asker) -> tuple[f.OfferIs, ...]:
        """What he may take."""
        return tuple(
            self._offer(one.offer, one.until_ms)
            for one in self._open.values()
            if one.offer is not None and one.holder == asker.holder and not one.is_part
        )

    def accept(self, wait: Wait, asker: Asker, question: f.AcceptOffer, out: list[Effect]) -> Outcomes:
        """Take an offer. Who takes what is held already has it, too, but for a command's."""
        lease = question.lease
        location = f.location_of(lease)
        agent = self._dealings.agents.get(location)
        request = self._request_of(lease, asker.holder)
        is_held = agent is not None and lease in agent.held and self._dealings.asker(lease) == asker
        if (request is not None or is_held) and self._is_others_command(question, request, is_held=is_held):
            text = (
                f"lease {lease} is taken already, and a command has its lease alone. Ask anew: "
                f"holdall location request {location}"
            )
            self._answering.deny(wait, "not-granted", text, out)
            return []
        if request is None and agent is not None and is_held:
            self._answering.answer(wait, self._using.lease_is(agent.held[lease]), out)
            return []
        if request is None:
            self._answering.answer(wait, f.Over(lease, self._using.became_of(lease)), out)
            return []
        if question.command:
            self._using.commands.add(lease)
        self._answering.wait(f"accept/{lease}", wait, out, within_ms=2 * WAIT_MS)
        out.append(CancelTimer(f"{TIMER}offer/{request}"))
        return self._dealings.tell(location, a.Take(request), out)

    def _is_others_command(self, question: f.AcceptOffer, request: str | None, *, is_held: bool) -> bool:
        """Whether who asks would share a command's lease, or a command another's. Of one whose taker has gone the next is the first."""
        is_being_taken = request is not None and f"accept/{question.lease}" in self._answering.waits
        if question.command:
            return is_held or is_being_taken
        if question.lease not in self._using.commands:
            return False
        # What is to replace a command's lease may be taken by others: its guardian is told, as of a renewal.
        return request is None if is_held else is_being_taken

    def decline(self, wait: Wait, asker: Asker, lease: str, out: list[Effect]) -> Outcomes:
        """Refuse an offer."""
        request = self._request_of(lease, asker.holder)
        if request is None:
            self._answering.answer(wait, f.Over(lease, self._using.became_of(lease)), out)
            return []
        self._answering.answer(wait, f.Over(lease, "declined"), out)
        return self.drop(request, "declined", out)

    def give_up(self, wait: Wait, asker: Asker, request: str, out: list[Effect]) -> Outcomes:
        """A request of his is not wanted any more, nor what comes of it."""
        known = self._open.get(request)
        if known is None or known.holder != asker.holder or known.is_part:
            self._answering.answer(wait, f.NoOffer("unknown", text="no such request of yours waits"), out)
            return []
        cancelled = f.NoOffer("cancelled", text="it was given up")
        self._answering.settle(f"offer/{request}", cancelled, out)
        self._answering.answer(wait, cancelled, out)
        return self._cancel(request, out)

    def drop(self, request: str, reason: str, out: list[Effect]) -> Outcomes:
        """Nothing is to come of it."""
        known = self._open.pop(request, None)
        if known is None:
            return []
        out.append(CancelTimer(f"{TIMER}offer/{request}"))
        if known.offer is not None:
            self._using.note_over(known.offer.lease, reason)
        return self._dealings.tell(known.location, a.Leave(request), out)

    def is_others_offer(self, lease: str, asker: Asker) -> bool:
        """Whether somebody else of this node has an offer of this lease, or is asking about it."""
        known = self._dealings.asker(lease)
        if known is None or known.holder == asker.holder:
            return False
        offered = any(one.offer is not None and one.offer.lease == lease for one in self._open.values())
        return offered or f"renew/{lease}" in self._answering.waits

    # ------------------------------------------------------------ outcomes

    def offered(self, outcome: a.Offered, out: list[Effect]) -> None:
        """A location has made an offer."""
        known = self._open.get(outcome.request)
        if known is None:
            return
        known.offer, known.until_ms = outcome.document, self._using.now_ms + outcome.offer_ms
        out.append(SetTimer(f"{TIMER}offer/{outcome.request}", outcome.offer_ms))
        self._answering.settle(f"offer/{outcome.request}", self._offer(outcome.document, known.until_ms), out)

    def in_line(self, queued: m.Queued, out: list[Effect]) -> None:
        """Where a request stands at its location's manager."""
        known = self._open.get(queued.request)
        waits = self._answering.waits.get(f"offer/{queued.request}", [])
        told = f.InLine(queued.position, queued.ahead, queued.reason, queued.term, queued.best_possible)
        for wait in waits if known is not None else ():
            if known is not None and wait in known.told:
                self._answering.answer(wait, told, out)

    def not_offered(self, declined: Declined, out: list[Effect]) -> None:
        """Nothing comes of a request, or of an offer that was taken."""
        known = self._open.pop(declined.request, None)
        out.append(CancelTimer(f"{TIMER}offer/{declined.request}"))
        self._answering.settle(f"offer/{declined.request}", self._answering.declined(declined), out)
        if known is not None and known.offer is not None:
            self._using.note_over(known.offer.lease, declined.reason)
            over = f.Over(known.offer.lease, declined.reason)
            self._answering.settle(f"accept/{known.offer.lease}", over, out)

    def got(self, document: LeaseDocument, out: list[Effect]) -> Outcomes:
        """A lease is held in this revision."""
        if document.request in self._given_up:
            del self._given_up[document.request]
            self._using.note_over(document.lease, "released")
            return self._dealings.tell(f.location_of(document.lease), a.GiveBack(document.lease), out)
        self._open.pop(document.request, None)
        if document.revision == 1 and f"accept/{document.lease}" not in self._answering.waits:
            self._using.commands.discard(document.lease)  # whoever took it has gone, and never began
        for key in (f"offer/{document.request}", f"accept/{document.lease}", f"renew/{document.lease}"):
            self._answering.settle(key, self._using.lease_is(document), out)
        return []

    def lost(self, lease: str) -> None:
        """What it was offered for is over with it."""
        for request in [name for name, one in self._open.items() if one.offer and one.offer.lease == lease]:
            del self._open[request]

    def lapsed(self, request: str, out: list[Effect]) -> Outcomes:
        """Nobody has taken the offer in time."""
        return [
            *self.drop(request, "lapsed", out),
            *self.together.not_offered(Declined(request, "lapsed"), out),
        ]

    def closed(self, out: list[Effect]) -> Outcomes:
        """A connection has ended: what nobody waits for any more is given up, where it may wait for long."""
        outcomes: Outcomes = []
        for name, known in list(self._open.items()):
            is_waiting = known.is_patient and known.offer is None
            if is_waiting and f"offer/{name}" not in self._answering.waits:
                outcomes += self._cancel(name, out)
        return outcomes

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return sorted(self._open.items()), list(self._given_up)

    # ------------------------------------------------------------ inside

    def _offer(self, document: LeaseDocument, until_ms: int) -> f.OfferIs:
        return f.OfferIs(self._answering.shown(document), max(0, until_ms - self._using.now_ms))

    def _request_of(self, lease: str, holder: str) -> str | None:
        for name, one in self._open.items():
            if one.is_part or one.offer is None or one.holder != holder:
                continue
            if one.offer.lease == lease:
                return name
        return None

    def _cancel(self, request: str, out: list[Effect]) -> Outcomes:
        """Nobody wants it any more; where it is being taken just now, its lease is given back when it comes."""
        self._given_up[request] = None
        while len(self._given_up) > GIVEN_UP_MAX:
            del self._given_up[next(iter(self._given_up))]
        return self.drop(request, "cancelled", out)

"""What a node's clients ask about locations, and how it is answered."""

from collections.abc import Hashable, Iterable

import msgspec

from holdall.leases.negotiation import agent_messages as a
from holdall.leases.negotiation import looking
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Asker
from holdall.leases.negotiation.messages import Declined
from holdall.machine.contract import Address, CancelTimer, Effect, Message, SetTimer
from holdall.model import location_frames as f
from holdall.model.refusals import Refusal
from holdall.model.terms import COMMAND_TERMS, LeaseDocument, checked_request
from holdall.parties.location.answering import WAIT_MS, Answering, Wait
from holdall.parties.location.dealings import TIMER, Dealings, NegotiatorSettings, Outcomes
from holdall.parties.location.listing import AGAIN_MS, Listings
from holdall.parties.location.looking import Looking
from holdall.parties.location.messages import HOST, LOCATION, BytesUsed, OfAgent, Petition, Rate
from holdall.parties.location.splits import Splits
from holdall.parties.location.together import TURN_LOOK_MS, Together
from holdall.parties.location.vouching import asker_of

OPEN_MAX = 256
"""Requests of one user that may be open at a time."""
OVER_MAX = 4096
SAME_FOR_ALL = ("templates/", "hosts/", "leases/")
"""Keys of answers that are the same whoever asks."""
READING = {"templates", "status", "hosts", "leases", "shares"}
"""Questions that change nothing, answered or not."""


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


class Petitions:
    """The questions of all clients of a node. `now_ms`: CLOCK_BOOTTIME as the driver told it last."""

    def __init__(self, settings: NegotiatorSettings, dealings: Dealings, answering: Answering) -> None:
        self._settings, self._dealings, self._answering = settings, dealings, answering
        self.together = Together(settings, dealings, answering, self)
        self.now_ms = 0
        self.warned: dict[str, str] = {}
        self._open: dict[str, _Open] = {}
        self._guardians: set[str] = set()
        """Connections of guardians."""
        self._used: dict[str, dict[str, int]] = {}
        """Lease -> connection -> when it said last that it uses it."""
        self._over: dict[str, str] = {}
        self._given_up: dict[str, None] = {}
        """Requests of which a lease may come all the same, as it was being taken already; it is given back."""
        self._commands: set[str] = set()
        """Leases that a command has for itself, or is taking."""
        self.listings = Listings(dealings, answering)
        self.splits = Splits(settings, dealings, answering)
        self.looking = Looking(dealings, answering, self._ask_manager)
        self._asked: dict[str, tuple[str, Asker, OfAgent]] = {}
        """Questions that go to a manager as they are, until they are answered: location, for whom, which."""

    # ------------------------------------------------------------ questions

    def ask(self, connection: str, petition: Petition, question: f.FromClient, out: list[Effect]) -> Outcomes:
        """One question of a client."""
        wait = connection, petition.n
        settings = self._settings
        asker = asker_of(petition.user, settings.name, settings.location, petition.groups)
        match question:
            case f.ListLocations():
                self.listings.begin(wait, asker, out)
            case f.AskTemplates(location):
                if self._known(location, wait, out):
                    self._ask_manager(f"templates/{location}", location, asker, m.GetTemplates(), wait, out)
            case f.AskHosts() | f.AskLeases() | f.AskShares():
                if self._known(question.location, wait, out):
                    self.looking.ask(wait, asker, question, out)
            case f.AskOffer():
                return self._request(wait, asker, question, out)
            case f.GiveUp(request):
                return self._give_up(wait, asker, request, out)
            case f.AskTogether():
                self._ask_together(wait, asker, question, out)
            case f.ListOffers():
                self._answering.answer(wait, f.Offers(self._offers(asker)), out)
            case f.AcceptOffer():
                return self._accept(wait, asker, question, out)
            case f.DeclineOffer(lease):
                return self._decline(wait, asker, lease, out)
            case f.HoldLeases(leases):
                held = tuple(self._held(connection, asker, lease) for lease in leases)
                self._answering.answer(wait, f.Held(held), out)
            case f.TellUse():
                self._command_used(connection, asker, question, out)
                self._answering.answer(wait, f.Held((self._held(connection, asker, question.lease),)), out)
            case f.AskStatus() | f.RenewLease() | f.EndLease() | f.SplitLease():
                location = f.location_of(question.lease)
                if self._known(location, wait, out):
                    return self._of_lease(wait, asker, location, question, out)
        return []

    def _of_lease(
        self,
        wait: Wait,
        asker: Asker,
        location: str,
        question: f.AskStatus | f.RenewLease | f.EndLease | f.SplitLease,
        out: list[Effect],
    ) -> Outcomes:
        lease, dealings = question.lease, self._dealings
        agent = dealings.agents[location]
        mine = lease in agent.held and dealings.asker(lease) == asker
        match question:
            case f.AskStatus():
                self._ask_manager(f"status/{lease}", location, asker, m.GetStatus(lease), wait, out)
            case f.RenewLease(_, duration, terms):
                if mine:
                    self._answering.wait(f"renew/{lease}", wait, out)
                    return dealings.tell(location, a.RenewNow(lease, duration, terms), out)
                if duration is None:
                    text = "this node does not hold that lease any more: say for how long it is to be renewed"
                    self._answering.deny(wait, "bad-spec", text, out)
                    return []
                if lease in agent.held:  # somebody else's
                    text = f"lease {lease} is not known as yours"
                    self._answering.deny(wait, "refused", text, out)
                    return []
                if self._is_others_offer(lease, asker):
                    self._answering.deny(wait, "refused", f"lease {lease} is not known as yours", out)
                    return []
                # This node has begun anew since: it takes the lease up again, if its host knows it as this user's.
                self._answering.wait(f"renew/{lease}", wait, out)
                dealings.note_asker(lease, asker)
                return dealings.tell(location, a.TakeUp(lease, duration, terms), out)
            case f.SplitLease():
                if lease in agent.held and not mine:
                    text = f"lease {lease} is not known as yours"
                    self._answering.deny(wait, "refused", text, out)
                    return []
                return self.splits.ask(wait, asker, question, out)
            case f.EndLease():
                if mine:
                    self._answering.wait(f"end/{lease}", wait, out)
                    self._note_over(lease, "released")
                    return dealings.tell(location, a.GiveBack(lease), out)
                self._ask_manager(f"end/{lease}", location, asker, m.ReleaseLease(lease), wait, out)
        return []

    def _ask_manager(
        self, key: str, location: str, asker: Asker, message: OfAgent, wait: Wait, out: list[Effect]
    ) -> None:
        if self._is_others(key, asker):
            text = "somebody else's question about that lease is not answered yet. Ask again"
            self._answering.deny(wait, "unreachable", text, out)
            return
        self._answering.wait(key, wait, out)
        self._asked[key] = location, asker, message
        self._dealings.say(self._dealings.manager(location), asker, message, out)
        out.append(SetTimer(f"{TIMER}again/{key}", AGAIN_MS))

    def _is_others(self, key: str, asker: Asker) -> bool:
        """Whether the next answer with this key may be one to another holder, of whose lease this one hears nothing."""
        if key not in self._answering.waits or key.startswith(SAME_FOR_ALL):
            return False
        asked = self._asked.get(key)
        return asked is None or asked[1].holder != asker.holder

    def _is_others_offer(self, lease: str, asker: Asker) -> bool:
        """Whether somebody else of this node has an offer of this lease, or is asking about it."""
        known = self._dealings.asker(lease)
        if known is None or known.holder == asker.holder:
            return False
        offered = any(one.offer is not None and one.offer.lease == lease for one in self._open.values())
        return offered or f"renew/{lease}" in self._answering.waits

    def _ask_again(self, key: str, out: list[Effect]) -> None:
        """The one who was asked may be gone: ask the next one, for as long as somebody waits."""
        if key not in self._answering.waits:
            self._asked.pop(key, None)
        elif key in self._asked:
            location, asker, message = self._asked[key]
            self._dealings.doubt(location)
            self._dealings.say(self._dealings.manager(location), asker, message, out)
            out.append(SetTimer(f"{TIMER}again/{key}", AGAIN_MS))

    def _known(self, location: str, wait: Wait, out: list[Effect]) -> bool:
        if self._dealings.agent(location) is not None:
            return True
        known = ", ".join(self._dealings.locations()) or "none"
        named = f"location {location[:64]!r}" if location else "location by that lease"
        text = f"no node of a {named} is known (known: {known}). See: holdall location list"
        self._answering.deny(wait, "never", text, out)
        return False

    def _request(self, wait: Wait, asker: Asker, question: f.AskOffer, out: list[Effect]) -> Outcomes:
        if not self._known(question.location, wait, out):
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

    def _give_up(self, wait: Wait, asker: Asker, request: str, out: list[Effect]) -> Outcomes:
        known = self._open.get(request)
        if known is None or known.holder != asker.holder or known.is_part:
            self._answering.answer(wait, f.NoOffer("unknown", text="no such request of yours waits"), out)
            return []
        cancelled = f.NoOffer("cancelled", text="it was given up")
        self._answering.settle(f"offer/{request}", cancelled, out)
        self._answering.answer(wait, cancelled, out)
        return self._cancel(request, out)

    def _ask_together(self, wait: Wait, asker: Asker, question: f.AskTogether, out: list[Effect]) -> None:
        names: set[str] = set()
        for part in question.parts:
            if not self._known(part.location, wait, out):
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

    def send_part(self, asker: Asker, question: f.AskOffer, out: list[Effect]) -> Outcomes:
        """As `together.Parts`."""
        return self._send(asker, question, out, is_part=True)

    def take_part(self, request: str, location: str, out: list[Effect]) -> Outcomes:
        """As `together.Parts`."""
        out.append(CancelTimer(f"{TIMER}offer/{request}"))
        return self._dealings.tell(location, a.Take(request), out)

    def drop_part(self, request: str, out: list[Effect]) -> Outcomes:
        """As `together.Parts`."""
        return self._drop(request, "declined", out)

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

    def _offers(self, asker: Asker) -> tuple[f.OfferIs, ...]:
        return tuple(
            self._offer(one.offer, one.until_ms)
            for one in self._open.values()
            if one.offer is not None and one.holder == asker.holder and not one.is_part
        )

    def _offer(self, document: LeaseDocument, until_ms: int) -> f.OfferIs:
        return f.OfferIs(self._answering.shown(document), max(0, until_ms - self.now_ms))

    def _accept(self, wait: Wait, asker: Asker, question: f.AcceptOffer, out: list[Effect]) -> Outcomes:
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
            self._answering.answer(wait, self._lease(agent.held[lease]), out)
            return []
        if request is None:
            self._answering.answer(wait, f.Over(lease, self._over.get(lease, "unknown")), out)
            return []
        if question.command:
            self._commands.add(lease)
        self._answering.wait(f"accept/{lease}", wait, out, within_ms=2 * WAIT_MS)
        out.append(CancelTimer(f"{TIMER}offer/{request}"))
        return self._dealings.tell(location, a.Take(request), out)

    def _is_others_command(self, question: f.AcceptOffer, request: str | None, *, is_held: bool) -> bool:
        """Whether who asks would share a command's lease, or a command another's. Of one whose taker has gone the next is the first."""
        is_being_taken = request is not None and f"accept/{question.lease}" in self._answering.waits
        if question.command:
            return is_held or is_being_taken
        if question.lease not in self._commands:
            return False
        # What is to replace a command's lease may be taken by others: its guardian is told, as of a renewal.
        return request is None if is_held else is_being_taken

    def _decline(self, wait: Wait, asker: Asker, lease: str, out: list[Effect]) -> Outcomes:
        request = self._request_of(lease, asker.holder)
        if request is None:
            self._answering.answer(wait, f.Over(lease, self._over.get(lease, "unknown")), out)
            return []
        self._answering.answer(wait, f.Over(lease, "declined"), out)
        return self._drop(request, "declined", out)

    def _held(self, connection: str, asker: Asker, lease: str) -> f.HeldLease:
        agent = self._dealings.agents.get(f.location_of(lease))
        known = self._dealings.asker(lease)
        if agent is None or lease not in agent.held or known is None or known.holder != asker.holder:
            return f.HeldLease(lease, reason=self._over.get(lease, "unknown"))
        self._used.setdefault(lease, {})[connection] = self.now_ms
        document = self._answering.shown(agent.held[lease])
        return f.HeldLease(lease, agent.left_ms(lease), document, warned=self.warned.get(lease, ""))

    def bytes_used(self, used: BytesUsed, out: list[Effect]) -> None:
        """What the node's gate has let go, for the lease's host. A lease that is just over has its last word, too."""
        asker = self._dealings.asker(used.lease)
        if asker is not None:
            self._dealings.say(
                Address(used.host, HOST), asker, m.UseIs(used.lease, used.uses, used.meter), out
            )

    def _command_used(self, connection: str, asker: Asker, told: f.TellUse, out: list[Effect]) -> None:
        """A command's use goes to the lease's host; of rates only the node's own gate tells anything."""
        agent, known = self._dealings.agents.get(f.location_of(told.lease)), self._dealings.asker(told.lease)
        held = None if agent is None else agent.held.get(told.lease)
        if held is None or known is None or known.holder != asker.holder:
            return
        if told.guarded:
            self._guardians.add(connection)
        uses = tuple(one for one in told.uses if one.name in COMMAND_TERMS)
        if uses or told.before_end:
            message = m.UseIs(told.lease, uses, told.meter, told.before_end)
            self._dealings.say(Address(held.host, HOST), known, message, out)

    def rate_of(self, holder: str, lease: str, term: str) -> Rate | None:
        """What the holder has of a capacity now, by a lease that this node holds for him; None: nothing."""
        agent, asker = self._dealings.agents.get(f.location_of(lease)), self._dealings.asker(lease)
        document = None if agent is None else agent.held.get(lease)
        if agent is None or document is None or asker is None or asker.holder != holder:
            return None
        for one in document.terms:
            if one.name == term and one.kind == "capacity" and isinstance(one.granted, int):
                return Rate(document.host, one.granted, agent.until_ms(lease))
        return None

    def is_used(self, lease: str) -> bool:
        """Whether a client has said lately that it uses the lease, so that it is renewed."""
        used, agent = self._used.get(lease), self._dealings.agents.get(f.location_of(lease))
        if not used or agent is None or lease not in agent.held:
            return False
        return self.now_ms - max(used.values()) <= agent.held[lease].duration

    # ------------------------------------------------------------ outcomes

    def offered(self, outcome: a.Offered, out: list[Effect]) -> None:
        """A location has made an offer."""
        known = self._open.get(outcome.request)
        if known is None:
            return
        known.offer, known.until_ms = outcome.document, self.now_ms + outcome.offer_ms
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
            self._note_over(known.offer.lease, declined.reason)
            over = f.Over(known.offer.lease, declined.reason)
            self._answering.settle(f"accept/{known.offer.lease}", over, out)

    def got(self, document: LeaseDocument, out: list[Effect]) -> Outcomes:
        """A lease is held in this revision."""
        if document.request in self._given_up:
            del self._given_up[document.request]
            self._note_over(document.lease, "released")
            return self._dealings.tell(f.location_of(document.lease), a.GiveBack(document.lease), out)
        self._open.pop(document.request, None)
        if document.revision == 1 and f"accept/{document.lease}" not in self._answering.waits:
            self._commands.discard(document.lease)  # whoever took it has gone, and never began
        for key in (f"offer/{document.request}", f"accept/{document.lease}", f"renew/{document.lease}"):
            self._answering.settle(key, self._lease(document), out)
        return []

    def lost(self, lease: str, reason: str, out: list[Effect]) -> None:
        """It may not be used any more."""
        self._note_over(lease, reason)
        for request in [name for name, one in self._open.items() if one.offer and one.offer.lease == lease]:
            del self._open[request]
        for what in ("accept", "renew"):
            self._answering.settle(f"{what}/{lease}", f.Over(lease, reason), out)

    def heard(self, sender: Address, message: Message, out: list[Effect]) -> None:
        """What a manager or a host has said, for those who asked it themselves. The dealings have checked who it is."""
        settle = self._answering.settle
        match message:
            case m.Templates() if sender.part == LOCATION:
                location = self._dealings.location_at(sender.node)
                settle(
                    f"templates/{location}", f.TemplatesAre(location, message.templates, message.suspect), out
                )
                self.listings.heard(location, sender.node, message, out)
            case m.LeaseIs(document):
                settle(f"status/{document.lease}", self._lease(document), out)
            case looking.Hosts() | looking.Leases() | looking.SharesAre():
                self.looking.heard(sender, message, out)
            case m.UnknownLease(lease):
                for what in ("status", "end"):
                    settle(f"{what}/{lease}", f.Over(lease, self._over.get(lease, "unknown")), out)
            case m.Done(lease):
                settle(f"end/{lease}", f.Over(lease, "released"), out)
            case m.Renewed():
                self._renewed(message, out)
            case _:
                pass

    def _renewed(self, message: m.Renewed, out: list[Effect]) -> None:
        lease, key = message.lease, f"renew/{message.lease}"
        agent = self._dealings.agents.get(f.location_of(lease))
        if agent is not None and lease in agent.held:
            return  # the agent tells what comes of it
        if message.document is not None:
            self._answering.settle(key, self._lease(message.document), out)
        elif message.reason in {"unknown", "ended"}:
            self._answering.settle(key, f.Over(lease, message.reason), out)
        else:
            refused = f.NoOffer(
                message.reason, message.term, message.rule, best_possible=message.best_possible
            )
            self._answering.settle(key, refused, out)

    # ------------------------------------------------------------ ends

    def fired(self, timer: str, out: list[Effect]) -> Outcomes:
        """A timer of the negotiator's own."""
        kind, _, rest = timer.partition("/")
        if kind in {"list", "relist"}:
            self.listings.fired(kind, int(rest), out)
        elif kind == "again":
            self._ask_again(rest, out)
        elif kind == "turn":
            if self.together.look(rest, out):
                out.append(SetTimer(f"{TIMER}{kind}/{rest}", TURN_LOOK_MS))
        elif kind == "offer":
            return [
                *self._drop(rest, "lapsed", out),
                *self.together.not_offered(Declined(rest, "lapsed"), out),
            ]
        elif kind == "wait":
            what, _, name = rest.partition("/")
            for wait in self._answering.take(rest, out):
                text = "nobody of the location has answered. See: holdall location list"
                self._answering.deny(wait, "unreachable", text, out, definite=what in READING)
            if what == "together":
                return self.together.give_up(rest, out)
            if what == "offer":
                return self._drop(name, "no_answer", out)
        return []

    def closed(self, connection: str, *, process_gone: bool, out: list[Effect]) -> Outcomes:
        """A connection has ended. What it used is given back when its process is gone, else it runs out."""
        self._answering.gone(connection)
        self.listings.gone(connection)
        outcomes: Outcomes = []
        for name, known in list(self._open.items()):
            is_waiting = known.is_patient and known.offer is None
            if is_waiting and f"offer/{name}" not in self._answering.waits:
                outcomes += self._cancel(name, out)
        is_guardian = connection in self._guardians
        if process_gone:
            self._guardians.discard(connection)
        for lease in [one for one, used in self._used.items() if connection in used and process_gone]:
            if is_guardian:
                continue  # it is not renewed any more, and runs out: what was guarded may still end
            del self._used[lease][connection]
            if self.is_used(lease):
                continue  # by another one, too
            del self._used[lease]
            location = f.location_of(lease)
            if location in self._dealings.agents:
                self._note_over(lease, "released")
                outcomes += self._dealings.tell(location, a.GiveBack(lease), out)
        return outcomes

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return repr(
            (
                sorted(self._open.items()),
                sorted(self._used),
                sorted(self._over.items()),
                list(self._given_up),
                sorted(self._commands),
            )
        )

    def _cancel(self, request: str, out: list[Effect]) -> Outcomes:
        """Nobody wants it any more; where it is being taken just now, its lease is given back when it comes."""
        self._given_up[request] = None
        while len(self._given_up) > OVER_MAX:
            del self._given_up[next(iter(self._given_up))]
        return self._drop(request, "cancelled", out)

    def _drop(self, request: str, reason: str, out: list[Effect]) -> Outcomes:
        known = self._open.pop(request, None)
        if known is None:
            return []
        out.append(CancelTimer(f"{TIMER}offer/{request}"))
        if known.offer is not None:
            self._note_over(known.offer.lease, reason)
        return self._dealings.tell(known.location, a.Leave(request), out)

    def _request_of(self, lease: str, holder: str) -> str | None:
        for name, one in self._open.items():
            if one.is_part or one.offer is None or one.holder != holder:
                continue
            if one.offer.lease == lease:
                return name
        return None

    def _lease(self, document: LeaseDocument) -> f.LeaseIs:
        agent = self._dealings.agents.get(f.location_of(document.lease))
        valid_ms = 0 if agent is None else agent.left_ms(document.lease)
        return f.LeaseIs(self._answering.shown(document), valid_ms)

    def _note_over(self, lease: str, reason: str) -> None:
        self._used.pop(lease, None)
        self._commands.discard(lease)
        self.warned.pop(lease, None)
        self._over[lease] = reason
        while len(self._over) > OVER_MAX:
            del self._over[next(iter(self._over))]

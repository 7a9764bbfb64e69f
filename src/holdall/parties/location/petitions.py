"""What a node's clients ask about locations, and who answers: each question goes to whom it is for."""

from collections.abc import Hashable

from holdall.leases.negotiation import agent_messages as a
from holdall.leases.negotiation import looking
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Asker
from holdall.machine.contract import Address, Effect, Message, SetTimer
from holdall.model import location_frames as f
from holdall.parties.location.answering import Answering, Wait
from holdall.parties.location.dealings import TIMER, Dealings, NegotiatorSettings, Outcomes
from holdall.parties.location.listing import Listings
from holdall.parties.location.looking import Looking
from holdall.parties.location.messages import LOCATION, Petition
from holdall.parties.location.passing_on import PassingOn
from holdall.parties.location.requesting import Requesting
from holdall.parties.location.splits import Splits
from holdall.parties.location.together import TURN_LOOK_MS
from holdall.parties.location.using import Using
from holdall.parties.location.vouching import asker_of

READING = {"templates", "status", "hosts", "leases", "shares"}
"""Questions that change nothing, answered or not."""


class Petitions:
    """The questions of all clients of a node."""

    def __init__(self, settings: NegotiatorSettings, dealings: Dealings, answering: Answering) -> None:
        self._settings, self._dealings, self._answering = settings, dealings, answering
        self.using = Using(dealings, answering)
        self.listings = Listings(dealings, answering)
        self.requesting = Requesting(settings, dealings, answering, using=self.using, listings=self.listings)
        self.splits = Splits(settings, dealings, answering)
        self.passing_on = PassingOn(dealings, answering)
        self.looking = Looking(dealings, answering, self.passing_on.ask)

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
                if self.listings.is_known(location, wait, out):
                    self.passing_on.ask(f"templates/{location}", location, asker, m.GetTemplates(), wait, out)
            case f.AskHosts() | f.AskLeases() | f.AskShares():
                if self.listings.is_known(question.location, wait, out):
                    self.looking.ask(wait, asker, question, out)
            case f.AskOffer():
                return self.requesting.ask(wait, asker, question, out)
            case f.GiveUp(request):
                return self.requesting.give_up(wait, asker, request, out)
            case f.AskTogether():
                self.requesting.ask_together(wait, asker, question, out)
            case f.ListOffers():
                self._answering.answer(wait, f.Offers(self.requesting.offers(asker)), out)
            case f.AcceptOffer():
                return self.requesting.accept(wait, asker, question, out)
            case f.DeclineOffer(lease):
                return self.requesting.decline(wait, asker, lease, out)
            case f.HoldLeases(leases):
                held = tuple(self.using.hold(connection, asker, lease) for lease in leases)
                self._answering.answer(wait, f.Held(held), out)
            case f.TellUse():
                self.using.command_used(connection, asker, question, out)
                self._answering.answer(
                    wait, f.Held((self.using.hold(connection, asker, question.lease),)), out
                )
            case f.AskStatus() | f.RenewLease() | f.EndLease() | f.SplitLease():
                location = f.location_of(question.lease)
                if self.listings.is_known(location, wait, out):
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
                self.passing_on.ask(f"status/{lease}", location, asker, m.GetStatus(lease), wait, out)
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
                if self.requesting.is_others_offer(lease, asker):
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
                    self.using.note_over(lease, "released")
                    return dealings.tell(location, a.GiveBack(lease), out)
                self.passing_on.ask(f"end/{lease}", location, asker, m.ReleaseLease(lease), wait, out)
        return []

    # ------------------------------------------------------------ outcomes

    def lost(self, lease: str, reason: str, out: list[Effect]) -> None:
        """It may not be used any more."""
        self.using.note_over(lease, reason)
        self.requesting.lost(lease)
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
                settle(f"status/{document.lease}", self.using.lease_is(document), out)
            case looking.Hosts() | looking.Leases() | looking.SharesAre():
                self.looking.heard(sender, message, out)
            case m.UnknownLease(lease):
                for what in ("status", "end"):
                    settle(f"{what}/{lease}", f.Over(lease, self.using.became_of(lease)), out)
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
            self._answering.settle(key, self.using.lease_is(message.document), out)
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
            self.passing_on.ask_again(rest, out)
        elif kind == "turn":
            if self.requesting.together.look(rest, out):
                out.append(SetTimer(f"{TIMER}{kind}/{rest}", TURN_LOOK_MS))
        elif kind == "offer":
            return self.requesting.lapsed(rest, out)
        elif kind == "wait":
            what, _, name = rest.partition("/")
            for wait in self._answering.take(rest, out):
                text = "nobody of the location has answered. See: holdall location list"
                self._answering.deny(wait, "unreachable", text, out, definite=what in READING)
            if what == "together":
                return self.requesting.together.give_up(rest, out)
            if what == "offer":
                return self.requesting.drop(name, "no_answer", out)
        return []

    def closed(self, connection: str, *, process_gone: bool, out: list[Effect]) -> Outcomes:
        """A connection has ended."""
        self._answering.gone(connection)
        self.listings.gone(connection)
        given_up = self.requesting.closed(out)
        return [*given_up, *self.using.closed(connection, process_gone=process_gone, out=out)]

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return repr((self.requesting.key(), self.using.key()))

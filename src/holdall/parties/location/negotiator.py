"""The part `negotiator` of a node: speaks for the node's clients with the managers of any location.

A lease that a client holds is renewed by this part, for as long as the client says that it uses it. An offer that a
client got is kept until it is taken, declined or over, whichever connection asks. Nothing is saved: a node that restarts
holds nothing for anybody; leases themselves are with their hosts, where `status`, `renew` and `release` find them.
"""

from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from typing import Self

import msgspec

from holdall.leases.negotiation import agent_messages as a
from holdall.machine.contract import (
    Address,
    ClockRead,
    Effect,
    Event,
    Message,
    Record,
    TimerFired,
)
from holdall.model import location_frames as f
from holdall.parties.location.answering import Answering
from holdall.parties.location.dealings import TIMER, Dealings, NegotiatorSettings
from holdall.parties.location.messages import BytesUsed, Elsewhere, Petition, Rate
from holdall.parties.location.petitions import Petitions
from holdall.parties.location.turns import TURNS, NoTurn, TurnIs
from holdall.parties.messages import NODE, SESSION, SessionClosed
from holdall.parties.neighbours import Neighbours

_BAD = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)


class Negotiator:
    """The machine."""

    def __init__(self, settings: NegotiatorSettings, neighbours: Neighbours) -> None:
        self.settings = settings
        self._neighbours = neighbours
        self._build(Dealings(settings, neighbours), Answering(settings, neighbours))

    def _build(self, dealings: Dealings, answering: Answering) -> None:
        self.dealings, self.answering = dealings, answering
        self.petitions = Petitions(self.settings, dealings, answering)

    def start(self) -> Sequence[Effect]:
        """Nobody has asked anything."""
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """Nothing is held."""
        del records
        return ()

    def handle(self, event: Event) -> Sequence[Effect]:
        """One event. Raises ProtocolViolation for what its sender may not say; nothing has changed then."""
        out: list[Effect] = []
        if isinstance(event, TimerFired):
            self._fired(event.timer, out)
            return out
        sender, message = event.sender, event.message
        match message:
            case ClockRead():
                self.dealings.clock(message)
                self.petitions.using.now_ms = message.boot_ms
            case Petition() if self._is_session(sender):
                self._petition(sender.part.removeprefix(SESSION), message, out)
            case SessionClosed() if self._is_session(sender):
                self._outcomes(
                    self.petitions.closed(
                        sender.part.removeprefix(SESSION), process_gone=message.process_gone, out=out
                    ),
                    out,
                )
            case TurnIs(key) if self._is_turns(sender):
                self._outcomes(self.petitions.requesting.together.turn_is(key, out), out)
            case NoTurn(key, text) if self._is_turns(sender):
                self._outcomes(self.petitions.requesting.together.no_turn(key, text, out), out)
            case BytesUsed() if sender == Address(self.settings.node, NODE):
                self.petitions.using.bytes_used(message, out)
            case Elsewhere():
                self.dealings.elsewhere(sender, message, out)
            case _:
                outcomes = self.dealings.heard(sender, message, out)
                self.petitions.heard(sender, message, out)
                self._outcomes(outcomes, out)
        return out

    def rate_of(self, user: str, lease: str, term: str) -> Rate | None:
        """What a user of this node has of a capacity now; None: no such lease of his is held here."""
        return self.petitions.using.rate_of(f"{user}@{self.settings.name}", lease, term)

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        agents = self.dealings.agents
        return tuple((name, agents[name].key()) for name in sorted(agents)), self.petitions.key()

    def copy(self) -> Self:
        """An independent twin, which reads the same neighbours."""
        twin = object.__new__(type(self))
        shared = {id(self._neighbours): self._neighbours}
        twin.__dict__.update(self.__dict__)
        twin.dealings, twin.answering, twin.petitions = deepcopy(
            (self.dealings, self.answering, self.petitions), shared
        )
        return twin

    # ------------------------------------------------------------ inside

    def _is_session(self, sender: Address) -> bool:
        return sender.node == self.settings.node and sender.part.startswith(SESSION)

    def _is_turns(self, sender: Address) -> bool:
        return sender == Address(self.settings.node, TURNS)

    def _petition(self, connection: str, petition: Petition, out: list[Effect]) -> None:
        try:
            question = f.read_question(petition.body)
        except _BAD as error:
            self.answering.deny(
                (connection, petition.n), "bad-spec", f"no question about a location: {error}", out
            )
            return
        self._outcomes(self.petitions.ask(connection, petition, question, out), out)

    def _fired(self, timer: str, out: list[Effect]) -> None:
        kind, _, rest = timer.partition(TIMER)
        if kind == "":
            self._outcomes(self.petitions.fired(rest, out), out)
            return
        inner, _, lease = rest.partition("/")
        if inner in {"renew", "rebind"} and not self.petitions.using.is_used(lease):
            self.dealings.put_off(timer, out)
            return
        self._outcomes(self.dealings.fired(timer, out), out)

    def _outcomes(self, outcomes: Sequence[Message], out: list[Effect]) -> None:
        for outcome in outcomes:
            match outcome:
                case a.Offered():
                    self.petitions.requesting.offered(outcome, out)
                    more = self.petitions.requesting.together.offered(outcome.request, outcome.document, out)
                    self._outcomes(more, out)
                case a.InLine():
                    self.petitions.requesting.in_line(outcome.queued, out)
                case a.NotOffered():
                    self.petitions.requesting.not_offered(outcome.declined, out)
                    self._outcomes(self.petitions.requesting.together.not_offered(outcome.declined, out), out)
                case a.Got():
                    self._outcomes(self.petitions.requesting.got(outcome.document, out), out)
                    self._outcomes(self.petitions.requesting.together.got(outcome.document, out), out)
                case a.NotRenewed():
                    refused = f.NoOffer(outcome.reason, outcome.term, outcome.rule)
                    self.answering.settle(f"renew/{outcome.lease}", refused, out)
                case a.Parted():
                    self.petitions.splits.parted(outcome, out)
                case a.NotParted():
                    self.petitions.splits.not_parted(outcome, out)
                case a.Warned():
                    self.petitions.using.warned[outcome.lease] = outcome.why
                case a.Lost():
                    self.petitions.lost(outcome.lease, outcome.reason, out)
                    self._outcomes(self.petitions.requesting.together.lost(outcome.lease, out), out)
                case _:
                    raise AssertionError(f"no outcome of an agent: {type(outcome).__name__}")

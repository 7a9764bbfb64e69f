"""Several requests as one: all of them become leases, or none does.

First it takes its turn (see `turns`): a claim by the protocol of the system, at one node of each location that it asks,
so that two such requests do not take from each other what neither can use alone. Then one part after the other is asked
for and held by its host. Only when all are offered they are accepted, and their client is told when all are active. If
one comes to nothing, in whatever phase, all others are declined or given back. The turn ends when nothing of the request
is open any more. No part waits for anything while others are held. Source: lease negotiation, sections 4.3 and 4.7.
"""

from collections.abc import Hashable
from typing import Protocol

import msgspec

from holdall.leases.negotiation import agent_messages as a
from holdall.leases.negotiation.interfaces import Asker
from holdall.leases.negotiation.messages import Declined
from holdall.machine.contract import Address, Effect, Send
from holdall.model import location_frames as f
from holdall.model.terms import LeaseDocument
from holdall.parties.location.answering import Answering
from holdall.parties.location.dealings import Dealings, NegotiatorSettings, Outcomes
from holdall.parties.location.turns import TURNS, EndTurn, TakeTurn

TURN_WAIT_MS = 14_000
"""A turn is waited for so long; those before it are asked for one after the other, mostly within a second each."""
TURN_LOOK_MS = 3000
"""So often the one who keeps the turns may be another: the one that did may be gone."""
BUSY = "others_first"
"""Reason of a refusal: no turn came in time."""


class Parts(Protocol):
    """The parts of such a request, each a request of its own, known by its id."""

    def send_part(self, asker: Asker, question: f.AskOffer, out: list[Effect]) -> Outcomes:
        """Ask a location for it."""
        ...

    def take_part(self, request: str, location: str, out: list[Effect]) -> Outcomes:
        """Accept what was offered for it. It does not lapse here any more: its location says what comes of it."""
        ...

    def drop_part(self, request: str, out: list[Effect]) -> Outcomes:
        """It is not wanted. Of one that is being accepted this does nothing."""
        ...


class _Whole(msgspec.Struct):
    """One such request. Requests by their ids, in the order in which they were asked."""

    key: str
    parts: dict[str, str]
    """Request -> its location."""
    offers: dict[str, LeaseDocument]
    got: dict[str, LeaseDocument]
    rest: list[f.AskOffer]
    """Not asked yet."""
    asker: Asker
    keepers: tuple[str, ...] = ()
    """Names of the nodes where its turn is."""
    is_over: bool = False

    @property
    def waits(self) -> bool:
        """For its turn: nothing has been asked yet."""
        return not self.is_over and len(self.rest) == len(self.parts)


class Together:
    """All that are under way on one node."""

    def __init__(
        self, settings: NegotiatorSettings, dealings: Dealings, answering: Answering, parts: Parts
    ) -> None:
        self._turns = Address(settings.node, TURNS)
        self._dealings, self._answering = dealings, answering
        self._parts = parts
        self._whole_of: dict[str, _Whole] = {}
        """By the request of a part."""
        self._count = 0

    def next_key(self) -> str:
        """What the next one's answer goes by."""
        self._count += 1
        return f"together/{self._count}"

    def begin(self, key: str, asker: Asker, question: f.AskTogether, out: list[Effect]) -> None:
        """Take a turn for it; from now on this knows the outcomes of all parts."""
        parts = {one.request.request: one.location for one in question.parts}
        whole = _Whole(key, parts, {}, {}, list(question.parts), asker)
        for request in parts:
            self._whole_of[request] = whole
        self._take_turn(whole, out)

    def look(self, key: str, out: list[Effect]) -> bool:
        """Take the turn elsewhere, where another node keeps it now. False: it has begun, or is not wanted any more."""
        whole = self._of(key)
        if whole is None or not whole.waits:
            return False
        if whole.keepers != self._keepers(whole):
            out.append(Send(self._turns, EndTurn(key)))
            self._take_turn(whole, out)
        return True

    def turn_is(self, key: str, out: list[Effect]) -> Outcomes:
        """It begins: ask for the first part. Without anybody who waits for it, it is over."""
        whole = self._of(key)
        if whole is None:
            out.append(Send(self._turns, EndTurn(key)))
            return []
        if not whole.waits:
            return []
        return self._ask_next(whole, out) if key in self._answering.waits else self._fail(whole, out)

    def no_turn(self, key: str, text: str, out: list[Effect]) -> Outcomes:
        """None came in time."""
        whole = self._of(key)
        if whole is None or not whole.waits:
            return []
        text = f"several leases at once are asked for in turn, and no turn came: {text}"
        self._answering.settle(key, f.NoOffer(BUSY, text=text), out)
        return self._fail(whole, out)

    def _take_turn(self, whole: _Whole, out: list[Effect]) -> None:
        whole.keepers = self._keepers(whole)
        out.append(Send(self._turns, TakeTurn(whole.key, whole.keepers, TURN_WAIT_MS, whole.asker.holder)))

    def _keepers(self, whole: _Whole) -> tuple[str, ...]:
        """The first node that is heard of each location."""
        known = self._dealings.locations()
        nodes = {known[location][0] for location in whole.parts.values() if location in known}
        return tuple(sorted(self._answering.name_of(node) for node in nodes))

    def _of(self, key: str) -> _Whole | None:
        return next((one for one in self._whole_of.values() if one.key == key), None)

    def _ask_next(self, whole: _Whole, out: list[Effect]) -> Outcomes:
        return self._parts.send_part(whole.asker, msgspec.structs.replace(whole.rest.pop(0), take=False), out)

    def has(self, request: str) -> bool:
        """Whether a part of something that is not over has this id."""
        return request in self._whole_of

    def _forget(self, request: str, out: list[Effect]) -> None:
        """Nothing more comes of a part; with the last one the turn ends."""
        whole = self._whole_of.pop(request)
        if self._of(whole.key) is None:
            out.append(Send(self._turns, EndTurn(whole.key)))

    def offered(self, request: str, document: LeaseDocument, out: list[Effect]) -> Outcomes:
        """The last offer has all of them accepted."""
        whole = self._whole_of.get(request)
        if whole is None:
            return []
        whole.offers[request] = document
        if whole.rest and not whole.is_over:
            return self._ask_next(whole, out)
        outcomes: Outcomes = []
        if len(whole.offers) == len(whole.parts) and not whole.is_over:
            for name, location in whole.parts.items():
                outcomes += self._parts.take_part(name, location, out)
        return outcomes

    def not_offered(self, declined: Declined, out: list[Effect]) -> Outcomes:
        """A part comes to nothing, and so do all."""
        whole = self._whole_of.get(declined.request)
        if whole is None:
            return []
        self._forget(declined.request, out)
        if whole.is_over:
            return []
        answer = self._answering.declined(declined)
        self._answering.settle(whole.key, answer, out)
        return self._fail(whole, out)

    def got(self, document: LeaseDocument, out: list[Effect]) -> Outcomes:
        """A part is active; the last one has the client told. One that comes too late is given back."""
        whole = self._whole_of.get(document.request)
        if whole is None:
            return []
        if whole.is_over:
            given_back = self._dealings.tell(document.location, a.GiveBack(document.lease), out)
            self._forget(document.request, out)
            return given_back
        whole.got[document.request] = document
        if len(whole.got) < len(whole.parts):
            return []
        for request in whole.parts:
            self._forget(request, out)
        leases = tuple(self._lease(whole.got[request]) for request in whole.parts)
        if self._answering.settle(whole.key, f.LeasesAre(leases), out):
            return []
        # Its client is gone.
        outcomes: Outcomes = []
        for one in whole.got.values():
            outcomes += self._dealings.tell(one.location, a.GiveBack(one.lease), out)
        return outcomes

    def lost(self, lease: str, out: list[Effect]) -> Outcomes:
        """A part was accepted, and is over before all were."""
        for request, whole in list(self._whole_of.items()):
            known = whole.got.get(request) or whole.offers.get(request)
            if known is not None and known.lease == lease:
                return self.not_offered(Declined(request, "lapsed"), out)
        return []

    def give_up(self, key: str, out: list[Effect]) -> Outcomes:
        """Nobody waits for it any more."""
        whole = self._of(key)
        return [] if whole is None else self._fail(whole, out)

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return repr(sorted(self._whole_of.items()))

    def _fail(self, whole: _Whole, out: list[Effect]) -> Outcomes:
        whole.is_over = True
        outcomes: Outcomes = []
        for request, location in whole.parts.items():
            if self._whole_of.get(request) is not whole:
                continue
            if request in whole.got:
                outcomes += self._dealings.tell(location, a.GiveBack(whole.got[request].lease), out)
                self._forget(request, out)
                continue
            # One that is being accepted is given back when it is active.
            outcomes += self._parts.drop_part(request, out)
            if len(whole.offers) < len(whole.parts):
                self._forget(request, out)
        return outcomes

    def _lease(self, document: LeaseDocument) -> f.LeaseIs:
        return f.LeaseIs(self._answering.shown(document), self._dealings.left_ms(document.lease))

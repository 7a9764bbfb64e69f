"""Several requests as one: all of them become leases, or none does.

One part after the other is asked for and held by its host: two questions at once would each keep for a moment what the
other one could have. Only when all are offered they are accepted, and their client is told when all are active. If one comes to nothing, in whatever phase, all others are declined or given back. No part waits for
anything while others are held, so such requests can't block each other for ever; that two of them refuse each other and
both have to ask again is possible. Source: lease negotiation, sections 4.3 and 4.7.
"""

from collections.abc import Hashable
from typing import Protocol

import msgspec

from holdall.leases.negotiation import agent_messages as a
from holdall.leases.negotiation.interfaces import Asker
from holdall.leases.negotiation.messages import Declined
from holdall.machine.contract import Effect
from holdall.model import location_frames as f
from holdall.model.terms import LeaseDocument
from holdall.parties.location.answering import Answering
from holdall.parties.location.dealings import Dealings, Outcomes


class SendPart(Protocol):
    """Asks a location for one part."""

    def __call__(self, asker: Asker, question: f.AskOffer, out: list[Effect]) -> Outcomes:
        """It is the asker's, and known by its request's id."""
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
    is_over: bool = False


class Together:
    """All that are under way on one node."""

    def __init__(self, dealings: Dealings, answering: Answering, send: SendPart) -> None:
        self._dealings, self._answering = dealings, answering
        self._send = send
        self._whole_of: dict[str, _Whole] = {}
        """By the request of a part."""
        self._count = 0

    def next_key(self) -> str:
        """What the next one's answer goes by."""
        self._count += 1
        return f"together/{self._count}"

    def begin(self, key: str, asker: Asker, question: f.AskTogether, out: list[Effect]) -> Outcomes:
        """Ask for its first part; from now on this knows the outcomes of all."""
        parts = {one.request.request: one.location for one in question.parts}
        whole = _Whole(key, parts, {}, {}, list(question.parts), asker)
        for request in parts:
            self._whole_of[request] = whole
        return self._ask_next(whole, out)

    def _ask_next(self, whole: _Whole, out: list[Effect]) -> Outcomes:
        return self._send(whole.asker, msgspec.structs.replace(whole.rest.pop(0), take=False), out)

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
                outcomes += self._dealings.tell(location, a.Take(name), out)
        return outcomes

    def not_offered(self, declined: Declined, out: list[Effect]) -> Outcomes:
        """A part comes to nothing, and so do all."""
        whole = self._whole_of.pop(declined.request, None)
        if whole is None or whole.is_over:
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
            del self._whole_of[document.request]
            return self._dealings.tell(document.location, a.GiveBack(document.lease), out)
        whole.got[document.request] = document
        if len(whole.got) < len(whole.parts):
            return []
        for request in whole.parts:
            del self._whole_of[request]
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
        whole = next((one for one in self._whole_of.values() if one.key == key), None)
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
                del self._whole_of[request]
                outcomes += self._dealings.tell(location, a.GiveBack(whole.got[request].lease), out)
                continue
            # Of one that is being accepted this does nothing: it is given back when it is active.
            outcomes += self._dealings.tell(location, a.Leave(request), out)
            if len(whole.offers) < len(whole.parts):
                del self._whole_of[request]
        return outcomes

    def _lease(self, document: LeaseDocument) -> f.LeaseIs:
        agent = self._dealings.agents.get(document.location)
        left_ms = 0 if agent is None else agent.left_ms(document.lease)
        return f.LeaseIs(self._answering.shown(document), left_ms)

"""Answers of a negotiator to clients: who waits for what, and documents as people read them."""

import msgspec

from holdall.leases.negotiation.messages import Declined
from holdall.machine.contract import Address, CancelTimer, Effect, Send, SetTimer
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.terms import LeaseDocument
from holdall.parties.location.dealings import TIMER, NegotiatorSettings
from holdall.parties.messages import SESSION
from holdall.parties.neighbours import Neighbours

Wait = tuple[str, int]
"""(connection, request number)."""
WAIT_MS = 12_000
"""A location that has not answered for so long is not there."""


class Answering:
    """What waits for an answer of a location goes by a key, as `status/LEASE`; several may wait for one."""

    def __init__(self, settings: NegotiatorSettings, neighbours: Neighbours) -> None:
        self._settings, self._neighbours = settings, neighbours
        self.waits: dict[str, list[Wait]] = {}

    def wait(self, key: str, wait: Wait, out: list[Effect], *, within_ms: int = WAIT_MS) -> None:
        """It gets the answer with this key, or is told that none came."""
        self.waits.setdefault(key, []).append(wait)
        out.append(SetTimer(f"{TIMER}wait/{key}", within_ms))

    def take(self, key: str, out: list[Effect]) -> list[Wait]:
        """Whoever waits for it, and does not any more."""
        found = self.waits.pop(key, [])
        if found:
            out.append(CancelTimer(f"{TIMER}wait/{key}"))
        return found

    def settle(self, key: str, answer: f.ToClient, out: list[Effect]) -> bool:
        """Tell all who wait for it; False: nobody did."""
        found = self.take(key, out)
        for wait in found:
            self.answer(wait, answer, out)
        return bool(found)

    def gone(self, connection: str) -> None:
        """Nobody waits there any more."""
        for key in list(self.waits):
            self.waits[key] = [wait for wait in self.waits[key] if wait[0] != connection]
            if not self.waits[key]:
                del self.waits[key]

    def answer(self, wait: Wait, answer: f.ToClient, out: list[Effect]) -> None:
        """One frame."""
        out.append(Send(self._at(wait), frames.Negotiated(wait[1], f.pack(answer))))

    def deny(self, wait: Wait, code: str, text: str, out: list[Effect], *, definite: bool = True) -> None:
        """An error of `model.errors`."""
        out.append(Send(self._at(wait), frames.Denied(wait[1], code, text, definite=definite)))

    def name_of(self, node: str) -> str:
        """What people call a node."""
        return self._neighbours.name_of(node)

    def shown(self, document: LeaseDocument) -> LeaseDocument:
        """Nodes by their names."""
        name_of = self._neighbours.name_of
        terms = tuple(
            msgspec.structs.replace(
                term,
                units=tuple(msgspec.structs.replace(unit, node=name_of(unit.node)) for unit in term.units),
            )
            for term in document.terms
        )
        return msgspec.structs.replace(document, host=name_of(document.host), terms=terms)

    def declined(self, declined: Declined) -> f.NoOffer:
        """The same for a client."""
        name_of = self._neighbours.name_of
        return f.NoOffer(
            declined.reason,
            declined.term,
            declined.rule,
            declined.text,
            declined.best_possible,
            {name_of(host): term for host, term in sorted(declined.missing.items())},
            declined.templates,
            declined.retry_after_ms,
        )

    def _at(self, wait: Wait) -> Address:
        return Address(self._settings.node, SESSION + wait[0])

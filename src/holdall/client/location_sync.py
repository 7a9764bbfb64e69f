"""The blocking face of locations, `holdall.sync`: the same names as the asyncio one."""

import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from holdall.client.blocking import result_of
from holdall.client.gate import taker_of
from holdall.client.gate_sync import Gate
from holdall.client.link import Link
from holdall.client.location_tenure import LeaseFace, NegotiatedTenure, expected, problem, read, taken
from holdall.client.location_words import Amount, before_end_of, new_request, renewal_of, together, wait_ms_of
from holdall.client.splitting import new_split
from holdall.guardian.clock import boottime_ms
from holdall.model import location_frames as f
from holdall.model.errors import LeaseLost
from holdall.model.terms import LeaseDocument, Template


class Location:
    """One location, as the hub's node reaches it."""

    def __init__(self, link: Link, name: str) -> None:
        self._link = link
        self.name = name

    def templates(self) -> tuple[Template, ...]:
        """What may be asked there. Raises NeverSatisfiable (no such location), Unreachable."""
        return expected(ask(self._link, f.AskTemplates(self.name)), f.TemplatesAre).templates

    def request(
        self,
        terms: Mapping[str, Amount],
        *,
        duration: float | str | None = None,
        floors: Mapping[str, int | str] | None = None,
        weights: Mapping[str, int | str] | None = None,
        template: str | None = None,
        replaces: "NegotiatedLease | str | None" = None,
        wait: float | str | None = None,
        before_end: float | str | None = None,
    ) -> "Offer":
        """As the asyncio twin."""
        made = new_request(
            terms,
            duration=duration,
            floors=floors,
            weights=weights,
            template=template,
            replaces=replaces.id if isinstance(replaces, LeaseFace) else replaces,
            wait=wait,
            before_end=before_end_of(before_end),
        )
        answer = ask(self._link, f.AskOffer(self.name, made))
        if isinstance(answer, f.OfferIs):
            return Offer(self._link, answer)
        raise problem(answer, self.name)

    def lease(
        self,
        terms: Mapping[str, Amount],
        *,
        duration: float | str | None = None,
        floors: Mapping[str, int | str] | None = None,
        weights: Mapping[str, int | str] | None = None,
        template: str | None = None,
        wait: float | str | None = None,
        before_end: float | str | None = None,
    ) -> "NegotiatedLease":
        """As `request`, and the offer is taken at once: `with location.lease({…}) as lease`."""
        made = new_request(
            terms,
            duration=duration,
            floors=floors,
            weights=weights,
            template=template,
            wait=wait,
            before_end=before_end_of(before_end),
        )
        asked_ms = boottime_ms()
        answer = ask(self._link, f.AskOffer(self.name, made, take=True))
        return _leased(self._link, answer, asked_ms, self.name)

    def attach(self, lease: str, *, duration: float | str) -> "NegotiatedLease":
        """As the asyncio twin."""
        question, asked_ms = renewal_of(lease, self.name, duration), boottime_ms()
        return _leased(self._link, ask(self._link, question), asked_ms, self.name)

    def lease_all(
        self, parts: Sequence[Mapping[str, Amount]], *, duration: float | str | None = None
    ) -> "list[NegotiatedLease]":
        """As the asyncio twin."""
        question = together(self.name, parts, duration)
        asked_ms = boottime_ms()
        answer = ask(self._link, question)
        if not isinstance(answer, f.LeasesAre):
            raise problem(answer, self.name)
        return [_leased(self._link, one, asked_ms, self.name) for one in answer.leases]


class Offer:
    """What a location would give. Not accepted in time it is over, and grants nothing."""

    def __init__(self, link: Link, offer: f.OfferIs) -> None:
        self._link = link
        self.document: LeaseDocument = offer.document
        self.offer_ms = offer.offer_ms
        """It was binding for so long when it came."""

    def accept(self) -> "NegotiatedLease":
        """The lease. Raises NotGranted when the offer is over."""
        asked_ms = boottime_ms()
        answer = ask(self._link, f.AcceptOffer(self.document.lease))
        return _leased(self._link, answer, asked_ms, self.document.location)

    def decline(self) -> None:
        """What it held is free at once."""
        ask(self._link, f.DeclineOffer(self.document.lease))


class NegotiatedLease(LeaseFace):
    """A lease that is renewed until it is released or lost; `with` releases it at the end of the body.

    A blocking body is not interrupted on loss: it looks with `check()`, or waits for `lost`.
    """

    def __init__(self, link: Link, tenure: NegotiatedTenure) -> None:
        super().__init__(link, tenure)
        self.lost = threading.Event()
        """Set when the lease is lost."""
        self.ending = threading.Event()
        """Set so long before its end as `before_end` says; cleared when a renewal has come after all."""
        tenure.listen(self._hear)
        tenure.listen_before_end(self.ending.set, self.ending.clear)

    def renew(self, duration: float | str | None = None) -> None:
        """As the asyncio twin."""
        question, asked_ms = self._renewal(duration), boottime_ms()
        self._renewed(ask(self._link, question), asked_ms)

    def gate(self, term: str = "") -> Gate:
        """As the asyncio twin."""
        return Gate(self._tenure, taker_of(self._link, self._tenure, term))

    def split(self, terms: Mapping[str, int | str], *, to: str, request: str = "") -> LeaseDocument:
        """As the asyncio twin."""
        self.check()
        question, asked_ms = new_split(self.id, terms, to, request), boottime_ms()
        part, looks = self._parted(ask(self._link, question), asked_ms)
        if looks:
            self._look()
        return part

    def release(self) -> None:
        """Give it back. Again, and after its loss, does no harm."""
        if self._give_back():
            ask(self._link, f.EndLease(self.id))

    def __enter__(self) -> Self:
        self.check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        del value, trace
        loss = self._tenure.loss
        self.release()
        if loss is not None and kind is None:
            raise loss from None

    def _hear(self, loss: LeaseLost) -> None:
        del loss
        self.lost.set()


def ask(link: Link, question: f.FromClient) -> f.ToClient:
    """One question to the node."""
    return read(result_of(link.negotiate(f.pack(question), wait_ms=wait_ms_of(question)).future))


def _leased(link: Link, answer: f.ToClient, asked_ms: int, location: str) -> NegotiatedLease:
    return NegotiatedLease(link, taken(link, answer, asked_ms, location))

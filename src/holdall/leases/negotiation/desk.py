"""What a location's manager remembers: answers to requests, offers that are open, and an index of its hosts' leases.

All of it may be lost: leases are with their hosts, and an offer whose manager dies lapses. Source: lease negotiation,
sections 4.3 to 4.5 and 10.4.
"""

from collections.abc import Hashable, Iterable

import msgspec

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Asker, Holding
from holdall.leases.negotiation.reviewing import Live
from holdall.leases.negotiation.states import TERMINAL
from holdall.machine.contract import Address, CancelTimer, Message, Send, SetTimer
from holdall.model.terms import LeaseDocument
from holdall.protocols.hooks import Effects

Asked = tuple[str, str]
"""(holder, request id)."""
PPM = 1_000_000


class OpenOffer(msgspec.Struct, frozen=True):
    """One offer: the hold behind it, and for whom."""

    asked: Asked
    agent: Address
    asker: Asker
    hold: str
    document: LeaseDocument
    accepted: bool = False


class Desk:
    """The memory of one manager. `remember_ms`: how long a request that comes again has the same answer."""

    def __init__(self, *, remember_ms: int, keep_ms: int, rho_ppm: int) -> None:
        self._remember_ms, self._keep_ms, self._rho_ppm = remember_ms, keep_ms, rho_ppm
        self.answers: dict[Asked, Message | None] = {}
        """None while it is being negotiated."""
        self.offers: dict[str, OpenOffer] = {}
        """By lease."""
        self.lapsed: dict[str, int] = {}
        """Lease -> the highest revision that was offered and is over."""
        self.leases: dict[str, LeaseDocument] = {}
        self._askers: dict[str, Asker] = {}

    # ------------------------------------------------------------ answers

    def answer(self, asked: Asked, agent: Address, message: Message, out: Effects) -> None:
        """The answer, now and whenever the request comes again."""
        self.answers[asked] = message
        out.append(Send(agent, message))
        out.append(SetTimer(f"answer/{asked[0]} {asked[1]}", self._remember_ms))

    def forget_answer(self, name: str) -> None:
        """Its time is over."""
        for asked in [one for one in self.answers if f"{one[0]} {one[1]}" == name]:
            del self.answers[asked]

    def forget_deposed(self) -> None:
        """What was declined because another manager led may be asked again."""
        for asked, answer in list(self.answers.items()):
            if isinstance(answer, m.Declined) and answer.reason == "stale_lm":
                del self.answers[asked]

    # ------------------------------------------------------------ offers

    def offer(self, offer: OpenOffer, offer_ms: int, out: Effects) -> None:
        """Open for `offer_ms`; an earlier offer for the same lease makes way for it."""
        lease = offer.document.lease
        before = self.offers.get(lease)
        if before is not None:
            self._over(before)
        self.offers[lease] = offer
        self._askers[offer.asker.holder] = offer.asker
        out.append(SetTimer(f"offer/{lease}", offer_ms))
        self.answer(offer.asked, offer.agent, m.Offer(offer.asked[1], offer_ms, offer.document), out)

    def accepted(self, offer: OpenOffer, out: Effects) -> OpenOffer:
        """From now on only its host can say that it is over."""
        changed = msgspec.structs.replace(offer, accepted=True)
        self.offers[offer.document.lease] = changed
        out.append(CancelTimer(f"offer/{offer.document.lease}"))
        return changed

    def lapses(self, offer: OpenOffer, reason: str, out: Effects) -> None:
        """Nothing comes of it. Whoever has accepted it is told so."""
        lease = offer.document.lease
        if self.offers.pop(lease, None) is None:
            return
        self._over(offer)
        out.append(CancelTimer(f"offer/{lease}"))
        self.answers[offer.asked] = m.Declined(offer.asked[1], reason)
        if offer.accepted:
            out.append(Send(offer.agent, m.Lapsed(lease, offer.document.revision)))

    def confirmed(self, document: LeaseDocument, out: Effects) -> None:
        """The offer has become this revision of the lease; its agent is told."""
        self.knows(document, out)
        offer = self.offers.pop(document.lease, None)
        if offer is None:
            return
        out.append(CancelTimer(f"offer/{document.lease}"))
        self.answer(offer.asked, offer.agent, m.LeaseIs(document), out)

    def too_late(self, lease: str, revision: int) -> m.StaleRevision | m.Lapsed | m.UnknownLease:
        """The answer to an acceptance of an offer that is not open."""
        offer, known = self.offers.get(lease), self.leases.get(lease)
        current = max(0 if offer is None else offer.document.revision, 0 if known is None else known.revision)
        if revision < current:
            return m.StaleRevision(lease, revision, current)
        if revision <= self.lapsed.get(lease, 0):
            return m.Lapsed(lease, revision)
        return m.UnknownLease(lease)

    def of_hold(self, hold: str) -> OpenOffer | None:
        """The offer behind which this hold is."""
        return next((one for one in self.offers.values() if one.hold == hold), None)

    # ------------------------------------------------------------ leases

    def knows(self, document: LeaseDocument, out: Effects, asker: Asker | None = None) -> None:
        """Its host says so. What is older than what is known, is no news."""
        if asker is not None:
            # Of a part that was cut off for him: what he said of himself tells more.
            self._askers.setdefault(asker.holder, asker)
        known = self.leases.get(document.lease)
        if known is not None and known.revision > document.revision:
            return
        if (
            known is not None
            and known.state in TERMINAL
            and known.host_incarnation >= document.host_incarnation
        ):
            return
        self.leases[document.lease] = document
        after = self._keep_ms if document.state in TERMINAL else self._life_ms(document.duration)
        out.append(SetTimer(f"lease/{document.lease}", after))

    def reported(
        self, host: str, documents: Iterable[LeaseDocument], askers: Iterable[Asker], out: Effects
    ) -> None:
        """All that live at the host, which replaces what was known of it."""
        for asker in askers:
            self._askers[asker.holder] = asker
        there = {one.lease: one for one in documents}
        for lease in [one for one, known in self.leases.items() if known.host == host]:
            if lease not in there and self.leases[lease].state not in TERMINAL:
                self._presume_over(lease, out)
        for lease, document in there.items():
            self.leases[lease] = document
            out.append(SetTimer(f"lease/{lease}", self._life_ms(document.duration)))

    def lease_timer(self, lease: str, *, reachable: bool, out: Effects) -> None:
        """A lease that is over is forgotten; one of a host that is silent is presumed over; others are their host's."""
        known = self.leases.get(lease)
        if known is None:
            return
        if known.state in TERMINAL:
            del self.leases[lease]
            self.lapsed.pop(lease, None)
        elif reachable:
            out.append(SetTimer(f"lease/{lease}", self._life_ms(known.duration)))
        else:
            self._presume_over(lease, out)

    def asks(self, asker: Asker) -> None:
        """Somebody who has leases, as his node vouches for him now."""
        if asker.holder in self._askers:
            self._askers[asker.holder] = asker

    def holdings(self, without: str | None = None) -> list[Holding]:
        """What everybody has at the location, offers included, but for the lease `without`; for a policy's limits."""
        found = [one for one in self.leases.values() if one.state not in TERMINAL and one.lease != without]
        # An offer that replaces a lease counts with it; together they take no more than the larger, so this is careful.
        found += [one.document for one in self.offers.values() if one.document.lease != without]
        return [
            Holding(self._askers.get(one.holder, Asker(one.holder)), status.name, status.granted)
            for one in found
            for status in one.terms
        ]

    def live(self) -> list[Live]:
        """Leases that live, with whom they are of, and in which order they were heard of: fences count at each host."""
        return [
            Live(one.lease, place, self._askers.get(one.holder, Asker(one.holder)), one.duration, one.terms)
            for place, one in enumerate(self.leases.values())
            if one.state == "active"
        ]

    # ------------------------------------------------------------ inside

    def _over(self, offer: OpenOffer) -> None:
        lease = offer.document.lease
        self.lapsed[lease] = max(self.lapsed.get(lease, 0), offer.document.revision)

    def _presume_over(self, lease: str, out: Effects) -> None:
        self.leases[lease] = msgspec.structs.replace(
            self.leases[lease], state="expired", remaining_ms=0, renew_after_ms=0, rebind_after_ms=0
        )
        out.append(SetTimer(f"lease/{lease}", self._keep_ms))

    def _life_ms(self, duration: int) -> int:
        return duration + -(-duration * self._rho_ppm // PPM)

    # ------------------------------------------------------------ twins

    def copy(self) -> "Desk":
        """An independent twin."""
        twin = Desk(remember_ms=self._remember_ms, keep_ms=self._keep_ms, rho_ppm=self._rho_ppm)
        twin.answers, twin.offers, twin.lapsed = dict(self.answers), dict(self.offers), dict(self.lapsed)
        twin.leases, twin._askers = dict(self.leases), dict(self._askers)
        return twin

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return repr([sorted(one.items()) for one in (self.answers, self.offers, self.lapsed, self.leases)])

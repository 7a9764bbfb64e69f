"""How many claims of one client wait in one pool's line; the others are parked here, in their order.

So a client that asks for a thousand things at once can't fill the lines. A place that a claim of a client leaves is
taken by the next of the same client; clients don't wait for each other here. Stranded claims are here, too: what can
be served only by nodes together, one of which is away, would hold the others' units for nothing.
"""

from collections.abc import Sequence

from holdall.parties.planning.places import placements
from holdall.parties.planning.spreading import Spot
from holdall.parties.planning.ways import vectors_of
from holdall.parties.records import ClaimRecord, Way
from holdall.parties.state import REPLAN_TIMER, Claim, State
from holdall.protocols.vocabulary import Acquire, Terms, Visit


class Parking:
    """The way from the agent into the lines of the pools."""

    def __init__(self, state: State) -> None:
        self._state = state

    def enter(self, claim: Claim) -> None:
        """Send the claim to the pools, or park it. Its record says `waiting` or `parked` after that."""
        record = claim.record
        session = record.session
        parked = self._state.parked.get(session)
        if not record.now and self.is_stranded(record.shares):
            self.strand(claim)
        elif not record.now and (parked or not self._has_room(record)):
            self._state.parked.setdefault(session, {})[record.claim] = None
            self._state.change(claim, phase="parked")
        else:
            self._stand(claim)

    def strand(self, claim: Claim) -> None:
        """Keep it here until the nodes that it needs together are back. It stands in no line."""
        self._state.change(claim, phase="parked", stranded=True)
        self._watch(claim)

    def is_stranded(self, ways: Sequence[Way]) -> bool:
        """Whether none of its ways stands in line without holding units of one node while another is away."""
        system = self._state.system
        return all(
            any(not node for node in nodes)
            or (len(nodes) > 1 and any(system.tier_of(node) > 1 for node in nodes))
            for nodes in ({share.node for share in way} for way in ways)
        )

    def leaves_line(self, claim: Claim) -> None:
        """The claim waits no more: it has been granted, or is over. Call before its phase changes."""
        record = claim.record
        self._forget_watch(record)
        if record.phase == "parked" and not record.stranded:
            parked = self._state.parked[record.session]
            del parked[record.claim]
            if not parked:
                del self._state.parked[record.session]
        elif record.phase == "waiting":
            for spot in spots_of(record):
                slot = (record.session, spot)
                self._state.open_claims[slot] -= 1
                if not self._state.open_claims[slot]:
                    del self._state.open_claims[slot]

    def refill(self, session: str) -> None:
        """Send parked claims of the client on as far as there is room, in their order."""
        for party in tuple(self._state.parked.get(session, ())):
            claim = self._state.claims[party]
            if not self._has_room(claim.record):
                return
            self.leaves_line(claim)
            if self.is_stranded(claim.record.shares):
                self.strand(claim)
                continue
            self._stand(claim)
            if any(node != self._state.own for node, _ in spots_of(claim.record)):
                # What was known when it was parked is old by now.
                self._state.to_replan[claim.record.claim] = None
                self._state.set_timer(REPLAN_TIMER, 0)

    def count(self, claim: Claim) -> None:
        """The claim is in line (again, after a restart)."""
        for spot in spots_of(claim.record):
            slot = (claim.record.session, spot)
            self._state.open_claims[slot] = self._state.open_claims.get(slot, 0) + 1
        self._watch(claim)

    def known_again(self, claim: Claim) -> None:
        """After a restart: it is parked."""
        record = claim.record
        if record.stranded:
            self._watch(claim)
        else:
            self._state.parked.setdefault(record.session, {})[record.claim] = None

    def ask_pools(self, claim: Claim) -> None:
        """The claim's (next) request to the pools."""
        record = claim.record
        epoch_of = self._state.system.epoch_of
        for node, vector in vectors_of(record.shares[0]):
            if node != self._state.own:
                for pool, count in vector:
                    self._state.system.asks_for((node, pool), max(count, 1))
        need, *siblings = (
            tuple(Visit(node, vectors, epoch_of(node)) for node, vectors in asking)
            for asking in placements(record.shares)
        )
        terms = Terms(ttl_ms=record.ttl_ms, for_ms=record.for_ms, holder=str(record.uid))
        self._state.to_claimant(
            Acquire(
                record.claim,
                need,
                wait=not record.now,
                terms=terms,
                stamp=record.stamp,
                siblings=tuple(siblings),
            )
        )

    def _stand(self, claim: Claim) -> None:
        self._state.change(claim, phase="waiting", stranded=False)
        self.count(claim)
        self.ask_pools(claim)

    def _watch(self, claim: Claim) -> None:
        record = claim.record
        own = self._state.own
        if record.narrow or record.stranded or any(spot[0] != own for spot in spots_of(record)):
            for name in names_of(record):
                self._state.narrow.setdefault(name, {})[record.claim] = None

    def _forget_watch(self, record: ClaimRecord) -> None:
        for name in names_of(record):
            claims = self._state.narrow.get(name)
            if claims is not None:
                claims.pop(record.claim, None)
                if not claims:
                    del self._state.narrow[name]

    def _has_room(self, record: ClaimRecord) -> bool:
        most = self._state.settings.open_claims_max
        return all(self._state.open_claims.get((record.session, spot), 0) < most for spot in spots_of(record))


def names_of(record: ClaimRecord) -> list[str]:
    """The names of pools that its needs allow."""
    return sorted({name for need in record.needs for option in need.options for name in option.pools})


def spots_of(record: ClaimRecord) -> list[Spot]:
    """(node, pool) of all pools that one of the claim's ways needs."""
    return sorted({(share.node, share.pool) for way in record.shares for share in way})

"""How many claims of one client wait in one pool's line; the others are parked here, in their order.

So a client that asks for a thousand things at once can't fill the lines. A place that a claim of a client leaves is
taken by the next of the same client; clients don't wait for each other here.
"""

from holdall.parties.records import ClaimRecord
from holdall.parties.state import Claim, State
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
        if not record.now and (parked or not self._has_room(record)):
            self._state.parked.setdefault(session, {})[record.claim] = None
            self._state.change(claim, phase="parked")
            return
        self._stand(claim)

    def leaves_line(self, claim: Claim) -> None:
        """The claim waits no more: it has been granted, or is over. Call before its phase changes."""
        record = claim.record
        self._forget_narrow(record)
        if record.phase == "parked":
            parked = self._state.parked[record.session]
            del parked[record.claim]
            if not parked:
                del self._state.parked[record.session]
        elif record.phase == "waiting":
            for pool in pools_of(record):
                slot = (record.session, pool)
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
            self._stand(claim)

    def count(self, claim: Claim) -> None:
        """After a restart: the claim is in line."""
        for pool in pools_of(claim.record):
            slot = (claim.record.session, pool)
            self._state.open_claims[slot] = self._state.open_claims.get(slot, 0) + 1
        if claim.record.narrow:
            for name in names_of(claim.record):
                self._state.narrow.setdefault(name, {})[claim.record.claim] = None

    def ask_pools(self, claim: Claim) -> None:
        """The claim's (next) request to the pools."""
        record = claim.record
        visit = Visit(self._state.settings.node, claim.vectors, self._state.pools.epoch)
        terms = Terms(ttl_ms=record.ttl_ms, for_ms=record.for_ms, holder=str(record.uid))
        self._state.to_claimant(
            Acquire(record.claim, (visit,), wait=not record.now, terms=terms, stamp=record.stamp)
        )

    def _stand(self, claim: Claim) -> None:
        self._state.change(claim, phase="waiting")
        self.count(claim)
        self.ask_pools(claim)

    def _forget_narrow(self, record: ClaimRecord) -> None:
        if not record.narrow:
            return
        for name in names_of(record):
            claims = self._state.narrow.get(name, {})
            claims.pop(record.claim, None)
            if not claims:
                self._state.narrow.pop(name, None)

    def _has_room(self, record: ClaimRecord) -> bool:
        most = self._state.settings.open_claims_max
        return all(self._state.open_claims.get((record.session, pool), 0) < most for pool in pools_of(record))


def names_of(record: ClaimRecord) -> list[str]:
    """The names of pools that its needs allow."""
    return sorted({name for need in record.needs for option in need.options for name in option.pools})


def pools_of(record: ClaimRecord) -> list[str]:
    """All pools that one of the claim's placements needs."""
    return sorted({share.pool for shares in record.shares for share in shares})

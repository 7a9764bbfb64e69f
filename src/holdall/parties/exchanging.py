"""Exchanges: other units for a lease in one step, if that is possible now; else nothing changes."""

from holdall.model import frames
from holdall.model.errors import BadSpec, NeverSatisfiable, NotGranted, Refused
from holdall.model.names import NEEDS_MAX, pool_name, short_id
from holdall.parties.finding import per_node, units_named
from holdall.parties.granting import Granting, needs_served
from holdall.parties.planning.places import NOWHERE, place, readable
from holdall.parties.planning.ways import Unplaceable, is_free, vectors_of
from holdall.parties.refusals import Refusal, Refusals
from holdall.parties.state import Claim, Session, State
from holdall.protocols.vocabulary import Exchange, Exchanged, ExchangeRefused, UnitGrant, Visit


class Exchanging:
    """The lease's other units come as a companion claim without waiting; what is dropped goes after that."""

    def __init__(self, state: State, granting: Granting, refusals: Refusals) -> None:
        self._state = state
        self._refusals = refusals
        self._granting = granting

    def exchange(self, claim: Claim, session: Session, frame: frames.Exchange) -> None:
        """Ask the pools, or refuse with the reason."""
        refused = self._start(claim, session, frame)
        if refused is not None:
            self._state.tell(session.connection, refused.answer(frame.n))

    def exchanged(self, message: Exchanged) -> None:
        """The lease has other units now."""
        claim = self._state.claims.get(message.claim)
        asked = None if claim is None else self._state.exchanging.pop(claim.record.printed, None)
        if claim is None or asked is None:
            return
        connection, n, needs, shares = asked
        record = claim.record
        serves = dict(zip(record.grants, record.serves, strict=True))
        new = [grant for grant in message.units if grant not in serves]
        served = needs_served(shares, new)
        serves.update({grant: len(record.needs) + need for grant, need in zip(new, served, strict=True)})
        grants = tuple(sorted(message.units))
        self._state.units_freed(grant.pool for grant in record.grants if grant not in grants)
        self._state.change(
            claim,
            grants=grants,
            serves=tuple(serves[grant] for grant in grants),
            needs=(*record.needs, *needs),
        )
        self._state.note("granted", "exchanged", claim.record)
        self._state.tell(connection, self._granting.answer(claim, n))

    def exchange_refused(self, message: ExchangeRefused) -> None:
        """Nothing has changed."""
        claim = self._state.claims.get(message.claim)
        asked = None if claim is None else self._state.exchanging.pop(claim.record.printed, None)
        if claim is None or asked is None:
            return
        connection, n, needs, shares = asked
        companion = claim.record.companions[-1]
        self._state.claims.pop(companion, None)
        self._state.change(claim, companions=claim.record.companions[:-1])
        text = "not possible now: the units to add are not free, or kept for older claims. The lease is as it was."
        why = self._refusals.exchange(claim, needs, shares)
        self._state.tell(connection, Refusal(NotGranted.code, text, why).answer(n))

    def _start(self, claim: Claim, session: Session, frame: frames.Exchange) -> Refusal | None:
        """Ask the pools; returns the refusal when that is not possible."""
        record = claim.record
        drop: set[UnitGrant] | str = (
            units_named(record, frame.drop, self._state.name_of) if frame.drop else set()
        )
        if isinstance(drop, str):
            return Refusal(BadSpec.code, drop)
        if record.printed in self._state.exchanging or record.phase == "draining":
            return Refusal(
                Refused.code,
                f"lease {short_id(record.printed)} is being exchanged or revoked already. Try again later.",
            )
        if len(frame.add) + len(record.needs) > NEEDS_MAX or not readable(frame.add):
            return Refusal(BadSpec.code, f"a lease serves at most {NEEDS_MAX} needs, each with a SPEC")
        names = {name for need in frame.add for option in need.options for name in option.pools}
        system = self._state.system
        facts = system.facts(names)
        own = NOWHERE if claim.record.is_outside else self._state.own
        placed = place(frame.add, facts, own, now=True)
        if isinstance(placed, Unplaceable):
            why = self._refusals.never(session, frame.add, record.reason, short=placed.need)
            return Refusal(NeverSatisfiable.code, self._refusals.never_text(placed), why)
        free = {one.spot: one.free for one in facts}
        way = next((way for way in placed.ways if is_free(way, free)), placed.ways[0])
        prepared = sorted({share.pool for share in way if system.prepares((share.node, share.pool))})
        if prepared:
            return Refusal(
                Refused.code,
                f"pool {pool_name(prepared[0])} prepares its units before they are used (on_grant), which an exchange "
                "can't undo when it fails. Claim it without waiting (--now) beside this lease instead.",
            )
        companion = self._state.new_claim_id()
        self._state.claims[companion] = claim
        self._state.change(claim, companions=(*record.companions, companion))
        self._state.exchanging[record.printed] = (session.connection, frame.n, frame.add, way)
        add = tuple(Visit(node, (vector,), system.epoch_of(node)) for node, vector in vectors_of(way))
        going = tuple(sorted(drop))
        self._state.to_claimant(Exchange(record.claim, companion, add, per_node(going), going))
        return None

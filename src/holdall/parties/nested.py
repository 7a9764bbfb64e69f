"""Claims inside the scope of a lease: covered by it, or without waiting, or refused; never a wait for oneself.

The rule: a holder that waits for more could wait for itself for ever, so it may not, unless it says `independent` and
is shown as outside the guarantee.
"""

from collections import Counter

from holdall.model import frames
from holdall.model.errors import NotHolder, WouldDeadlock
from holdall.model.names import pool_labels, pool_name, unit_text
from holdall.model.spec import show_need
from holdall.parties.explaining import Explaining
from holdall.parties.granting import needs_served
from holdall.parties.planning.places import place
from holdall.parties.planning.ways import PoolFacts, Unplaceable, matching
from holdall.parties.refusals import Refusal, Refusals
from holdall.parties.state import Claim, Session, State, secret_hash
from holdall.parties.texts import would_deadlock
from holdall.protocols.vocabulary import ALL, UnitGrant


class Nested:
    """Looks at `under` of a claim before anything else is done with it."""

    def __init__(self, state: State, explaining: Explaining, refusals: Refusals) -> None:
        self._state = state
        self._explaining = explaining
        self._refusals = refusals

    def claim(self, session: Session, frame: frames.Claim) -> tuple[bool, Refusal | None, str]:
        """(answered with a view, refusal, printed id of the lease beside which the claim goes on)."""
        held = self._state.by_key.get(secret_hash(frame.under))
        if held is None or held.record.phase not in {"granted", "draining"}:
            text = "the lease in whose scope this runs (HOLDALL_LEASE) has ended. Leave its scope, or unset HOLDALL_LEASE."
            return False, Refusal(NotHolder.code, text), ""
        if frame.independent:
            return False, None, held.record.printed
        covered = self._covered(held, frame.needs)
        if covered is not None:
            self._grant_view(session, frame, held, covered)
            return True, None, ""
        if frame.now:
            return False, None, held.record.printed
        touched = self._touched(held, frame) or held.record.grants
        names = sorted(unit_text(grant.pool, grant.unit) for grant in touched)
        text = would_deadlock(held.record, names, frame.site)
        why = self._refusals.deadlock(session, frame, held, touched)
        return False, Refusal(WouldDeadlock.code, text, why), ""

    def _covered(
        self, held: Claim, needs: tuple[frames.Need, ...]
    ) -> tuple[tuple[UnitGrant, ...], tuple[int, ...]] | None:
        """The lease's units that serve these needs, each unit one need; None: it does not cover them."""
        facts = self._facts_of(held)
        placed = place(needs, facts, self._state.own)
        if isinstance(placed, Unplaceable):
            return None
        way = placed.ways[0]
        have = {one.spot: one.total for one in facts}
        wanted = dict.fromkeys(have, 0)
        for share in way:
            spot = (share.node, share.pool)
            # `all` is covered only by a lease that has all of the pool.
            numbers = self._state.system.numbers(spot) if share.count == ALL else None
            if share.count == ALL and (numbers is None or numbers.total != have[spot]):
                return None
            wanted[spot] += have[spot] if share.count == ALL else share.count
        units: list[UnitGrant] = []
        for grant in held.record.grants:
            spot = (grant.node, grant.pool)
            if wanted.get(spot, 0) > 0:
                wanted[spot] -= 1
                units.append(grant)
        return tuple(units), needs_served(way, units)

    def _facts_of(self, held: Claim) -> list[PoolFacts]:
        """Its units as pools of their own, which nobody else has any of."""
        counts = Counter((grant.node, grant.pool) for grant in held.record.grants)
        return [
            PoolFacts(
                pool,
                pool_name(pool),
                tuple(sorted(pool_labels(pool).items())),
                have,
                have,
                node=node,
                at=self._state.name_of(node),
            )
            for (node, pool), have in sorted(counts.items())
        ]

    def _touched(self, held: Claim, frame: frames.Claim) -> list[UnitGrant]:
        """Units of the lease that the claim asks for once more."""
        facts = self._facts_of(held)
        spots = {
            one.spot for need in frame.needs for option in need.options for one in matching(option, facts)
        }
        return [grant for grant in held.record.grants if (grant.node, grant.pool) in spots]

    def _grant_view(
        self,
        session: Session,
        frame: frames.Claim,
        held: Claim,
        covered: tuple[tuple[UnitGrant, ...], tuple[int, ...]],
    ) -> None:
        units, serves = covered
        record = held.record
        shown = self._explaining.lease_view(held)
        view = frames.LeaseView(
            lease=shown.lease,
            holder=shown.holder,
            user=shown.user,
            pid=shown.pid,
            reason=shown.reason,
            state=shown.state,
            units=tuple(
                frames.HeldUnit(
                    pool=pool_name(grant.pool),
                    name=grant.unit,
                    node=self._state.name_of(grant.node),
                    fence=grant.fence,
                    need=need,
                )
                for grant, need in zip(units, serves, strict=True)
            ),
            needs=tuple(show_need(need) for need in frame.needs),
            since_ms=shown.since_ms,
            waited_ms=0,
            ttl_ms=shown.ttl_ms,
            until_ms=shown.until_ms,
            expires_ms=shown.expires_ms,
            renewing=shown.renewing,
            detached=shown.detached,
        )
        if record.session != session.record.session:
            held.viewers[session.record.session] = None
            session.views[record.claim] = None
        self._state.tell(
            session.connection,
            frames.Granted(
                n=frame.n,
                key=frame.under,
                lease=view,
                valid_for_ms=self._explaining.view_left_ms(held),
                for_left_ms=self._explaining.for_left_ms(held),
                view=True,
            ),
        )

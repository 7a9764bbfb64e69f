"""Claims asked for anew at their old age: on other pools that came free, or because a unit could not be prepared."""

from holdall.parties.parking import Parking, names_of, pools_of
from holdall.parties.planning import Placement, place
from holdall.parties.state import REPLAN_TIMER, Claim, State
from holdall.protocols.vocabulary import Release, Stamp

REPLANS_A_TURN = 64
"""Claims with other placements that are looked at in one turn."""


class Replanning:
    """A claim has up to four placements in line; when others come free, it is asked for there."""

    def __init__(self, state: State, parking: Parking) -> None:
        self._state = state
        self._parking = parking

    def replan(self) -> None:
        """Units have come free: claims that could be placed otherwise, too, may be served by them, oldest first."""
        state = self._state
        if state.reconfigured:
            state.reconfigured = False
            self._leave_gone_pools()
        names = [name for name in sorted(state.freed) if any(one.free for one in state.pools.facts([name]))]
        state.freed.clear()
        parties = {party for name in names for party in state.narrow.get(name, ())}
        # By the time of asking, which is the order of ages but for claims of one millisecond.
        order = sorted(parties, key=lambda party: (state.claims[party].record.asked_wall_ms, party))
        state.to_replan |= dict.fromkeys(order)
        for party in tuple(state.to_replan)[:REPLANS_A_TURN]:
            del state.to_replan[party]
            claim = state.claims.get(party)
            line = state.pools.line(party, 0)
            if claim is not None and line is not None:
                self._replan(claim, line.stamp)
        if state.to_replan:
            state.set_timer(REPLAN_TIMER, 0)

    def _leave_gone_pools(self) -> None:
        """Claims that wait at pools which the configuration has no more go to those that it has, with their age."""
        state = self._state
        for claim in tuple(state.by_printed.values()):
            record = claim.record
            facts = () if record.phase not in {"waiting", "parked"} else state.pools.facts(names_of(record))
            if {one.pool for one in facts}.issuperset(pools_of(record)) or not facts:
                continue
            placed = place(record.needs, facts, state.name, allow_future=record.allow_future)
            line = state.pools.line(record.claim, 0)
            if not isinstance(placed, Placement):
                continue
            if record.phase == "parked":
                state.change(claim, shares=placed.shares, narrow=placed.narrow)
            elif line is not None:
                self.come_again(claim, line.stamp, placed)

    def _replan(self, claim: Claim, stamp: Stamp) -> None:
        record = claim.record
        facts = self._state.pools.facts(names_of(record))
        placed = place(record.needs, facts, self._state.name, allow_future=record.allow_future)
        free_of = self._state.pools.free_of
        if (
            isinstance(placed, Placement)
            and not set(placed.vectors) <= set(claim.vectors)
            and any(free_of(vector) for vector in placed.vectors)
            and not any(free_of(vector) for vector in claim.vectors)
        ):
            self.come_again(claim, stamp, placed)

    def come_again(self, claim: Claim, stamp: Stamp | None, placed: Placement | None = None) -> None:
        """Ask the pools anew as another claim of the same age; its printed id stays."""
        record = claim.record
        if record.phase == "waiting":
            self._parking.leaves_line(claim)
        self._state.to_claimant(Release(record.claim))
        self._state.rename(claim, self._state.new_claim_id())
        if placed is not None:
            self._state.change(claim, shares=placed.shares, narrow=placed.narrow)
        self._state.change(claim, phase="waiting", stamp=stamp, grants=(), serves=(), attempt=0)
        self._parking.count(claim)
        self._parking.ask_pools(claim)

"""Claims asked for anew at their old age: at places that came free, away from nodes that left, or after a failed on_grant.

What an agent knows of other nodes is stale by nature. So it first asks the one place that seems free; a claim that waits
there is soon asked for at its other places, too; and whenever the directory tells of a change, claims that it concerns
are planned again. The node that was asked last decides, as always.
"""

from collections.abc import Iterable, Mapping

import msgspec

from holdall.parties.neighbours import NeighboursChanged
from holdall.parties.parking import Parking, names_of, spots_of
from holdall.parties.planning.places import NOWHERE, Placement, fits_a_lease, place, placements, within
from holdall.parties.planning.spreading import Spot
from holdall.parties.planning.ways import PoolFacts, Unplaceable, is_free, vectors_of
from holdall.parties.records import ClaimRecord, Way
from holdall.parties.state import REPLAN_TIMER, Claim, State
from holdall.protocols.vocabulary import ALL, ClaimId, Release, Stamp

REPLANS_A_TURN = 64
"""Claims with other placements that are looked at in one turn."""
WIDEN_MS = 250
"""So long a claim waits at the one place of another node that seemed free before it is asked for elsewhere, too."""
MOVES_MAX = 3
"""So often a claim moves to other nodes only because units seem free there (chain specification, 5.5)."""
PAUSE_MS = 1000
PAUSE_MOST_MS = 60_000
"""After each change of places a claim stays longer, 1 s, 2 s, 4 s … up to this, unless its places are gone."""


class Replanning:
    """A claim stands in line at up to four places; when others come free, or its own go, it is asked for there."""

    def __init__(self, state: State, parking: Parking) -> None:
        self._state = state
        self._parking = parking

    # ------------------------------------------------------------ when

    def neighbours(self, changed: NeighboursChanged) -> None:
        """The directory has learned something: look at the claims that it concerns in the next turn."""
        state = self._state
        for node in changed.nodes:
            state.shunned.pop(node, None)
        nodes = set(changed.nodes)
        parties = {party for name in changed.pools for party in state.narrow.get(name, ())}
        if nodes:
            parties.update(
                party
                for claims in state.narrow.values()
                for party in claims
                if not nodes.isdisjoint(node for node, _ in spots_of(state.claims[party].record))
            )
        self._look_at(parties)

    def turned_away(self, claim: Claim, node: str, after_ms: int) -> None:
        """A node gives nothing yet: it is left out of planning for that time, and the claim is planned again."""
        if after_ms > 0:
            self._state.shunned[node] = self._state.boot_ms + after_ms
            if any(spot[0] == node for spot in spots_of(claim.record)):
                self._look_at([claim.record.claim])

    def waits_long(self, claim: Claim) -> None:
        """A claim that was sent to the one place that seemed free has not got its units there."""
        if claim.record.phase == "waiting" and claim.record.narrow and not claim.widened:
            claim.widened = claim.to_widen = True
            self._look_at([claim.record.claim])

    def tries_elsewhere(self, claim: Claim) -> bool:
        """A claim without waiting has not found free what seemed free: its other places are tried once, all together."""
        record = claim.record
        if not record.narrow or claim.widened:
            return False
        claim.widened = True
        placed = self.plan(record, self._state.system.facts(names_of(record)))
        if placed is None:
            return False
        tried = placements_of(record.shares)
        ways = tuple(way for way in placed.ways if tuple(node for node, _ in vectors_of(way)) not in tried)
        if ways:
            self.come_again(claim, None, Placement(ways, narrow=placed.narrow))
        return bool(ways)

    def look_again(self, claim: Claim) -> None:
        """From time to time, whatever has been told: what is known of other nodes may have come in no message."""
        record = claim.record
        if record.narrow or record.stranded or any(node != self._state.own for node, _ in spots_of(record)):
            self._look_at([record.claim])

    def _look_at(self, parties: Iterable[ClaimId]) -> None:
        state = self._state
        # By the time of asking, which is the order of ages but for claims of one millisecond.
        order = sorted(parties, key=lambda party: (state.claims[party].record.asked_wall_ms, party))
        if order:
            state.to_replan |= dict.fromkeys(order)
            state.set_timer(REPLAN_TIMER, 0)

    def replan(self) -> None:
        """Units have come free, or nodes have come or gone: claims that it may help, oldest first."""
        state = self._state
        if state.reconfigured:
            state.reconfigured = False
            self._leave_gone_pools()
        names = [name for name in sorted(state.freed) if any(one.free for one in state.system.facts([name]))]
        state.freed.clear()
        parties = {party for name in names for party in state.narrow.get(name, ())}
        order = sorted(parties, key=lambda party: (state.claims[party].record.asked_wall_ms, party))
        state.to_replan |= dict.fromkeys(order)
        for party in tuple(state.to_replan)[:REPLANS_A_TURN]:
            del state.to_replan[party]
            claim = state.claims.get(party)
            if claim is not None and claim.record.claim == party:
                self._replan(claim)
        if state.to_replan:
            state.set_timer(REPLAN_TIMER, 0)

    # ------------------------------------------------------------ whether

    def _leave_gone_pools(self) -> None:
        """Claims that wait at pools which the configuration has no more go to those that there are, with their age."""
        state = self._state
        for claim in tuple(state.by_printed.values()):
            record = claim.record
            if record.phase not in {"waiting", "parked"}:
                continue
            facts = state.system.facts(names_of(record))
            if facts and not {one.spot for one in facts}.issuperset(spots_of(record)):
                self._move(claim, facts)

    def _move(self, claim: Claim, facts: list[PoolFacts]) -> None:
        """Plan anew and ask there, if that is possible at all."""
        record = claim.record
        placed = self.plan(record, facts)
        if placed is None:
            return
        if record.phase == "waiting":
            self.come_again(claim, self.age_of(claim), placed)
        elif record.stranded:
            if not self._parking.is_stranded(placed.ways):
                self._parking.leaves_line(claim)
                self._state.change(claim, shares=placed.ways, narrow=placed.narrow, stranded=False)
                self._parking.enter(claim)
        elif record.phase == "parked":
            self._state.change(claim, shares=placed.ways, narrow=placed.narrow)

    def _replan(self, claim: Claim) -> None:
        state, record = self._state, claim.record
        if record.phase == "parked":
            if record.stranded:
                self._move(claim, state.system.facts(names_of(record)))
            return
        if record.phase != "waiting":
            return
        facts = state.system.facts(names_of(record))
        reachable = {one.spot: one.tier for one in facts}
        placed = self.plan(record, facts)
        standing = [way for way in record.shares if _stands(way, reachable)]
        if not standing:
            self._leave(claim, placed, reachable)
            return
        if placed is None or set(placed.ways) == set(record.shares):
            return
        free = {one.spot: one.free for one in facts}
        widens = claim.to_widen and not placements_of(record.shares) >= placements_of(placed.ways)
        claim.to_widen = False
        gains = placed.ready is not None and not any(is_free(way, free) for way in standing)
        differs = _wants_whole(record) and _nodes(placed.ways) != _nodes(record.shares)
        gone = any((share.node, share.pool) not in reachable for way in record.shares for share in way)
        hearsay = _nodes(placed.ways) != {state.own}
        # At a new place it may be passed as often as any newcomer, so this is bounded; what is free here is known.
        gains = gains and not (hearsay and claim.moves >= MOVES_MAX)
        if (widens or gone or differs or gains) and self._may_move(claim, at_once=widens):
            claim.moves += gains and hearsay
            self.come_again(claim, self.age_of(claim), placed)

    def _leave(self, claim: Claim, placed: Placement | None, reachable: Mapping[Spot, int]) -> None:
        """Its places are gone, or away: elsewhere it can be served, or will be when they are back."""
        record = claim.record
        known = any(all((share.node, share.pool) in reachable for share in way) for way in record.shares)
        if placed is not None and (
            any(_stands(way, reachable) for way in placed.ways) or (not known and not record.allow_future)
        ):
            self.come_again(claim, self.age_of(claim), placed)
        elif any(len(nodes) > 1 for nodes in placements_of(record.shares)):
            self._strand(claim)

    def _may_move(self, claim: Claim, *, at_once: bool) -> bool:
        """Not again and again to what only seems free: what is kept there for older claims is announced as free."""
        state = self._state
        if not at_once and state.boot_ms < claim.stays_until_ms:
            # Looked at again when it may.
            state.set_timer(f"queued/{claim.record.printed}", claim.stays_until_ms - state.boot_ms)
            return False
        claim.stays_ms = min(max(PAUSE_MS, 2 * claim.stays_ms), PAUSE_MOST_MS)
        claim.stays_until_ms = state.boot_ms + claim.stays_ms
        return True

    # ------------------------------------------------------------ how

    def plan(self, record: ClaimRecord, facts: list[PoolFacts]) -> Placement | None:
        """All places where the claim would be asked for now; None: none, or only for more than one lease may have."""
        placed = place(
            record.needs,
            facts,
            NOWHERE if record.is_outside else self._state.own,
            allow_future=record.allow_future,
            wide=True,
            now=record.now,
            untold=record.allow_future and self._state.system.is_untold(),
        )
        if isinstance(placed, Unplaceable):
            return None
        total = {one.spot: one.total for one in facts}
        ways = tuple(way for way in placed.ways if fits_a_lease(way, total))
        if not ways:
            return None
        fitting = msgspec.structs.replace(placed, ways=ways)
        settings = self._state.settings
        return within(fitting, one=settings.one_placement, pools_max=settings.pools_max)

    def age_of(self, claim: Claim) -> Stamp | None:
        """The claim's age: as a node has given it, else by this node's clock when it was asked."""
        record, state = claim.record, self._state
        if record.stamp is not None:
            return record.stamp
        line = state.pools.line(record.claim, 0)
        known = None if state.ages is None else state.ages.age_of(record.claim)
        if known is None and line is not None:
            known = line.stamp
        if known is None and record.asked_wall_ms:
            known = Stamp(record.asked_wall_ms, state.own, record.claim, 1)
        return known

    def hard_end(self, ways: Iterable[Way], for_ms: int | None) -> int | None:
        """The end that all these pools allow, or the one asked for if that is earlier."""
        spots = sorted({(share.node, share.pool) for way in ways for share in way})
        ends = [self._state.system.max_for_ms(spot) for spot in spots]
        return min([end for end in (*ends, for_ms) if end is not None], default=None)

    def _strand(self, claim: Claim) -> None:
        """What it holds at some nodes while another is away is given back; its age is kept."""
        stamp = self.age_of(claim)
        self._parking.leaves_line(claim)
        self._state.to_claimant(Release(claim.record.claim))
        self._state.rename(claim, self._state.new_claim_id())
        self._state.change(claim, stamp=stamp)
        self._parking.strand(claim)

    def come_again(self, claim: Claim, stamp: Stamp | None, placed: Placement | None = None) -> None:
        """Ask the pools anew as another claim of the same age; its printed id stays."""
        record = claim.record
        if record.phase == "waiting":
            self._parking.leaves_line(claim)
        self._state.to_claimant(Release(record.claim))
        self._state.rename(claim, self._state.new_claim_id())
        if placed is not None:
            for_ms = self.hard_end(placed.ways, record.for_ms)
            self._state.change(claim, shares=placed.ways, narrow=placed.narrow, for_ms=for_ms)
        self._state.change(
            claim, phase="waiting", stamp=stamp, grants=(), serves=(), attempt=0, placed=0, preparing=()
        )
        if not record.now and self._parking.is_stranded(claim.record.shares):
            self._parking.strand(claim)
            return
        self._parking.count(claim)
        self._parking.ask_pools(claim)


def placements_of(ways: Iterable[Way]) -> set[tuple[str, ...]]:
    """Of each placement its nodes."""
    return {tuple(node for node, _ in asking) for asking in placements(ways)}


def _stands(way: Way, reachable: Mapping[Spot, int]) -> bool:
    """Whether all its pools exist, at nodes that serve or soon do."""
    return all(reachable.get((share.node, share.pool), 2) < 2 for share in way)


def _wants_whole(record: ClaimRecord) -> bool:
    return any(share.count == ALL for way in record.shares for share in way)


def _nodes(ways: Iterable[Way]) -> set[str]:
    return {share.node for way in ways for share in way}

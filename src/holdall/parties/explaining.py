"""Why a claim waits, and how a lease looks: built from what agent and pools know, by reading only."""

from collections.abc import Sequence

from holdall.model.frames import LeaseView
from holdall.model.names import short_id
from holdall.model.spec import show_need
from holdall.model.why import Blocker, NeedWhy, Why
from holdall.parties.life import UNCONFIRMED, confirmed_ms, silent_nodes
from holdall.parties.parking import spots_of
from holdall.parties.planning.spreading import Spot
from holdall.parties.planning.system_pools import Numbers
from holdall.parties.planning.ways import vectors_of
from holdall.parties.records import ClaimRecord, Way
from holdall.parties.state import Claim, State
from holdall.parties.views import LineView, Obstacle
from holdall.protocols.chain.claims import family_of
from holdall.protocols.vocabulary import ALL

BLOCKERS_MAX = 8


class Explaining:
    """Answers about single claims."""

    def __init__(self, state: State) -> None:
        self._state = state

    # ------------------------------------------------------------ why

    def why(self, claim: Claim) -> Why:
        """Of a claim that waits, is parked, or has just been refused without waiting."""
        line = self._state.pools.line(claim.record.claim, BLOCKERS_MAX)
        return self._in_line(claim, line) if line is not None else self._out_of_line(claim)

    def _in_line(self, claim: Claim, line: LineView) -> Why:
        record = claim.record
        return Why(
            claim=record.printed,
            holder=record.holder,
            since_ms=record.asked_wall_ms,
            position=line.position,
            waiting=line.waiting,
            ahead=line.ahead,
            overtaken=line.overtaken,
            passes_left=line.passes_left,
            passes_bound=line.passes_bound,
            needs=self._needs(record, dict(line.kept), parked=line.parked),
            blockers=tuple(self.blocker(obstacle) for obstacle in line.obstacles),
            blockers_more=line.more,
            note=self._note(claim, in_line=True, parked=line.parked),
            reason=record.reason,
            bounded=self._state.settings.bounded,
        )

    def _out_of_line(self, claim: Claim) -> Why:
        """Not in line: refused in quarantine, kept back here, not wanting to wait, or a lease that wants more."""
        record = claim.record
        own = record.parties()
        wanted = wanted_of(record.shares[0])
        numbers = {spot: self._state.system.numbers(spot) for spot in sorted(wanted)}
        pools = [pool for node, pool in numbers if node == self._state.own]
        waiting = max((known.waiting for known in numbers.values() if known is not None), default=0)
        short = [
            spot
            for spot, known in numbers.items()
            if known is None or known.free < units_of(wanted[spot], known)
        ]
        obstacles = [
            Obstacle(holder, pool, units)
            for node, pool in short
            if node == self._state.own
            for holder, units in self._state.pools.holders(pool).items()
            if holder not in own
        ]
        more = max(0, len(obstacles) - BLOCKERS_MAX)
        if not short and self._is_kept_back(claim):
            obstacles = self._in_front(pools)
            more = max(0, waiting - len(obstacles))
        return Why(
            claim=record.printed,
            holder=record.holder,
            since_ms=record.asked_wall_ms,
            position=waiting + 1,
            waiting=waiting + 1,
            ahead=waiting,
            overtaken=0,
            passes_left=0,
            passes_bound=0,
            needs=self._needs(record, {}, parked=False),
            blockers=tuple(self.blocker(obstacle) for obstacle in obstacles[:BLOCKERS_MAX]),
            blockers_more=more,
            note=self._note(claim, in_line=False, parked=False),
            reason=record.reason,
            in_line=False,
            bounded=self._state.settings.bounded,
        )

    def _is_kept_back(self, claim: Claim) -> bool:
        """Whether it is those in line who are in the way when there are units enough, and nothing of the node."""
        pools = self._state.pools
        return (
            pools.granting and not pools.draining and not claim.retry_text and claim.record.phase != "parked"
        )

    def _in_front(self, pools: Sequence[str]) -> list[Obstacle]:
        """The first of those who wait for one of the pools, oldest first."""
        found: list[Obstacle] = []
        for party in self._state.pools.waiting():
            claim = self._state.find(party)
            if claim is None:
                continue
            wanted = {pool for node, pool in spots_of(claim.record) if node == self._state.own}
            common = [pool for pool in pools if pool in wanted]
            if common:
                found.append(Obstacle(party, common[0]))
            if len(found) == BLOCKERS_MAX:
                break
        return found

    def _needs(self, record: ClaimRecord, kept: dict[str, int], *, parked: bool) -> tuple[NeedWhy, ...]:
        found: list[NeedWhy] = []
        system = self._state.system
        for index, need in enumerate(record.needs):
            spots = sorted(
                {(share.node, share.pool) for way in record.shares for share in way if share.need == index}
            )
            wanted = sum(
                units_of(share.count, system.numbers((share.node, share.pool)))
                for share in record.shares[0]
                if share.need == index
            )
            counts = [known for spot in spots if (known := system.numbers(spot)) is not None]
            free = sum(known.free for known in counts)
            aside = sum(kept.get(pool, 0) for node, pool in spots if node == self._state.own)
            usable = sum(known.usable for known in counts)
            total = sum(known.total for known in counts)
            if parked:
                state = "your limit"
            elif free - aside >= wanted:
                state = "ok"
            elif total < wanted:
                state = "too few exist"
            elif usable < wanted:
                state = "unusable"
            else:
                state = "busy" if free < wanted else "kept aside"
            found.append(
                NeedWhy(
                    spec=show_need(need),
                    free=free,
                    total=total,
                    state=state,
                    set_aside=aside,
                    unusable=sum(known.unusable for known in counts),
                )
            )
        return tuple(found)

    def blocker(self, obstacle: Obstacle) -> Blocker:
        """Somebody in the way, as people see them."""
        claim = self._state.claims.get(obstacle.claim) or self._state.find(obstacle.claim)
        if claim is None:
            # A claim of another node, or one that ends in this turn.
            return Blocker(
                claim="",
                holder=f"a claim of {self._state.name_of(obstacle.claim.node)}",
                reason="",
                pool=obstacle.pool,
                units=obstacle.units,
                waiting=not obstacle.units,
                party=str(family_of(obstacle.claim)),
            )
        record = claim.record
        return Blocker(
            claim=record.printed,
            holder=record.holder,
            reason=record.reason,
            pool=obstacle.pool,
            units=obstacle.units,
            waiting=not obstacle.units,
            until_ms=self._until_ms(record),
            renewing=self._renewing(record),
        )

    def _note(self, claim: Claim, *, in_line: bool, parked: bool) -> str:
        record = claim.record
        notes: list[str] = []
        if record.stranded:
            notes.append(self._stranded_text(record))
        elif record.phase == "parked":
            most = self._state.settings.open_claims_max
            notes.append(
                f"{most} of your claims wait for such a pool already; this one joins the line after them"
            )
        if record.phase == "preparing":
            notes.append("its units are being prepared (on_grant)")
        if parked:
            notes.append("your limit at this node keeps it back")
        silent = silent_nodes(self._state, record)
        if silent:
            notes.append(f"no answer from {', '.join(silent)}")
        if not self._state.pools.granting:
            notes.append(self.quarantine_text())
        elif claim.retry_text and not in_line:
            notes.append(claim.retry_text)
        if self._state.pools.draining:
            notes.append("this node is draining and gives no units")
        if record.beside:
            notes.append(
                f"claimed independently while holding lease {short_id(record.beside)}: outside the guarantee that nobody waits for ever"
            )
        return "; ".join(notes)

    def _stranded_text(self, record: ClaimRecord) -> str:
        state = self._state
        nodes = sorted({share.node for way in record.shares for share in way})
        away = [state.name_of(node) for node in nodes if node and state.system.tier_of(node) > 1]
        if not away:
            untold = [node.name for node in state.neighbours.nodes() if not node.has_told]
            until = f"the pools of {', '.join(untold)} are known" if untold else "all that it needs exists"
            return f"it holds nothing and keeps its age until {until}"
        return f"it needs {', '.join(away)}, which can't be reached or gives no units; until then it holds nothing and keeps its age"

    def quarantine_text(self) -> str:
        """Why nothing is granted after a restart, and for how long."""
        left_s = -(-self.quarantine_left_ms() // 1000)
        return f"this node has restarted and can't know all leases: nothing is granted for another {left_s} s"

    def quarantine_left_ms(self) -> int:
        """What is left of the quarantine; 0 when it is over."""
        state = self._state
        if state.pools.granting or not state.quarantine_ms:
            return 0
        return max(1, state.quarantine_ms - state.elapsed_ms(state.started_wall_ms, state.started_boot_ms))

    # ------------------------------------------------------------ leases

    def lease_view(self, claim: Claim, *, ended: str = "") -> LeaseView:
        """The claim or lease as people and programs see it."""
        record = claim.record
        granted = record.granted_wall_ms
        return LeaseView(
            lease=record.printed,
            holder=record.holder,
            user=record.user,
            pid=record.pid,
            reason=record.reason,
            state="ended" if ended else self._state_word(record),
            units=record.units(self._state.name_of),
            needs=tuple(show_need(need) for need in record.needs),
            since_ms=granted or record.asked_wall_ms,
            waited_ms=max(0, (granted or self._state.wall_ms) - record.asked_wall_ms),
            ttl_ms=record.ttl_ms,
            until_ms=self._until_ms(record),
            expires_ms=self._expires_ms(record),
            renewing=self._renewing(record),
            detached=record.detached,
            ended=ended,
        )

    def valid_for_ms(self, claim: Claim) -> int:
        """How long the holder may go on from before it sent the request that is being answered; `UNCONFIRMED`."""
        return confirmed_ms(self._state, claim.record, self._session_valid_ms(claim))

    def _session_valid_ms(self, claim: Claim) -> int:
        """The same as far as this node alone is concerned."""
        record = claim.record
        if record.detached and record.phase == "granted":
            left = self.for_left_ms(claim)
            return self._state.settings.ttl_max_ms if left is None else left
        valid = self._state.valid_for(record.ttl_ms)
        if record.phase == "draining":
            # Revoked leases are not renewed: what is left counts from the revocation.
            gone = self._state.boot_ms - claim.kicked_boot_ms if claim.kicked_boot_ms else record.ttl_ms
            return max(0, valid - gone)
        return valid

    def view_left_ms(self, claim: Claim) -> int:
        """How long somebody under another's lease may go on: it is the holder who renews it."""
        session = self._state.sessions.get(claim.record.session)
        valid = self.valid_for_ms(claim)
        if session is None or valid == UNCONFIRMED:
            return valid
        return max(0, valid - self._state.elapsed_ms(session.heard_wall_ms, session.heard_boot_ms))

    def for_left_ms(self, claim: Claim) -> int | None:
        """What is left to the hard end, as the holder may count it."""
        record = claim.record
        if record.for_ms is None:
            return None
        passed = self._state.elapsed_ms(record.granted_wall_ms, record.granted_boot_ms)
        return self._state.valid_for(max(0, record.for_ms - passed))

    def _state_word(self, record: ClaimRecord) -> str:
        match record.phase:
            case "parked" | "waiting":
                return "waiting"
            case "preparing":
                return "booked"
            case "granted":
                return "active"
            case "draining":
                return "draining"

    def _until_ms(self, record: ClaimRecord) -> int | None:
        if record.for_ms is None or not record.granted_wall_ms:
            return None
        return record.granted_wall_ms + record.for_ms

    def _expires_ms(self, record: ClaimRecord) -> int:
        session = self._state.sessions.get(record.session)
        until = self._until_ms(record)
        if session is None or record.detached:
            return until or 0
        expires = (session.heard_wall_ms or self._state.wall_ms) + self._state.slow(record.ttl_ms)
        return expires if until is None else min(until, expires)

    def _renewing(self, record: ClaimRecord) -> bool:
        if record.detached and record.phase == "granted":
            return True
        session = self._state.sessions.get(record.session)
        if session is None or record.phase == "draining":
            return False
        # Twice the rhythm of renewals: one beat may be late.
        return self._state.elapsed_ms(session.heard_wall_ms, session.heard_boot_ms) <= record.ttl_ms * 2 // 3


def wanted_of(way: Way) -> dict[Spot, int]:
    """Units that it takes of each pool, or ALL."""
    return {(node, pool): count for node, vector in vectors_of(way) for pool, count in vector}


def units_of(count: int, known: Numbers | None) -> int:
    """How many units that is now; `ALL`: as many as are in service, and at least one."""
    if count != ALL:
        return count
    return 1 if known is None else max(known.usable, 1)

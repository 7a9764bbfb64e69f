"""Rows of the own node for listings, for its clients and for other agents alike: read from what agent and pools know."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from holdall.model import frames
from holdall.model.names import matches_id, pool_name, printed_id
from holdall.model.why import Blocker
from holdall.parties.explaining import BLOCKERS_MAX, Explaining
from holdall.parties.life import silent_nodes
from holdall.parties.listings.questions import (
    HeldOf,
    LeaseOf,
    LineOf,
    LogOf,
    NamedOf,
    Places,
    PoolOf,
    Pools,
    Question,
    Row,
    UnitOf,
    WaitOf,
)
from holdall.parties.records import ClaimRecord
from holdall.parties.state import Claim, State, short_row
from holdall.parties.views import PoolCounts, RowView
from holdall.protocols.chain.claims import family_of
from holdall.protocols.vocabulary import ClaimId

PIECE_UNITS_BYTES = 40 * 1024
"""Units of one row of a pool."""
UNITS_SHORT = 160
"""Units that are named of a claim whose row would not fit into a piece with all of them."""
FOUND_MAX = 20
"""Claims that one shortened id finds, and rows of a claim's history that are told with it."""
WAITING_PHASES = frozenset({"waiting", "parked"})
UNGRANTED_PHASES = WAITING_PHASES | {"preparing"}

AnyRow = TypeVar("AnyRow", bound=msgspec.Struct)


class Rows:
    """What there is to be told about this node."""

    def __init__(self, state: State, explaining: Explaining) -> None:
        self._state = state
        self._explaining = explaining
        self._encoder = msgspec.msgpack.Encoder()

    def answer(self, ask: Question) -> Sequence[Row]:
        """To a question of another agent, or of this one to itself."""
        match ask.what:
            case "pools":
                return [PoolOf(row) for row in self.pools(ask.arg)]
            case "who":
                return [*(LeaseOf(view) for view in self.leases()), *self.held_by_others()]
            case "queue":
                waits = self.waits(ask.arg)
                own = [line for wait in waits if wait.placements for line in self.lines(wait.claim)]
                return [*waits, *own, *self.lines_of_others(ask.arg)]
            case "log":
                return [LogOf(row) for row in self.log(ask.since_ms)]
            case "find":
                return self.find(ask.arg, ask.key)
            case "lines":
                wants = (*ask.wants, *(() for _ in ask.claims))
                pairs = zip(ask.claims, wants, strict=False)
                return [line for claim, wanted in pairs for line in self.lines(claim, wanted)]
            case "claims":
                return [named for claim in ask.claims if (named := self.named(claim)) is not None]

    # ------------------------------------------------------------ pools

    def pools(self, name: str) -> list[frames.PoolRow]:
        """All pools, or those of this name or id."""
        return [
            row
            for pool in self._state.pools.pools()
            if name in {"", pool, pool_name(pool)}
            for row in self._pool_rows(pool)
        ]

    def _pool_rows(self, pool: str) -> list[frames.PoolRow]:
        """One row, or several with the same numbers when the units fill more than one frame."""
        counts = self._state.pools.counts(pool)
        if counts is None:
            return []
        units = [self._unit_row(row, party) for row, party in self._state.pools.unit_rows(pool)]
        return [self._pool_row(counts, part) for part in parts(units, PIECE_UNITS_BYTES, self._encoder)]

    def _pool_row(self, counts: PoolCounts, units: tuple[frames.UnitRow, ...]) -> frames.PoolRow:
        return frames.PoolRow(
            pool=counts.spec.name,
            node=self._state.name,
            labels=dict(counts.spec.labels),
            reach=counts.spec.reach,
            total=counts.total,
            free=counts.free,
            held=counts.held,
            unusable=counts.unusable,
            waiting=counts.waiting,
            units=units,
            state=self.node_state(),
        )

    def _unit_row(self, row: frames.UnitRow, party: ClaimId | None) -> frames.UnitRow:
        if party is None:
            return row
        claim = self._state.claims.get(party) or self._state.find(party)
        if claim is None:
            holder = f"a claim of {self._state.name_of(party.node)}"
            return msgspec.structs.replace(row, holder=holder, party=str(family_of(party)))
        return msgspec.structs.replace(row, lease=claim.record.printed, holder=claim.record.holder)

    def node_state(self) -> str:
        """Of this node, in a word."""
        pools = self._state.pools
        return "draining" if pools.draining else "serving" if pools.granting else "quarantine"

    # ------------------------------------------------------------ leases

    def leases(self) -> list[frames.LeaseView]:
        """All that this node keeps alive, oldest first."""
        held = [
            claim for claim in self._state.by_printed.values() if claim.record.phase not in WAITING_PHASES
        ]
        held.sort(key=lambda claim: (claim.record.granted_wall_ms, claim.record.printed))
        return [self.lease(claim) for claim in held]

    def lease(self, claim: Claim) -> frames.LeaseView:
        """With the nodes of its units that are silent."""
        view = self._explaining.lease_view(claim)
        silent = silent_nodes(self._state, claim.record)
        return msgspec.structs.replace(view, node=self._state.name, silent=silent)

    def held_by_others(self) -> list[HeldOf]:
        """Units of this node that claims of other nodes have."""
        held: dict[ClaimId, HeldOf] = {}
        for record in self._state.pools.leases_of_others():
            claim = family_of(record.claim)
            units = tuple(
                frames.HeldUnit(pool_name(grant.pool), grant.unit, self._state.name, grant.fence)
                for grant in record.units
            )
            known = held.get(claim)
            held[claim] = HeldOf(
                claim=claim,
                units=units if known is None else known.units + units,
                since_ms=record.since_wall_ms,
                ttl_ms=record.terms.ttl_ms,
                for_ms=record.terms.for_ms,
            )
        return [held[claim] for claim in sorted(held)]

    # ------------------------------------------------------------ waiting claims

    def waits(self, name: str) -> list[WaitOf]:
        """Claims of this node that wait (for a pool of this name), oldest first; last those that are in no line here."""
        order = {family_of(party): place for place, party in enumerate(self._state.pools.waiting())}
        last = len(order)
        waiting = [
            claim
            for claim in self._state.by_printed.values()
            if claim.record.phase in WAITING_PHASES and (not name or name in _wanted(claim.record))
        ]
        waiting.sort(key=lambda claim: order.get(claim.record.claim, last))
        return [self.wait(claim) for claim in waiting]

    def wait(self, claim: Claim) -> WaitOf:
        """A waiting claim, with its places elsewhere still to be asked for."""
        why = msgspec.structs.replace(self._explaining.why(claim), node=self._state.name)
        return WaitOf(
            claim=claim.record.claim,
            why=why,
            placements=self.placements(claim.record),
            stamp=self._state.pools.age_of(claim.record.claim),
        )

    def placements(self, record: ClaimRecord) -> tuple[Places, ...]:
        """Where it asks for what, by node and pool; empty when that is this node only."""
        found: dict[tuple[str, ...], dict[str, set[str]]] = {}
        for shares in record.shares:
            pools: dict[str, set[str]] = {}
            for share in shares:
                pools.setdefault(share.node or self._state.settings.node, set()).add(share.pool)
            known = found.setdefault(tuple(sorted(pools)), {})
            for node, names in pools.items():
                known.setdefault(node, set()).update(names)
        if set(found) <= {(self._state.settings.node,)}:
            return ()
        return tuple(
            tuple((node, tuple(sorted(known[node]))) for node in nodes) for nodes, known in found.items()
        )

    def lines_of_others(self, name: str) -> list[LineOf]:
        """The places here of waiting claims of other nodes (for a pool of this name)."""
        return [
            line
            for claim in self._state.pools.waiting_of_others()
            for line in self.lines(claim)
            if not name or name in {pool_name(pool) for pool in line.pools}
        ]

    def lines(self, claim: ClaimId, wants: Pools = ()) -> list[LineOf]:
        """Its places here; with `wants` also the place that it would have here now, when it has none."""
        found = [self._line(claim, row) for row in self._state.pools.rows_of(claim, BLOCKERS_MAX)]
        if found or not wants:
            return found
        ahead, bound = self._state.pools.if_it_came(wants)
        absent = LineOf(
            claim=claim,
            nodes=(),
            state="absent",
            pools=wants,
            position=ahead + 1,
            waiting=ahead + 1,
            ahead=ahead,
            passes_left=bound,
            passes_bound=bound,
            note=self._node_note(),
        )
        return [absent]

    def _line(self, claim: ClaimId, row: RowView) -> LineOf:
        line = row.line
        if line is None:
            return LineOf(
                claim=claim,
                nodes=row.nodes,
                state="active",
                pools=row.pools,
                ahead=row.ahead,
                overtaken=row.overtaken,
                passes_bound=row.passes_bound,
                stamp=row.stamp,
            )
        return LineOf(
            claim=claim,
            nodes=row.nodes,
            state="parked" if line.parked else "waits",
            pools=row.pools,
            position=line.position,
            waiting=line.waiting,
            ahead=line.ahead,
            overtaken=line.overtaken,
            passes_left=line.passes_left,
            passes_bound=line.passes_bound,
            blockers=tuple(
                msgspec.structs.replace(self._explaining.blocker(obstacle), node=self._state.name)
                for obstacle in line.obstacles
            ),
            more=line.more,
            stamp=row.stamp,
            note=self._node_note(),
        )

    def _node_note(self) -> str:
        match self.node_state():
            case "draining":
                return "draining: gives no units"
            case "quarantine":
                left_s = -(-self._explaining.quarantine_left_ms() // 1000)
                return f"in quarantine after a restart: gives no units for another {left_s} s"
            case _:
                return ""

    # ------------------------------------------------------------ single claims

    def named(self, claim: ClaimId) -> NamedOf | None:
        """What people call a claim of this node."""
        known = self._state.claims.get(claim)
        if known is None:
            return None
        view = self._explaining.lease_view(known)
        return NamedOf(
            claim=claim,
            printed=view.lease,
            holder=view.holder,
            reason=view.reason,
            until_ms=view.until_ms,
            renewing=view.renewing,
        )

    def find(self, typed: str, key_hash: str) -> list[Row]:
        """The claims, leases or ended claims of this node that are called so, or whose key has this hash.

        The latest rows of the history stand after a lease that is found, and alone for a claim that has ended.
        """
        state = self._state
        by_key = state.by_key.get(key_hash)
        found: list[Row] = []
        for claim in [by_key] if by_key is not None else state.typed(typed)[:FOUND_MAX]:
            view = self.lease(claim)
            found += [LeaseOf(view, by_key is not None), *self._history(view.lease)]
            if claim.record.phase in UNGRANTED_PHASES:
                wait = self.wait(claim)
                found += [wait, *(self.lines(wait.claim) if wait.placements else ())]
        if found:
            return found
        ended = state.ended.get(key_hash)
        printed = ended[0] if ended is not None else typed
        return [*self._history(printed), *self._units(typed), *self._of_others(typed)]

    def _of_others(self, typed: str) -> list[Row]:
        """What this node knows of a claim of another node, which may be silent. Its id is what most claims are called by."""
        waiting = [
            line
            for claim in self._state.pools.waiting_of_others()
            if matches_id(printed_id(str(claim)), typed)
            for line in self.lines(claim)
        ]
        held = [one for one in self.held_by_others() if matches_id(printed_id(str(one.claim)), typed)]
        return [*waiting[:FOUND_MAX], *held[:FOUND_MAX]]

    def _history(self, printed: str) -> list[Row]:
        rows = [row for row in self._state.log if row.lease and matches_id(row.lease, printed)]
        return [LogOf(self._of_here(row)) for row in rows[-FOUND_MAX:]]

    def _units(self, typed: str) -> Sequence[Row]:
        name, _, unit = typed.rpartition("/")
        return [
            UnitOf(pool, row.unit, row.state)
            for pool in self._state.pools.pools()
            if name in {pool, pool_name(pool)}
            for row, _ in self._state.pools.unit_rows(pool)
            if row.unit == unit
        ][:FOUND_MAX]

    # ------------------------------------------------------------ history

    def log(self, since_ms: int | None) -> list[frames.LogRow]:
        """The history, oldest first, or what there is of the last so much time."""
        state = self._state
        return [
            self._of_here(row)
            for row in state.log
            if since_ms is None or row.at_ms >= state.wall_ms - since_ms
        ]

    def log_after(self, seq: int) -> list[frames.LogRow]:
        """The rows that came after this one."""
        return [self._of_here(row) for row in self._state.log if row.seq > seq]

    def _of_here(self, row: frames.LogRow) -> frames.LogRow:
        return msgspec.structs.replace(short_row(row), node=self._state.name)


def parts(
    rows: Iterable[AnyRow],
    most: int,
    encoder: msgspec.msgpack.Encoder,
    shorten: Callable[[AnyRow], AnyRow] | None = None,
) -> list[tuple[AnyRow, ...]]:
    """The rows in pieces of at most so many bytes, longer ones shortened; one empty piece when there are none."""
    found: list[tuple[AnyRow, ...]] = []
    part: list[AnyRow] = []
    size = 0
    for row in rows:
        fitting, length = row, len(encoder.encode(row))
        if length > most and shorten is not None:
            fitting = shorten(row)
            length = len(encoder.encode(fitting))
        if part and size + length > most:
            found.append(tuple(part))
            part, size = [], 0
        part.append(fitting)
        size += length
    found.append(tuple(part))
    return found


def shortened(row: Row) -> Row:
    """A row of a very large claim, with its first units only."""
    match row:
        case LeaseOf(view):
            return msgspec.structs.replace(
                row, view=msgspec.structs.replace(view, units=view.units[:UNITS_SHORT])
            )
        case HeldOf():
            return msgspec.structs.replace(row, units=row.units[:UNITS_SHORT])
        case WaitOf(_, why):
            return msgspec.structs.replace(
                row, why=msgspec.structs.replace(why, blockers=tuple(map(_shortened, why.blockers)))
            )
        case LineOf():
            return msgspec.structs.replace(row, blockers=tuple(map(_shortened, row.blockers)))
        case _:
            return row


def _shortened(blocker: Blocker) -> Blocker:
    return msgspec.structs.replace(blocker, units=blocker.units[: UNITS_SHORT // BLOCKERS_MAX])


def _wanted(record: ClaimRecord) -> set[str]:
    return {pool_name(share.pool) for shares in record.shares for share in shares}

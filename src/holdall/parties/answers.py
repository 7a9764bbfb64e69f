"""Answers to Ask: pools, leases, lines, history, the node. All are read from what agent and pools know now."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from holdall.model import frames
from holdall.model.errors import BadSpec, NotHolder
from holdall.model.names import matches_id, pool_name
from holdall.parties.explaining import Explaining
from holdall.parties.messages import Asked
from holdall.parties.state import Claim, Session, State, secret_hash
from holdall.parties.views import PoolCounts

ANSWER_BYTES_MAX = 48 * 1024
"""Rows of one Listing; the rest of the frame is far smaller than what is left to 64 KiB."""
WAITING_PHASES = frozenset({"waiting", "parked"})

Row = TypeVar("Row", bound=msgspec.Struct)


class Answers:
    """Listings; long ones come in several frames."""

    def __init__(self, state: State, explaining: Explaining) -> None:
        self._state = state
        self._explaining = explaining
        self._encoder = msgspec.msgpack.Encoder()

    def ask(self, session: Session, frame: frames.Ask, asked: Asked) -> None:
        """One question."""
        match frame.what:
            case "pools":
                rows = [row for name in self._pool_ids(frame.arg) for row in self._pool_rows(name)]
                self._tell(session, [frames.Listing(frame.n, pools=part) for part in self._parts(rows)])
            case "who":
                views = [self._explaining.lease_view(claim) for claim in self._held()]
                self._tell(session, [frames.Listing(frame.n, leases=part) for part in self._parts(views)])
            case "queue":
                waits = [self._explaining.why(claim) for claim in self._waiting(frame.arg)]
                self._tell(session, [frames.Listing(frame.n, waits=part) for part in self._parts(waits)])
            case "log":
                rows_since = self._log_since(frame.since_ms)
                self._tell(session, [frames.Listing(frame.n, log=part) for part in self._parts(rows_since)])
            case "node":
                self._tell(session, [frames.Listing(frame.n, nodes=(self._node_row(),))])
            case "why":
                self._why(session, frame)
            case "show":
                self._show(session, frame, asked)
            case "usage":
                text = "this node keeps no account of use. See what happened: holdall log"
                self._state.tell(session.connection, frames.Denied(frame.n, BadSpec.code, text))

    def watch(self, session: Session, frame: frames.Watch) -> None:
        """Tell each new row of the history from now on."""
        self._state.watchers[session.connection, frame.n] = None

    # ------------------------------------------------------------ single claims

    def _why(self, session: Session, frame: frames.Ask) -> None:
        """Of one that has ended, not granted in time for example, what the history says."""
        found = self._state.typed(frame.arg)
        if len(found) != 1:
            self._ended(session, frame, frame.arg, len(found))
        elif found[0].record.phase in WAITING_PHASES or found[0].record.phase == "preparing":
            why = self._explaining.why(found[0])
            self._tell(session, [frames.Listing(frame.n, waits=(why,))])
        else:
            # It waits no more: what it has is the answer.
            view = self._explaining.lease_view(found[0])
            self._tell(session, [frames.Listing(frame.n, leases=(view,))])

    def _show(self, session: Session, frame: frames.Ask, asked: Asked) -> None:
        """By key or printed id; of one that has ended, what the history says."""
        del asked
        claim = self._state.by_key.get(secret_hash(frame.arg))
        found = [claim] if claim is not None else self._state.typed(frame.arg)
        if len(found) == 1:
            view = self._explaining.lease_view(found[0])
            rows = tuple(row for row in self._state.log if row.lease == view.lease)
            self._tell(session, [frames.Listing(frame.n, leases=(view,), log=rows[-20:])])
            return
        ended = self._state.ended.get(secret_hash(frame.arg))
        self._ended(session, frame, ended[0] if ended is not None else frame.arg, len(found))

    def _ended(self, session: Session, frame: frames.Ask, printed: str, found: int) -> None:
        """The history of the one claim whose printed id begins so; `found` live ones are called so, never 1."""
        rows = tuple(row for row in self._state.log if row.lease and matches_id(row.lease, printed))
        named = found or len({row.lease for row in rows})
        if not found and named == 1:
            self._tell(session, [frames.Listing(frame.n, log=rows[-20:])])
            return
        if named:
            text = f"{named} claims begin with {frame.arg}: write more letters of it. See: holdall who; holdall queue"
        else:
            text = f"no claim or lease {frame.arg} on {self._state.name}. See: holdall who; holdall queue"
        self._state.tell(session.connection, frames.Denied(frame.n, NotHolder.code, text))

    # ------------------------------------------------------------ rows

    def _held(self) -> list[Claim]:
        held = [
            claim for claim in self._state.by_printed.values() if claim.record.phase not in WAITING_PHASES
        ]
        return sorted(held, key=lambda claim: (claim.record.granted_wall_ms, claim.record.printed))

    def _waiting(self, arg: str) -> list[Claim]:
        """In order of age; those that are not in line come last, in the order in which they came."""
        order = {party: place for place, party in enumerate(self._state.pools.waiting())}
        last = len(order)
        waiting = [
            claim
            for claim in self._state.by_printed.values()
            if claim.record.phase in WAITING_PHASES
            and (not arg or arg in {share.pool.partition("{")[0] for share in claim.record.shares[0]})
        ]
        return sorted(waiting, key=lambda claim: order.get(claim.record.claim, last))

    def _pool_ids(self, name: str) -> list[str]:
        return [pool for pool in self._state.pools.pools() if name in {"", pool, pool_name(pool)}]

    def _pool_rows(self, pool: str) -> list[frames.PoolRow]:
        """One row, or several with the same numbers when the units fill more than one frame."""
        counts = self._state.pools.counts(pool)
        if counts is None:
            return []
        units = [
            self._unit_row(row, None if party is None else self._state.claims.get(party))
            for row, party in self._state.pools.unit_rows(pool)
        ]
        return [self._pool_row(counts, part) for part in self._parts(units)]

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
        )

    def _unit_row(self, row: frames.UnitRow, claim: Claim | None) -> frames.UnitRow:
        if claim is None:
            return row
        return msgspec.structs.replace(row, lease=claim.record.printed, holder=claim.record.holder)

    def _log_since(self, since_ms: int | None) -> Sequence[frames.LogRow]:
        if since_ms is None:
            return tuple(self._state.log)
        return [row for row in self._state.log if row.at_ms >= self._state.wall_ms - since_ms]

    def _node_row(self) -> frames.NodeRow:
        state = self._state
        facts = state.pools.facts()
        waiting = sum(1 for claim in state.by_printed.values() if claim.record.phase in WAITING_PHASES)
        word = "draining" if state.pools.draining else "serving" if state.pools.granting else "quarantine"
        return frames.NodeRow(
            node=state.name,
            pid=state.settings.pid,
            version=state.settings.version,
            since_ms=state.started_wall_ms,
            state=word,
            quarantine_ms=self._explaining.quarantine_left_ms(),
            pools=len(facts),
            units=sum(one.total for one in facts),
            leases=len(state.by_printed) - waiting,
            waiting=waiting,
            config=state.settings.config,
            state_folder=state.settings.state_folder,
        )

    # ------------------------------------------------------------ frames

    def _parts(self, rows: Iterable[Row]) -> list[tuple[Row, ...]]:
        """The rows in pieces that fit into a frame; one empty piece when there are none."""
        parts: list[tuple[Row, ...]] = []
        part: list[Row] = []
        size = 0
        for row in rows:
            length = len(self._encoder.encode(row))
            if part and size + length > ANSWER_BYTES_MAX:
                parts.append(tuple(part))
                part, size = [], 0
            part.append(row)
            size += length
        parts.append(tuple(part))
        return parts

    def _tell(self, session: Session, listings: Sequence[frames.Listing]) -> None:
        for listing in listings[:-1]:
            self._state.tell(session.connection, msgspec.structs.replace(listing, more=True))
        self._state.tell(session.connection, listings[-1])

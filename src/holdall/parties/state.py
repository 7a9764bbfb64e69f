"""What an agent knows: sessions, claims and how to find them, the history, and the effects of the turn."""

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from holdall.leases.messages import AGENT, CLAIMANT, MANAGER, LostAt
from holdall.machine.contract import Address, CancelTimer, Forget, Message, Save, Send, SetTimer
from holdall.model.errors import LeaseLost
from holdall.model.frames import Denied, FromNode, Happened, LogRow, Need
from holdall.model.names import matches_id, pool_name, short_id
from holdall.parties.listings.inquiries import Inquiries
from holdall.parties.listings.questions import PeerHappened
from holdall.parties.live import Claim, Session, secret_hash, silence_timer
from holdall.parties.messages import SESSION, AgentSettings, SessionOpened
from holdall.parties.neighbours import Neighbours, NoNeighbours
from holdall.parties.planning.spreading import Spot
from holdall.parties.planning.system_pools import SystemPools
from holdall.parties.records import (
    CLAIM_PREFIX,
    LOG_PREFIX,
    SESSION_PREFIX,
    ClaimRecord,
    LogRecord,
    Way,
)
from holdall.parties.views import AgesView, LifeView, PoolView
from holdall.protocols.chain.claims import family_of
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId

__all__ = [
    "PRINTED_LETTERS",
    "REPLAN_TIMER",
    "Claim",
    "Session",
    "State",
    "secret_hash",
    "short_row",
    "silence_timer",
]

PRINTED_LETTERS = 26
REPLAN_TIMER = "replan"
UNITS_TOLD_MAX = 200
"""Units that a row of the history names,"""
TEXT_TOLD_MAX = 2000
"""and letters of its text."""
ENDED_MAX = 1000
"""Keys of leases that have ended, remembered so that a repeated release is told so."""


class State:
    """Everything an agent knows, and the effects of the turn so far."""

    def __init__(
        self,
        settings: AgentSettings,
        pools: PoolView,
        neighbours: Neighbours | None = None,
        ages: AgesView | None = None,
    ) -> None:
        self.settings = settings
        self.pools = pools
        self.neighbours = neighbours or NoNeighbours(settings.node, settings.name or settings.node)
        self.ages = ages
        self.life: LifeView | None = None
        """What the renewals to other nodes say of leases; None: all of them are of this node alone."""
        self.lost_at: dict[ClaimId, LostAt] = {}
        """Where a lease was lost, from the word of that to the end that follows in the same turn."""
        self.unconfirmed: dict[str, list[tuple[str, int]]] = {}
        """Printed id -> (connection, request) of whoever attached a lease that other nodes have yet to confirm."""
        self.system = SystemPools(self)
        self.out: Effects = []
        self.wall_ms = 0
        self.boot_ms = 0
        self.incarnation = 1
        self.quarantine_ms = 0
        """How long the quarantine of this start lasts, 0: none."""
        self.same_boot = False
        """Whether this start is in the same boot of the kernel as the one before."""
        self.started_wall_ms = 0
        self.started_boot_ms = 0
        self.connections: dict[str, tuple[SessionOpened, str]] = {}
        """Connection -> its peer and its session (empty before Hello)."""
        self.sessions: dict[str, Session] = {}
        self.claims: dict[ClaimId, Claim] = {}
        """By each of the claim's ids, those of its companions included; the ids of placements are not among them (`find`)."""
        self.by_printed: dict[str, Claim] = {}
        self.by_key: dict[str, Claim] = {}
        self.parked: dict[str, dict[ClaimId, None]] = {}
        """Session -> its claims that were not sent to the pools yet, in the order in which they came."""
        self.open_claims: dict[tuple[str, Spot], int] = {}
        """(session, (node, pool)) -> claims that wait in that pool's line."""
        self.reconfigured = False
        """Whether waiting claims must be looked at for pools that are gone."""
        self.narrow: dict[str, dict[ClaimId, None]] = {}
        """Pool name -> waiting claims that may have to be placed otherwise when something happens at such pools."""
        self.freed: set[str] = set()
        """Names of pools where units have come free since narrow claims were looked at."""
        self.shunned: dict[str, int] = {}
        """Node -> until when (boot clock) it gives nothing, as it has told a claim."""
        self.to_replan: dict[ClaimId, None] = {}
        """Narrow claims that are still to be looked at, oldest first."""
        self.ending: dict[ClaimId, list[tuple[str, int, str, str]]] = {}
        """Ends that somebody waits for: (connection, request, printed id, what)."""
        self.ended: dict[str, tuple[str, str]] = {}
        """Hash of a key -> (printed id, why it ended), of the latest ends."""
        self.log: deque[LogRow] = deque()
        self.watchers: dict[tuple[str, int], str] = {}
        """(connection, request) -> the node whose history is watched; empty: all."""
        self.followed: dict[str, int | None] = {}
        """Nodes that are watched for them -> the latest row seen; None: not told yet."""
        self.catching_up: set[str] = set()
        """Those that were asked for missing rows since the subscriptions were renewed."""
        self.told_states: dict[str, str] = {}
        """Node -> its state as watchers know it."""
        self.followers: dict[str, int] = {}
        """Nodes that watch this one's history -> their incarnation."""
        self.extending: dict[str, list[tuple[str, int]]] = {}
        """Printed id -> (connection, request) of whoever waits for a later end."""
        self.exchanging: dict[str, tuple[str, int, tuple[Need, ...], Way]] = {}
        """Printed id -> (connection, request, needs added, their shares) of the exchange under way."""
        self.dismissing: dict[int, tuple[str, int]] = {}
        """Number of an order to forget a node -> (connection, request) of who gave it."""
        self.begun: tuple[str, str] | None = None
        """Which start this is and what it found, for the history; written with the first reading of the clock."""
        self.inquiries = Inquiries()
        """Questions to other agents, and theirs, that are under way."""
        self._last_claim = 0

    @property
    def now_ms(self) -> int:
        """By the boot clock, at the last reading."""
        return self.boot_ms

    @property
    def own(self) -> str:
        """This node's id."""
        return self.settings.node

    @property
    def name(self) -> str:
        """What people call this node."""
        return self.settings.name or self.settings.node

    def name_of(self, node: str) -> str:
        """What people call a node."""
        return self.name if node == self.settings.node else self.neighbours.name_of(node)

    # ------------------------------------------------------------ effects

    def tell(self, connection: str, frame: FromNode) -> None:
        """To a client connection; dropped by the driver when that is gone."""
        self.out.append(Send(Address(self.settings.node, SESSION + connection), frame))

    def tell_session(self, session_id: str, frame: FromNode) -> None:
        """To the session's connection, if it has one now."""
        session = self.sessions.get(session_id)
        if session is not None and session.connected:
            self.tell(session.connection, frame)

    def to_claimant(self, message: Message) -> None:
        self.out.append(Send(Address(self.settings.node, CLAIMANT), message))

    def to_manager(self, message: Message, node: str = "") -> None:
        """To the pools of this node, or of another."""
        self.out.append(Send(Address(node or self.settings.node, MANAGER), message))

    def set_timer(self, timer: str, after_ms: int) -> None:
        self.out.append(SetTimer(timer, max(0, after_ms)))

    def cancel_timer(self, timer: str) -> None:
        self.out.append(CancelTimer(timer))

    def note(
        self, kind: str, text: str, record: ClaimRecord | None = None, *, waited_ms: int | None = None
    ) -> None:
        """One row of the history; the oldest one goes when there are too many."""
        seq = self.log[-1].seq + 1 if self.log else 1
        units = (
            () if record is None else tuple(f"{pool_name(g.pool)}/{g.unit}#{g.fence}" for g in record.grants)
        )
        row = LogRow(
            seq=seq,
            at_ms=self.wall_ms,
            kind=kind,
            lease="" if record is None else record.printed,
            holder="" if record is None else record.holder,
            units=units,
            text=text,
            waited_ms=waited_ms,
        )
        self.log.append(row)
        self.out.append(Save(f"{LOG_PREFIX}{seq}", LogRecord(row)))
        while len(self.log) > self.settings.log_rows_max:
            self.out.append(Forget(f"{LOG_PREFIX}{self.log.popleft().seq}"))
        if not self.watchers and not self.followers:
            return
        told = msgspec.structs.replace(short_row(row), node=self.name)
        for (connection, n), node in self.watchers.items():
            if node in {"", self.settings.node}:
                self.tell(connection, Happened(n, told))
        for peer, incarnation in self.followers.items():
            self.out.append(Send(Address(peer, AGENT), PeerHappened(incarnation, (told,), newest=seq)))

    # ------------------------------------------------------------ clocks

    def slow(self, milliseconds: int) -> int:
        """A duration as this side must count it, so that the other side's clock can't be behind."""
        return milliseconds * (1_000_000 + self.settings.rho_ppm) // 1_000_000

    def valid_for(self, milliseconds: int) -> int:
        """The same duration as the holder may count it: less the rate, less the margin."""
        return max(
            0, milliseconds * (1_000_000 - self.settings.rho_ppm) // 1_000_000 - self.settings.margin_ms
        )

    def elapsed_ms(self, since_wall_ms: int, since_boot_ms: int) -> int:
        """Time since these readings; by the wall clock only over a boot; 0 when unknown."""
        if not self.wall_ms or not since_wall_ms:
            return 0
        if since_boot_ms and self.boot_ms >= since_boot_ms:
            return self.boot_ms - since_boot_ms
        return max(0, self.wall_ms - since_wall_ms)

    # ------------------------------------------------------------ claims

    def new_claim_id(self) -> ClaimId:
        """Never used before: the incarnation is this process start's."""
        self._last_claim += 1
        return ClaimId(self.settings.node, self.incarnation, self._last_claim)

    def find(self, party: ClaimId) -> Claim | None:
        """The claim that this is a placement or a companion of."""
        return self.claims.get(family_of(party))

    def is_shunned(self, node: str) -> bool:
        """Whether the node has said a moment ago that it gives nothing yet."""
        until = self.shunned.get(node)
        return until is not None and self.boot_ms < until

    def units_freed(self, pools: Iterable[str]) -> None:
        """Units of these pools come free in this turn: look at narrow claims in the next one."""
        names = {pool_name(pool) for pool in pools} & self.narrow.keys()
        if names:
            self.freed |= names
            self.set_timer(REPLAN_TIMER, 0)

    def reconfigure(self) -> None:
        """The pools may be others from this turn on: look at what waits in the next one."""
        self.reconfigured = True
        self.set_timer(REPLAN_TIMER, 0)

    def save(self, claim: Claim) -> None:
        """Keep the claim's record, and its session's with its first claim."""
        self.out.append(Save(f"{CLAIM_PREFIX}{claim.record.printed}", claim.record))

    def change(self, claim: Claim, **fields: object) -> None:
        """Replace fields of the claim's record and keep it."""
        claim.record = msgspec.structs.replace(claim.record, **fields)
        self.save(claim)

    def add(self, claim: Claim) -> None:
        """A new claim (or one that is known again after a restart) into all indexes."""
        record = claim.record
        for party in record.ids():
            self.claims[party] = claim
        self.by_printed[record.printed] = claim
        self.by_key[record.key_hash] = claim
        self.join(claim)

    def join(self, claim: Claim) -> None:
        """The claim belongs to the session that its record names."""
        record = claim.record
        session = self.sessions.get(record.session)
        if session is None:
            return
        if not session.claims:
            self.out.append(Save(f"{SESSION_PREFIX}{session.record.session}", session.record))
        session.claims[record.claim] = None
        session.numbers[record.n] = record.claim
        session.ttls[record.ttl_ms] = session.ttls.get(record.ttl_ms, 0) + 1

    def leave(self, claim: Claim) -> None:
        """The claim belongs to its session no more."""
        record = claim.record
        session = self.sessions.get(record.session)
        if session is None or record.claim not in session.claims:
            return
        del session.claims[record.claim]
        if session.numbers.get(record.n) == record.claim:
            del session.numbers[record.n]
        session.ttls[record.ttl_ms] -= 1
        if not session.ttls[record.ttl_ms]:
            del session.ttls[record.ttl_ms]
            self.cancel_timer(silence_timer(session.record.session, record.ttl_ms))
        if not session.claims:
            self.out.append(Forget(f"{SESSION_PREFIX}{session.record.session}"))
            if not session.connected:
                self.drop(session)

    def rename(self, claim: Claim, party: ClaimId) -> None:
        """The claim is known to the pools by another id from now on."""
        old = claim.record.claim
        session = self.sessions.get(claim.record.session)
        if session is not None and old in session.claims:
            session.claims = {party if one == old else one: None for one in session.claims}
            if session.numbers.get(claim.record.n) == old:
                session.numbers[claim.record.n] = party
        for one in claim.record.ids():
            self.claims.pop(one, None)
        self.claims[party] = claim
        claim.record = msgspec.structs.replace(claim.record, claim=party, companions=(), placed=0)

    def give_key(self, claim: Claim, key: str) -> None:
        """A new key, in place of one that nobody knows."""
        self.by_key.pop(claim.record.key_hash, None)
        claim.key = key
        self.change(claim, key_hash=secret_hash(key))
        self.by_key[claim.record.key_hash] = claim

    def arm_silence(self, session: Session, ttl_ms: int) -> None:
        """The session must be heard within this time."""
        self.set_timer(silence_timer(session.record.session, ttl_ms), self.slow(ttl_ms))

    def drop(self, session: Session) -> None:
        """A session without claims whose client is gone."""
        for party in session.views:
            claim = self.claims.get(party)
            if claim is not None:
                claim.viewers.pop(session.record.session, None)
        self.sessions.pop(session.record.session, None)
        self.connections.pop(session.connection, None)

    def remove(self, claim: Claim, what: str) -> None:
        """The claim is over: out of all indexes, its record forgotten, its key remembered for a while."""
        record = claim.record
        self.lost_at.pop(record.claim, None)
        for connection, n in self.unconfirmed.pop(record.printed, ()):
            self.tell(
                connection, Denied(n, LeaseLost.code, f"lease {short_id(record.printed)} is over: {what}.")
            )
        for party in record.ids():
            self.claims.pop(party, None)
        self.by_printed.pop(record.printed, None)
        self.by_key.pop(record.key_hash, None)
        self.leave(claim)
        self.out.append(Forget(f"{CLAIM_PREFIX}{record.printed}"))
        self.ended[record.key_hash] = (record.printed, what)
        while len(self.ended) > ENDED_MAX:
            del self.ended[next(iter(self.ended))]

    def typed(self, text: str) -> list[Claim]:
        """The claims that a printed id names, whole or shortened."""
        letters = text.upper().replace("-", "")
        if len(letters) == PRINTED_LETTERS and letters in self.by_printed:
            return [self.by_printed[letters]]
        return [claim for printed, claim in self.by_printed.items() if matches_id(printed, text)]

    def change_session(self, session: Session, **fields: object) -> None:
        """Replace fields of the session's record; kept as long as it has claims."""
        session.record = msgspec.structs.replace(session.record, **fields)
        if session.claims:
            self.out.append(Save(f"{SESSION_PREFIX}{session.record.session}", session.record))

    def of_session(self, session: Session) -> Iterator[Claim]:
        """The session's claims, in the order in which they came."""
        for party in tuple(session.claims):
            yield self.claims[party]


def short_row(row: LogRow) -> LogRow:
    """With no more units and text than fit into any frame."""
    if len(row.units) <= UNITS_TOLD_MAX and len(row.text) <= TEXT_TOLD_MAX:
        return row
    units = row.units[:UNITS_TOLD_MAX]
    if len(units) < len(row.units):
        units += (f"and {len(row.units) - len(units)} more",)
    return msgspec.structs.replace(row, units=units, text=row.text[:TEXT_TOLD_MAX])

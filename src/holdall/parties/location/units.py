"""The part that claims units for negotiated leases: a client of the node's own agent, like any other.

A hold of units is a claim without waiting, so the pools' managers alone give them, with their fences, and no unit is held
both by a negotiated lease and by an ordinary one. The session is kept alive from here for as long as the node runs; after a
restart it goes on. Units that are taken away (`kick`, the pool's `max_for`) are told to the host's manager.
"""

from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from typing import Self

import msgspec

from holdall.leases.negotiation import host_messages as h
from holdall.machine.codec import CODEC
from holdall.machine.contract import (
    Address,
    ClockRead,
    Effect,
    Event,
    Forget,
    Message,
    ProtocolViolation,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.model import frames
from holdall.model.names import pool_name
from holdall.model.terms import LeaseState
from holdall.model.wanted import Need, Selector
from holdall.parties.location.messages import HOST
from holdall.parties.location.own_session import OwnSession
from holdall.parties.messages import AGENT, SESSION
from holdall.protocols.vocabulary import UnitGrant

CONNECTION = "negotiated"
UNITS = SESSION + CONNECTION
"""The part's name: a connection of the agent's that is no socket."""
BEAT_TIMER = "beat"
TRIES_MOST = 2
"""Claims for one want. Units may be free that a claim does not get, as others wait for them."""
_PARTY = "party/"
_ENDS_AS: dict[LeaseState, frames.TakenBack] = {"expired": "expired", "revoked": "kicked"}
"""How a lease of units ends with the negotiated one that it was for, in the words for those; any other is given back."""


class ClaimOf(msgspec.Struct, frozen=True):
    """One claim of a party: its number in the session, and what it got. `printed` "": it is not granted yet."""

    n: int
    pool: str
    printed: str = ""
    grants: tuple[UnitGrant, ...] = ()


class PartyRecord(msgspec.Struct, frozen=True, tag="units_party"):
    """All claims of one hold or lease, and units of another one that are to be its own when it becomes a lease."""

    party: str
    claims: tuple[ClaimOf, ...] = ()
    shared: tuple[UnitGrant, ...] = ()


CODEC.register("negotiation-units", PartyRecord)


class _Want(msgspec.Struct):
    """Units that are being claimed: all that is wanted, and, where that is not to be had, what is free."""

    party: str
    pool: str
    most: int
    least: int
    holder: str
    shared: tuple[UnitGrant, ...]
    tries: int = 0
    is_over: bool = False


class UnitsSettings(msgspec.Struct, frozen=True):
    """Of one node. `seed`: a random number of this process."""

    node: str
    name: str
    uid: int
    ttl_ms: int
    seed: int


class Units:
    """The machine."""

    def __init__(self, settings: UnitsSettings) -> None:
        self.settings = settings
        self.parties: dict[str, PartyRecord] = {}
        self._wants: dict[int, _Want] = {}
        self._session = OwnSession(
            settings.node,
            settings.uid,
            connection=CONNECTION,
            holder="negotiated leases",
            seed=settings.seed,
        )

    def start(self) -> Sequence[Effect]:
        """Open the session."""
        return self._open({})

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """Go on with it: what was held before, is."""
        for key, record in sorted(records.items()):
            if key.startswith(_PARTY) and isinstance(record, PartyRecord):
                self.parties[record.party] = record
                self._session.n = max(self._session.n, *(one.n for one in record.claims), 0)
        return self._open(records)

    def handle(self, event: Event) -> Sequence[Effect]:
        """One event of the host's manager or of the agent. Raises ProtocolViolation for others'."""
        out: list[Effect] = []
        if isinstance(event, TimerFired):
            self._beat(out)
            return out
        sender, message = event.sender, event.message
        if isinstance(message, ClockRead):
            return out
        if sender == Address(self.settings.node, HOST):
            self._of_host(message, out)
        elif sender == Address(self.settings.node, AGENT):
            self._of_agent(message, out)
        else:
            raise ProtocolViolation(f"{type(message).__name__} from {sender} is not for who claims units")
        return out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return tuple(repr(self.parties[one]) for one in sorted(self.parties)), repr(
            sorted(self._wants.items())
        )

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.parties, twin._wants = dict(self.parties), deepcopy(self._wants)
        twin._session = deepcopy(self._session)
        return twin

    # ------------------------------------------------------------ the host's manager

    def _of_host(self, message: Message, out: list[Effect]) -> None:
        match message:
            case h.WantUnits():
                self._want(message, out)
            case h.KeepUnits(party, instead_of):
                if instead_of:
                    self._take_over(party, instead_of, out)
            case h.FreeUnits(party, ending):
                self._free(party, _ENDS_AS.get(ending, ""), out)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} is not for who claims units")

    def _want(self, message: h.WantUnits, out: list[Effect]) -> None:
        old = self.parties.get(message.instead_of)
        had = (
            ()
            if old is None
            else tuple(one for one in self._all_of(old) if pool_name(one.pool) == message.pool)
        )
        shared = had[: message.most]
        want = _Want(message.party, message.pool, message.most, message.least, message.holder, shared)
        if len(shared) == message.most:
            self._share(want, out)
            self._answer(want, (), out)
            return
        self._wants_units(want, want.most - len(shared), out)

    def _wants_units(self, want: _Want, count: int, out: list[Effect]) -> None:
        n = self._session.number()
        self._wants[n] = want
        self._keep(want.party, ClaimOf(n, want.pool), out)
        option = Selector((want.pool,), node=self.settings.name, count=count)
        claim = frames.Claim(
            n,
            (Need((option,)),),
            now=True,
            ttl_ms=self.settings.ttl_ms,
            reason=f"negotiated for {want.holder}",
        )
        self._session.ask(claim, out)

    def _counted(self, n: int, listing: frames.Listing, out: list[Effect]) -> None:
        """So many are free, as far as that can be told: fewer may do."""
        if listing.more:
            return
        want = self._wants.pop(n, None)
        if want is None or want.is_over:
            return
        free = sum(row.free for row in listing.pools if row.pool == want.pool)
        count = min(free, want.most - len(want.shared))
        if count < 1 or count + len(want.shared) < want.least or want.tries > TRIES_MOST:
            self._short(want, free, out)
        else:
            self._wants_units(want, count, out)

    def _granted(self, granted: frames.Granted, out: list[Effect]) -> None:
        want = self._wants.pop(granted.n, None)
        if want is None:
            return
        if want.is_over:
            self._release(granted.lease.lease, out)
            return
        node = self.settings.node
        grants = tuple(UnitGrant(node, one.pool, one.name, one.fence) for one in granted.lease.units)
        self._keep(want.party, ClaimOf(granted.n, want.pool, granted.lease.lease, grants), out)
        self._share(want, out)
        self._answer(want, grants, out)

    def _denied(self, n: int, out: list[Effect]) -> None:
        want = self._wants.pop(n, None)
        if want is None or want.is_over:
            return
        self._drop_claim(want.party, n, out)
        want.tries += 1
        asked = self._session.number()
        self._wants[asked] = want
        self._session.ask(frames.Ask(asked, "pools", want.pool, local=True), out)

    def _short(self, want: _Want, free: int, out: list[Effect]) -> None:
        """What it shares with the lease that it replaces may be enough by itself."""
        if want.shared and len(want.shared) >= want.least:
            self._share(want, out)
            self._answer(want, (), out)
        else:
            self._tell(h.UnitsShort(want.party, want.pool, free + len(want.shared)), out)

    def _answer(self, want: _Want, grants: tuple[UnitGrant, ...], out: list[Effect]) -> None:
        self._tell(h.UnitsAre(want.party, want.pool, (*want.shared, *grants)), out)

    def _take_over(self, party: str, old: str, out: list[Effect]) -> None:
        """Units that both have are the new one's; what only the old one had is free."""
        before, record = self.parties.get(old), self.parties.get(party, PartyRecord(party))
        kept = list(record.claims)
        for claim in () if before is None else before.claims:
            stays = tuple(one for one in claim.grants if one in record.shared)
            gone = tuple(one for one in claim.grants if one not in record.shared)
            if not stays:
                self._end_claim(claim, out)
                continue
            if gone:
                names = tuple(f"{one.pool}/{one.unit}" for one in gone)
                self._session.ask(frames.Drop(self._session.number(), claim.printed, names), out)
            kept.append(msgspec.structs.replace(claim, grants=stays))
        self.parties.pop(old, None)
        out.append(Forget(_PARTY + old))
        self._save(PartyRecord(party, tuple(kept)), out)

    def _free(self, party: str, why: frames.TakenBack, out: list[Effect]) -> None:
        for want in self._wants.values():
            want.is_over = want.is_over or want.party == party
        record = self.parties.pop(party, None)
        if record is None:
            return
        out.append(Forget(_PARTY + party))
        for claim in record.claims:
            self._end_claim(claim, out, why)

    # ------------------------------------------------------------ the agent

    def _of_agent(self, message: Message, out: list[Effect]) -> None:
        match message:
            case frames.Listing(n):
                self._counted(n, message, out)
            case frames.Granted():
                self._granted(message, out)
            case frames.Denied(n):
                self._denied(n, out)
            case frames.BeatOk(n, valid):
                alive = {printed for printed, _ in valid}
                for party, claim in self._granted_before(n):
                    if claim.printed not in alive:
                        self._lost(party, claim, out)
            case frames.Lost(lease):
                for party, claim in self._granted_before(self._session.n + 1):
                    if claim.printed == lease:
                        self._lost(party, claim, out)
            case _:
                pass  # Welcome, Queued, Released

    def _lost(self, party: str, claim: ClaimOf, out: list[Effect]) -> None:
        """Its lease can't stand for them any more. A kick waits until they are given back."""
        self._drop_claim(party, claim.n, out)
        self._end_claim(claim, out)
        self._tell(h.UnitsLost(party, claim.pool), out)

    def _granted_before(self, n: int) -> list[tuple[str, ClaimOf]]:
        return [
            (party, claim)
            for party in sorted(self.parties)
            for claim in self.parties[party].claims
            if claim.printed and claim.n < n
        ]

    def _open(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        out: list[Effect] = []
        self._session.open(records, out)
        self._beat(out)
        return out

    def _beat(self, out: list[Effect]) -> None:
        if self.parties:
            self._session.ask(frames.Beat(self._session.number()), out)
        out.append(SetTimer(BEAT_TIMER, max(1, self.settings.ttl_ms // 3)))

    # ------------------------------------------------------------ inside

    def _all_of(self, record: PartyRecord) -> list[UnitGrant]:
        return [grant for claim in record.claims for grant in claim.grants]

    def _keep(self, party: str, claim: ClaimOf, out: list[Effect]) -> None:
        record = self.parties.get(party, PartyRecord(party))
        others = tuple(one for one in record.claims if one.n != claim.n)
        self._save(msgspec.structs.replace(record, claims=(*others, claim)), out)

    def _share(self, want: _Want, out: list[Effect]) -> None:
        if want.shared:
            record = self.parties.get(want.party, PartyRecord(want.party))
            self._save(msgspec.structs.replace(record, shared=(*record.shared, *want.shared)), out)

    def _drop_claim(self, party: str, n: int, out: list[Effect]) -> None:
        record = self.parties.get(party)
        if record is not None:
            claims = tuple(one for one in record.claims if one.n != n)
            self._save(msgspec.structs.replace(record, claims=claims), out)

    def _save(self, record: PartyRecord, out: list[Effect]) -> None:
        if not record.claims and not record.shared:
            self.parties.pop(record.party, None)
            out.append(Forget(_PARTY + record.party))
            return
        self.parties[record.party] = record
        out.append(Save(_PARTY + record.party, record))

    def _end_claim(self, claim: ClaimOf, out: list[Effect], why: frames.TakenBack = "") -> None:
        if claim.printed:
            self._release(claim.printed, out, why)
        else:
            self._session.ask(frames.Cancel(self._session.number(), f"#{claim.n}"), out)

    def _release(self, printed: str, out: list[Effect], why: frames.TakenBack = "") -> None:
        self._session.ask(frames.Release(self._session.number(), printed, why=why), out)

    def _tell(self, message: Message, out: list[Effect]) -> None:
        out.append(Send(Address(self.settings.node, HOST), message))

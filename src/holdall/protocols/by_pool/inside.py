"""What a holder may do while inside: give a part back, exchange, extend. The same for every protocol by pool."""

from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from holdall.machine.contract import Address, Send
from holdall.protocols.by_pool.claim import ClaimRecord, Phase, Units, lessened
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Exchange,
    Exchanged,
    ExchangeRefused,
    Extended,
    ExtendRefused,
    UnitGrant,
    Vector,
)

R = TypeVar("R", bound=ClaimRecord)


class InsideVerbs(Generic[R]):
    """A part of Claimant; it changes the claims there and asks through it."""

    agent: Address
    claims: dict[ClaimId, R]

    if TYPE_CHECKING:

        def begin(self, acquire: Acquire, parent: ClaimId | None, out: Effects) -> None: ...
        def put(self, record: R, out: Effects) -> R: ...
        def ask_all(self, record: R, out: Effects) -> None: ...
        def finish(self, record: R, out: Effects) -> None: ...
        def family(self, record: R) -> list[R]: ...

    def shrink(
        self, claim: ClaimId, keep: tuple[tuple[str, Vector], ...], named: frozenset[UnitGrant], out: Effects
    ) -> None:
        """Keep so much on each node named; places of which nothing is kept end."""
        record = self.claims.get(claim)
        if record is None or record.phase is not Phase.INSIDE:
            return
        for node, vector in keep:
            left = dict(vector)
            for member in self.family(record):
                less = self.put(lessened(self.claims[member.claim], node, left, named), out)
                self.ask_all(less, out)

    def exchange(self, asked: Exchange, out: Effects) -> None:
        """Add now through a companion without waiting, then drop; or nothing changes."""
        record = self.claims.get(asked.claim)
        if (
            record is None
            or record.phase is not Phase.INSIDE
            or record.dropping
            or asked.companion in self.claims
        ):
            out.append(Send(self.agent, ExchangeRefused(asked.claim)))
            return
        record = msgspec.structs.replace(record, dropping=asked.drop, dropping_units=asked.drop_units)
        if not asked.add:
            self.put(record, out)
            self._drop(record, out)
            return
        self.put(msgspec.structs.replace(record, companions=(*record.companions, asked.companion)), out)
        self.begin(Acquire(asked.companion, asked.add, wait=False, terms=record.terms), asked.claim, out)

    def exchanged(self, companion: R, out: Effects) -> None:
        """The companion is inside."""
        parent = self.claims.get(companion.parent) if companion.parent is not None else None
        if parent is None or parent.phase is not Phase.INSIDE:
            self.finish(companion, out)
        else:
            self._drop(parent, out)

    def _drop(self, record: R, out: Effects) -> None:
        """Give back what the exchange drops: the named units, else the last ones of each pool."""
        drop, going = record.dropping, frozenset(record.dropping_units)
        self.put(msgspec.structs.replace(record, dropping=(), dropping_units=()), out)
        mine = self.all_units(record)
        keep: list[tuple[str, Vector]] = []
        for node, vector in drop:
            counts: dict[str, int] = {}
            for unit in mine:
                if unit.node == node:
                    counts[unit.pool] = counts.get(unit.pool, 0) + 1
            for pool, units in vector:
                counts[pool] = counts.get(pool, 0) - units
            keep.append((node, tuple(sorted(counts.items()))))
        named = frozenset(unit for unit in mine if unit not in going) if going else frozenset(mine)
        self.shrink(record.claim, tuple(keep), named, out)
        out.append(Send(self.agent, Exchanged(record.claim, self.all_units(self.claims[record.claim]))))

    def extend(self, claim: ClaimId, for_ms: int, out: Effects) -> None:
        """A new hard end at every place; until all have it the old one counts."""
        record = self.claims.get(claim)
        if record is None or record.phase is not Phase.INSIDE or not self.all_units(record):
            out.append(Send(self.agent, ExtendRefused(claim, for_ms)))
            return
        for member in self.family(record):
            places = tuple(place for place, units in enumerate(member.got) if units)
            longer = self.put(msgspec.structs.replace(member, extending=places, for_ms=for_ms), out)
            self.ask_all(longer, out)

    def extended(self, record: R, place: int, out: Effects, *, ok: bool) -> None:
        """A manager has answered a Lengthen."""
        claim = record.parent or record.claim
        if not ok:
            for member in self.family(self.claims[claim]):
                self.put(msgspec.structs.replace(member, extending=(), for_ms=0), out)
            out.append(Send(self.agent, ExtendRefused(claim, record.for_ms)))
            return
        left = tuple(one for one in record.extending if one != place)
        self.put(msgspec.structs.replace(record, extending=left), out)
        if place in record.extending and not any(
            member.extending for member in self.family(self.claims[claim])
        ):
            out.append(Send(self.agent, Extended(claim, record.for_ms)))

    def all_units(self, record: R) -> Units:
        """All that the claim has, with what its exchanges have added."""
        return tuple(
            unit for member in self.family(record) if member.phase is Phase.INSIDE for unit in member.units
        )

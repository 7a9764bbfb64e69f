"""The side of the claims of one node: a Request to the judge, then wait to be allowed."""

import zlib
from typing import Any, Literal, TypeAlias

import msgspec

from holdall.machine.contract import Address, Send
from holdall.protocols.by_pool.claim import Phase, known_in, with_units
from holdall.protocols.by_pool.claimant import Claimant as ByPool
from holdall.protocols.by_pool.messages import Held
from holdall.protocols.hooks import Effects
from holdall.protocols.strong_weak.messages import AGELESS, Aged, Allowed, Request, StrongWeakClaim, Try
from holdall.protocols.vocabulary import Acquire, ClaimId, Ended, ExchangeRefused, Gone, NotNow, Stamp

Strong: TypeAlias = Literal["low", "named", "drawn"]
"""The pool with the lower id, which makes kills rare; the one that the claim names first, as in the paper; or, where the
order of a need says nothing because its planner has sorted it, either, by the claim's own name."""

POOLS_MAX = 2
TOO_MANY = "strong-weak takes at most two pools"


class Claimant(ByPool[StrongWeakClaim]):
    """All claims of one node. `strong`: which of two pools is the strong one."""

    record_type = StrongWeakClaim

    def __init__(
        self, node: str, agent: Address, *, again_ms: int | None = None, strong: Strong = "low"
    ) -> None:
        super().__init__(node, agent, again_ms=again_ms)
        self.strong = strong

    def begin(self, acquire: Acquire, parent: ClaimId | None, out: Effects) -> None:
        """Claims over more than two pools are refused before anything is sent."""
        if sum(len(visit.alternatives[0]) for visit in acquire.need) <= POOLS_MAX:
            super().begin(acquire, parent, out)
        elif parent is not None:
            owner = self.claims[parent]
            left = tuple(one for one in owner.companions if one != acquire.claim)
            self.put(
                msgspec.structs.replace(owner, companions=left, dropping=(), dropping_units=()),
                out,
            )
            out.append(Send(self.agent, ExchangeRefused(parent)))
        else:
            word = Gone(acquire.claim, TOO_MANY) if acquire.wait else NotNow(acquire.claim)
            out += [Send(self.agent, word), Send(self.agent, Ended(acquire.claim))]

    def first(self, record: StrongWeakClaim, acquire: Acquire) -> StrongWeakClaim:
        """Which pool is strong, and the age that the claim brings."""
        strong = 0
        if self.strong == "drawn" and len(record.places) == POOLS_MAX:
            strong = zlib.crc32(str(record.claim).encode()) >> 8 & 1
        elif self.strong == "named":
            named = (acquire.need[0].node, acquire.need[0].alternatives[0][0][0])
            strong = [(want.node, want.pool) for want in record.places].index(named)
        return msgspec.structs.replace(record, strong=strong, stamp=acquire.stamp)

    def ask(self, record: StrongWeakClaim, out: Effects) -> None:
        """One Request to the judge; without waiting all pools at once."""
        if record.phase is Phase.WAITING:
            request = Request(
                record.claim, record.attempt, record.places, record.strong, record.terms, record.stamp
            )
            out.append(Send(self.manager_of(record, _judge(record)), request))
            return
        for place, units in enumerate(record.got):
            if units is None:
                want = record.places[place]
                tried = Try(
                    record.claim, record.attempt, place, want.epoch, want.pool, want.units, record.terms
                )
                out.append(Send(self.manager_of(record, place), tried))

    def answered(self, record: StrongWeakClaim, sender: Address, message: Any, out: Effects) -> None:
        """Allowed, or told its age; of another attempt neither counts."""
        if not isinstance(message, Allowed | Aged):
            super().answered(record, sender, message, out)
        if message.attempt != record.attempt or record.phase is not Phase.WAITING:
            return
        record = msgspec.structs.replace(record, stamp=message.stamp)
        if isinstance(message, Aged):
            if record != self.claims[record.claim]:
                self.put(record, out)
            return
        for place, (units, epoch) in enumerate(message.got):
            record = known_in(with_units(record, place, units), place, epoch)
        self.note(record)
        self.go_in(record, out)

    def ignores_own(self, record: StrongWeakClaim, message: Any) -> bool:
        """What is of another attempt, or for who does not wait any more."""
        if isinstance(message, Allowed | Aged):
            return message.attempt != record.attempt or record.phase > Phase.WAITING
        return isinstance(message, Held) and self.is_late(record, message)

    def stamp_of(self, record: StrongWeakClaim) -> Stamp | None:
        """As its judge stamped it."""
        return None if record.stamp == AGELESS else record.stamp


def _judge(record: StrongWeakClaim) -> int:
    """The place that decides: the weak one, or the only one."""
    return 1 - record.strong if len(record.places) == POOLS_MAX else 0

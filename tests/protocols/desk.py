"""One manager of the chain on a desk: messages in, exact effects out. Node `n1` is the second of three."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdall.machine.contract import Address, Effect, Forget, Received, Save, Send
from holdall.protocols.chain.alone import ManagerAlone
from holdall.protocols.chain.messages import (
    Kill,
    Killed,
    Promote,
    Request,
    ToManager,
    Try,
)
from holdall.protocols.chain.rows import Mem, Row, Tombstone
from holdall.protocols.chain.settling import Settings
from holdall.protocols.vocabulary import ClaimId, Stamp, Terms, UnitGrant, Vector, Visit

A1: Vector = (("a", 1),)
NODE = "n1"
BEFORE = Address("n0", "manager")
AFTER = Address("n2", "manager")
CHAIN = (Visit("n0", (A1,), 1), Visit(NODE, (A1,), 1), Visit("n2", (A1,), 1))
"""n1 is in the middle."""
TO_LAST = CHAIN[:2]
"""n1 is the last."""
FROM_FIRST = CHAIN[1:]
"""n1 is the first of two."""
ALONE = CHAIN[1:2]
"""n1 is the only one."""
UNIT_BEFORE = UnitGrant("n0", "a", "", 0)
UNIT = UnitGrant(NODE, "a", "", 0)

OLD, MID, YOUNG = (ClaimId("c1", 1, counter) for counter in (1, 2, 3))


def claimant(claim: ClaimId) -> Address:
    return Address(claim.node, "claimant")


def stamp(claim: ClaimId) -> Stamp:
    """Claims are as old as their numbers say."""
    return Stamp(claim.counter, "n0", claim, 1)


def request(claim: ClaimId, need: tuple[Visit, ...] = ALONE, *, attempt: int = 1, epoch: int = 1) -> Request:
    return Request(claim, attempt, epoch, need, Terms(), stamp(claim))


def promote(
    claim: ClaimId, need: tuple[Visit, ...] = TO_LAST, *, pn: int = 1, attempt: int = 1, epoch: int = 1
) -> Promote:
    return Promote(claim, attempt, epoch, need, Terms(), 1, pn, stamp(claim), (0,), (UNIT_BEFORE,))


def kill(claim: ClaimId, *, pn: int = 1, attempt: int = 1, epoch: int = 1) -> Kill:
    return Kill(claim, attempt, epoch, pn)


def killed(claim: ClaimId, *, n: int = 1, attempt: int = 1) -> Killed:
    return Killed(claim, attempt, n)


def try_(claim: ClaimId, vector: Vector = A1, *, attempt: int = 1, epoch: int = 1) -> Try:
    return Try(claim, attempt, epoch, (vector,), Terms())


class Desk:
    """The manager of `n1`; every message and answer is that of a real conversation."""

    def __init__(self, settings: Settings | None = None, **capacities: int) -> None:
        tuned = settings or Settings(tell_stamp=False)
        self.machine = ManagerAlone(NODE, capacities or {"a": 1}, settings=tuned)

    def tell(self, message: ToManager | msgspec.Struct, sender: Address | None = None) -> list[Effect]:
        """The whole answer, in order."""
        if sender is None:
            sender = BEFORE if isinstance(message, Promote | Kill) else claimant(OLD)
            sender = AFTER if isinstance(message, Killed) else sender
        return self.machine.handle(Received(sender, message))

    def given(self, *messages: ToManager) -> Desk:
        """What has happened before."""
        for message in messages:
            self.tell(message)
        return self

    def row(self, claim: ClaimId) -> Row:
        return self.machine.manager.rows[claim]

    def changes_nothing(self, message: ToManager, sender: Address | None = None) -> bool:
        """Ignored: no state change, no answer."""
        key = self.machine.key()
        return not self.tell(message, sender) and self.machine.key() == key


def sends(effects: list[Effect]) -> list[tuple[Address, msgspec.Struct]]:
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


def saved(effects: list[Effect]) -> Mapping[str, Row | Mem | Tombstone | None]:
    """The last word on each key; None: forgotten."""
    records: dict[str, Row | Mem | Tombstone | None] = {}
    for effect in effects:
        match effect:
            case Save(key, record):
                assert isinstance(record, Row | Mem | Tombstone)
                records[key] = record
            case Forget(key):
                records[key] = None
            case _:
                pass
    return records

"""All messages of ordered locking, in one closed union. One lock is one claim at one pool.

The sender comes from the connection. `place` is the lock's place in the claim's order of pools; a lock is a lease of
its own in the book, under `party(attempt, place)`.
"""

from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.model.names import POOLS_MAX
from holdall.protocols.vocabulary import ClaimId, Terms, UnitGrant

# Claimant -> manager


class Lock(msgspec.Struct, frozen=True, tag="lock"):
    """Stand in line at one pool; without `wait`, take the units now or not at all."""

    claim: ClaimId
    attempt: int
    place: int
    epoch: int
    pool: str
    units: int
    terms: Terms
    wait: bool = True


class Unlock(msgspec.Struct, frozen=True, tag="unlock"):
    """The end of this lock in this attempt and all earlier ones, also before its Lock. Answered by Unlocked, always."""

    claim: ClaimId
    attempt: int
    place: int
    pool: str


class Lessen(msgspec.Struct, frozen=True, tag="lessen"):
    """Keep `units` of the lock (at least one; the named ones first). Answered by Lessened."""

    claim: ClaimId
    attempt: int
    place: int
    pool: str
    units: int
    named: tuple[UnitGrant, ...] = ()


class ExtendLock(msgspec.Struct, frozen=True, tag="extend_lock"):
    """A new hard end, whole from the grant. Answered by LockExtended."""

    claim: ClaimId
    attempt: int
    place: int
    pool: str
    for_ms: int


# Manager -> claimant


class Locked(msgspec.Struct, frozen=True, tag="locked"):
    """All units of the lock are set aside, and are known to the manager in this epoch."""

    claim: ClaimId
    attempt: int
    place: int
    units: tuple[UnitGrant, ...]
    epoch: int


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """Not in line here: another epoch, a quarantine, or (without waiting) no units now."""

    claim: ClaimId
    attempt: int
    place: int
    epoch: int
    retry_after_ms: int


class Unlocked(msgspec.Struct, frozen=True, tag="unlocked"):
    """Nothing is left of this lock, and nothing will be again."""

    claim: ClaimId
    attempt: int
    place: int


class Lessened(msgspec.Struct, frozen=True, tag="lessened"):
    """What is kept of the lock."""

    claim: ClaimId
    attempt: int
    place: int
    units: tuple[UnitGrant, ...]


class LockExtended(msgspec.Struct, frozen=True, tag="lock_extended"):
    """Answer to ExtendLock; `ok` False: the pool allows no end that late, or the lock is not here."""

    claim: ClaimId
    attempt: int
    place: int
    for_ms: int
    ok: bool


class LockGone(msgspec.Struct, frozen=True, tag="lock_gone"):
    """The manager has ended the claim by itself: its lease is over there."""

    claim: ClaimId
    attempt: int
    reason: str


ToManager: TypeAlias = Lock | Unlock | Lessen | ExtendLock
ToClaimant: TypeAlias = Locked | Refused | Unlocked | Lessened | LockExtended | LockGone
OrderedMessage: TypeAlias = ToManager | ToClaimant

MANAGER = "manager"
"""The part of a node that is its manager."""
CLAIMANT = "claimant"
"""The part of a node that speaks for its claims."""

# Records


class LockRecord(msgspec.Struct, frozen=True, tag="lock"):
    """A claim in line at a pool, or with its units (which the lease book keeps)."""

    claim: ClaimId
    attempt: int
    place: int
    pool: str
    units: int
    """Wanted while waiting, taken when held; `ALL` until then."""
    terms: Terms
    turn: int
    """Order of arrival at this manager."""
    held: bool = False


class BuriedRecord(msgspec.Struct, frozen=True, tag="buried"):
    """The highest attempt of a lock that is over here."""

    claim: ClaimId
    place: int
    attempt: int


def party(attempt: int, place: int) -> int:
    """The attempt under which the lease book keeps a lock: locks of one claim on one node are leases of their own."""
    return attempt * POOLS_MAX + place


CODEC.register("ordered", OrderedMessage)
CODEC.register("ordered lock", LockRecord | BuriedRecord)

"""What ordered locking says beside the messages that are the same for all protocols by pool: one first message."""

from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.by_pool.claim import ClaimRecord
from holdall.protocols.by_pool.messages import Entry
from holdall.protocols.vocabulary import ClaimId, Terms


class Lock(msgspec.Struct, frozen=True, tag="lock"):
    """Stand in line at one pool; without `wait`, take the units now or not at all. Answered by Held, or Refused."""

    claim: ClaimId
    attempt: int
    place: int
    epoch: int
    pool: str
    units: int
    terms: Terms
    wait: bool = True


ToManager: TypeAlias = Lock

# Records


class LockEntry(Entry, frozen=True, tag="lock"):
    """A lock in line, or held. `turn`: order of arrival at this manager."""

    turn: int = 0


class OrderedClaim(ClaimRecord, frozen=True, tag="ordered claim"):
    """A claim that takes one lock after the other."""


CODEC.register("ordered", Lock)
CODEC.register("ordered record", LockEntry | OrderedClaim)

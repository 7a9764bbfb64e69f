"""What a lease book keeps over a crash. Keys begin with `book/`."""

from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.vocabulary import ClaimId, Terms, UnitGrant

PREFIX = "book/"
FENCE_KEY = PREFIX + "fence"
LEASE_PREFIX = PREFIX + "lease/"
UNIT_PREFIX = PREFIX + "unit/"
DRAIN_KEY = PREFIX + "drain"
QUARANTINE_KEY = PREFIX + "quarantine"
UNHEARD_PREFIX = PREFIX + "unheard/"


class FenceBlock(msgspec.Struct, frozen=True, tag="fence_block"):
    """No fence above `limit` has been given in the manager's epoch `epoch`, nor in one before it."""

    limit: int
    epoch: int = 1


class LeaseRecord(msgspec.Struct, frozen=True, tag="lease"):
    """The units of one attempt of a claim. `since` are the readings of both clocks when it became active, for a hard end."""

    claim: ClaimId
    attempt: int
    units: tuple[UnitGrant, ...]
    terms: Terms
    active: bool = False
    since_wall_ms: int = 0
    since_boot_ms: int = 0
    preparing: tuple[UnitGrant, ...] = ()
    """Units whose on_grant command has not ended."""
    failed: tuple[UnitGrant, ...] = ()
    unclean: bool = False
    ending: str = ""
    """Why it will end, when that has been said; empty: its holder gives it back, if nothing else is said."""


class UnitRecord(msgspec.Struct, frozen=True, tag="unit"):
    """A unit that is out of service, or will be when it comes back. Units in plain service have no record.

    `stage`: "on_release", "check", "cooldown" (under way), "quarantined" or "" (no reason of its own).
    """

    pool: str
    unit: str
    fence: int
    stage: str = ""
    note: str = ""
    unclean: bool = False


class DrainRecord(msgspec.Struct, frozen=True, tag="drain"):
    """The node was drained by a person, which lasts until a person ends it."""


class QuarantineRecord(msgspec.Struct, frozen=True, tag="quarantine"):
    """The quarantine of this process start has ended. A start that lacks it after another boot waits anew."""

    incarnation: int


class UnheardRecord(msgspec.Struct, frozen=True, tag="unheard"):
    """Nothing was heard of a peer since a start of this node at this CLOCK_BOOTTIME."""

    node: str
    since_boot_ms: int


BookRecord: TypeAlias = FenceBlock | LeaseRecord | UnitRecord | DrainRecord | QuarantineRecord | UnheardRecord

CODEC.register("book", BookRecord)

"""The words that make protocols exchangeable: what an agent tells a claimant and hears from it.

All are delivered within one turn on one node. Source: vocabulary of the protocols, section 1.1.
"""

from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC


class ClaimId(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """Names a claim for ever: node that claims, its process start, a counter. Never reused."""

    node: str
    incarnation: int
    counter: int

    def __str__(self) -> str:
        return f"{self.node}.{self.incarnation}.{self.counter}"


def claim_named(text: str) -> ClaimId:
    """The claim whose `str()` this is, as in keys of records and names of timers."""
    node, incarnation, counter = text.rsplit(".", 2)
    return ClaimId(node, int(incarnation), int(counter))


class Stamp(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """The age of a claim; smaller is older. The claim and attempt make the order total."""

    clock: int
    node: str
    claim: ClaimId
    attempt: int


Vector: TypeAlias = tuple[tuple[str, int], ...]
"""Units wanted or taken on one node: (pool, units), pools ascending, units >= 1 or `ALL`; never empty."""

ALL = -1
"""In place of a number of units: as many as the pool's capacity is when the claim is served, at least one."""


class Visit(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """One node's part of a need: 1 to 4 alternative vectors in order of preference, and the manager's epoch."""

    node: str
    alternatives: tuple[Vector, ...]
    epoch: int = 0


class UnitGrant(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """One unit that a claim has: where, which, and the fence that only grows."""

    node: str
    pool: str
    unit: str
    fence: int


class Terms(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """What a lease is asked for: life without renewal, hard end (None: no end), and who asks (for limits)."""

    ttl_ms: int = 30_000
    for_ms: int | None = None
    holder: str = ""


# Agent -> claimant


class Acquire(msgspec.Struct, frozen=True, tag="acquire"):
    """Start a claim. `wait` False: units now, if this delays no known claim, else nothing."""

    claim: ClaimId
    need: tuple[Visit, ...]
    wait: bool = True
    terms: Terms = Terms()
    stamp: Stamp | None = None
    siblings: tuple[tuple[Visit, ...], ...] = ()
    """Further placements elsewhere; the first that is granted wins."""


class Release(msgspec.Struct, frozen=True, tag="release"):
    """End a claim in any phase; a waiting one is cancelled by it. Idempotent."""

    claim: ClaimId


class Shrink(msgspec.Struct, frozen=True, tag="shrink"):
    """Give a part back while granted: what to keep per node. The holder has stopped using the rest."""

    claim: ClaimId
    keep: tuple[tuple[str, Vector], ...]
    units: tuple[UnitGrant, ...] = ()
    """Which units stay, where the holder says so (then `keep` counts them); empty: the first ones of each pool."""


class Exchange(msgspec.Struct, frozen=True, tag="exchange"):
    """Add and drop units in one step, if possible now; vectors per node of the positive and negative difference."""

    claim: ClaimId
    companion: ClaimId
    add: tuple[Visit, ...]
    drop: tuple[tuple[str, Vector], ...]
    drop_units: tuple[UnitGrant, ...] = ()
    """Which units go, where the holder says so (then `drop` counts them); empty: the last ones of each pool."""


class Extend(msgspec.Struct, frozen=True, tag="extend"):
    """A new hard end, counted whole from the grant."""

    claim: ClaimId
    for_ms: int


class LeaseLost(msgspec.Struct, frozen=True, tag="lease_lost"):
    """A lease of the claim is over or its deadline is near: stop, and end the claim as a whole (`Gone`).

    A claim that still waits goes on as another attempt with its age.
    """

    claim: ClaimId
    reason: str


ToClaimant: TypeAlias = Acquire | Release | Shrink | Exchange | Extend | LeaseLost

# Claimant -> agent


class Granted(msgspec.Struct, frozen=True, tag="granted"):
    """All units, once per attempt."""

    claim: ClaimId
    attempt: int
    units: tuple[UnitGrant, ...]
    stamp: Stamp | None = None
    """The claim's age, to come again with (`Acquire.stamp`); None after a claim without waiting."""


class NotNow(msgspec.Struct, frozen=True, tag="not_now"):
    """A claim without waiting found no units that delay nobody; nothing is held, nothing is queued."""

    claim: ClaimId


class Retrying(msgspec.Struct, frozen=True, tag="retrying"):
    """A manager came up again or is in quarantine; the claim goes on with its age as another attempt."""

    claim: ClaimId
    node: str
    retry_after_ms: int


class Exchanged(msgspec.Struct, frozen=True, tag="exchanged"):
    """The exchange is done; `units` are all that the claim has now."""

    claim: ClaimId
    units: tuple[UnitGrant, ...]


class ExchangeRefused(msgspec.Struct, frozen=True, tag="exchange_refused"):
    """Not possible now; nothing has changed."""

    claim: ClaimId


class Extended(msgspec.Struct, frozen=True, tag="extended"):
    """Every node of the claim has the new hard end."""

    claim: ClaimId
    for_ms: int


class ExtendRefused(msgspec.Struct, frozen=True, tag="extend_refused"):
    """A node of the claim allows no end that late; there the old one counts."""

    claim: ClaimId
    for_ms: int


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """The claim as a whole is over: expired, restarted, revoked or refused. The pools have been told."""

    claim: ClaimId
    reason: str


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """Every node has answered the end of the claim: its units are free there. Last word on this claim."""

    claim: ClaimId


FromClaimant: TypeAlias = (
    Granted | NotNow | Retrying | Exchanged | ExchangeRefused | Extended | ExtendRefused | Gone | Ended
)

CODEC.register("claims", ToClaimant | FromClaimant)

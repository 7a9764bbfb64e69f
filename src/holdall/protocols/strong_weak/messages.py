"""What strong/weak says beside the messages that are the same for all protocols by pool, and what a pool keeps.

Every message names claim and attempt; those about a promotion also its number `n`: how often the strong part became
active in this attempt. Source: strong/weak specification, section 8.
"""

from typing import Literal, TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.by_pool.claim import ClaimRecord, Units, Want
from holdall.protocols.by_pool.messages import Entry
from holdall.protocols.vocabulary import ClaimId, Stamp, Terms

# Claimant -> manager


class Request(msgspec.Struct, frozen=True, tag="request"):
    """To the judge: the weak pool of two, or the only pool (the paper's NewRequest of a client; Request2, Request0).

    `places`: all of the claim; `strong`: which of them is strong; `stamp`: the age that the claim brings with it.
    """

    claim: ClaimId
    attempt: int
    places: tuple[Want, ...]
    strong: int
    terms: Terms
    stamp: Stamp | None = None


class Try(msgspec.Struct, frozen=True, tag="try"):
    """Units now if nobody waits there: for claims without waiting. Answered by Held, or Refused."""

    claim: ClaimId
    attempt: int
    place: int
    epoch: int
    pool: str
    units: int
    terms: Terms


# Manager -> manager


class StrongRequest(msgspec.Struct, frozen=True, tag="strong_request"):
    """Weak pool -> strong pool: stand in the strong queue (the paper's NewRequest of a resource; Request1)."""

    claim: ClaimId
    attempt: int
    places: tuple[Want, ...]
    strong: int
    terms: Terms
    stamp: Stamp


class Promote(msgspec.Struct, frozen=True, tag="promote"):
    """Strong pool -> weak pool: the strong part is active for the `n`-th time and has these units (NewStrong).

    `place`: the weak one. `epoch`: of the strong pool's manager.
    """

    claim: ClaimId
    attempt: int
    place: int
    n: int
    units: Units
    epoch: int


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """To the weak pool of a claim that stands in somebody's way: give promotion `n` up, unless it is granted.

    `place`: the weak one.
    """

    claim: ClaimId
    attempt: int
    place: int
    n: int


class Killed(msgspec.Struct, frozen=True, tag="killed"):
    """Weak pool -> strong pool: promotion `n` has been given up. `place`: the strong one."""

    claim: ClaimId
    attempt: int
    place: int
    n: int


class Edge(msgspec.Struct, frozen=True):
    """A promotion: a dependency of the strong pool, which holds, on the weak one, where it waits or has been granted.

    `place`: the weak one, at `node`.
    """

    claim: ClaimId
    attempt: int
    n: int
    place: int
    node: str


class Candidate(msgspec.Struct, frozen=True):
    """An edge of a dependency that is followed, with what the order of edges looks at.

    `first`: it is among those that the ring token serves; `pool`: the strong one, as (node, pool).
    """

    edge: Edge
    stamp: Stamp
    first: bool
    pool: tuple[str, str]


class Seek(msgspec.Struct, frozen=True, tag="seek"):
    """Along the dependencies, to the weak pool of `edge` (the paper's seekLoop). Probe variants only.

    `origin`: who waits and asks; `least`: whom to kill, so far, if a cycle closes; `path`: (node, pool) passed.
    """

    origin: Edge
    edge: Edge
    least: Candidate
    path: tuple[tuple[str, str], ...]


class RingToken(msgspec.Struct, frozen=True, tag="ring_token"):
    """The ring token comes: strong requests that are here now are greatest until they are served."""


class RingCall(msgspec.Struct, frozen=True, tag="ring_call"):
    """To the root of the ring: somebody has strong requests, so the token must not rest."""


# Manager -> claimant


class Allowed(msgspec.Struct, frozen=True, tag="allowed"):
    """From the judge: the claim has all its units (resAllowed). Per place in order: the units, and the epoch they are of."""

    claim: ClaimId
    attempt: int
    got: tuple[tuple[Units, int], ...]
    stamp: Stamp


class Aged(msgspec.Struct, frozen=True, tag="aged"):
    """From the judge, to a Request that was repeated: the claim waits, with this age, which it keeps over attempts."""

    claim: ClaimId
    attempt: int
    stamp: Stamp


Between: TypeAlias = StrongRequest | Promote | Kill | Killed
BetweenProbes: TypeAlias = Between | Seek
BetweenToken: TypeAlias = BetweenProbes | RingToken | RingCall
ToManager: TypeAlias = Request | Try
ToClaimant: TypeAlias = Allowed | Aged

# Records

Kind: TypeAlias = Literal["single", "strong", "weak", "tried"]
"""What an entry is: of a claim for one pool, the strong or the weak part of a pair, or of a claim without waiting."""


AGELESS = Stamp(0, "", ClaimId("", 0, 0), 0)
"""Of what never waits, or waits in order of arrival alone."""


class PoolEntry(Entry, frozen=True, tag="strong weak entry"):
    """A claim's part at one pool.

    A weak part is in the weak queue until it is promoted, then in the strong queue; all others are in the strong queue
    from the start. Who is active holds units.
    """

    kind: Kind = "single"
    stamp: Stamp = AGELESS
    asked: int = 0
    """Units wanted, or `ALL`, whatever is held now."""
    places: tuple[Want, ...] = ()
    n: int = 0
    """Strong: how often it has become active. Weak: the last promotion heard of, or given up."""
    promoted: bool = False
    """Weak: in the strong queue."""
    turn: int = 0
    """Order of arrival in the strong queue, where that counts."""
    partner: tuple[Units, int] = ((), 0)
    """Weak: units of the strong part, and the epoch they are of."""

    @property
    def other(self) -> int:
        """The other place of a pair."""
        return 1 - self.place

    @property
    def other_node(self) -> str:
        """The node of the other place."""
        return self.places[self.other].node

    @property
    def queued(self) -> bool:
        """Whether it waits in the strong queue."""
        return not self.held and (self.promoted or self.kind in {"single", "strong"})


class StrongWeakClaim(ClaimRecord, frozen=True, tag="strong weak claim"):
    """A claim of one or two pools."""

    strong: int = 0
    """Its strong place."""
    stamp: Stamp | None = None
    """Its age, as far as it has been told."""


CODEC.register("strong-weak", ToManager | BetweenToken | ToClaimant)
CODEC.register("strong-weak record", PoolEntry | StrongWeakClaim)

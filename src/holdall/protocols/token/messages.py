"""What the token's two protocols say beside the messages that are the same for all protocols by pool.

Source: strong/weak specification, section 5 (`Request`, the token of the list and of the tickets, `Move`, `Recover`).
"""

from enum import IntEnum
from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.by_pool.claim import ClaimRecord, Want
from holdall.protocols.by_pool.messages import Entry
from holdall.protocols.vocabulary import ClaimId, Terms

Epoch: TypeAlias = tuple[int, str, int]
"""Of a ring: counter, the node that began it, that node's manager epoch. Never used twice, since a node that has lost
what it knew comes up in a manager epoch that it never had."""

# Claimant -> manager


class Request(msgspec.Struct, frozen=True, tag="request"):
    """Into the weak queue of the claim's home: the node of its first place. `need` are all its places."""

    claim: ClaimId
    attempt: int
    need: tuple[Want, ...]
    terms: Terms


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """Has this place its units yet? Answered by Held when it has, by Refused or PlaceGone when it can't come here."""

    claim: ClaimId
    attempt: int
    place: int
    epoch: int


class Try(msgspec.Struct, frozen=True, tag="try"):
    """Units now if nobody waits there, without the token: who never waits needs no place in the order."""

    claim: ClaimId
    attempt: int
    place: int
    epoch: int
    pool: str
    units: int
    terms: Terms


# Manager -> manager


class Listed(msgspec.Struct, frozen=True):
    """A claim that has its number, and the nodes where it is not enqueued yet."""

    number: int
    claim: ClaimId
    attempt: int
    need: tuple[Want, ...]
    terms: Terms
    nodes: tuple[str, ...]


class Token(msgspec.Struct, frozen=True, tag="token"):
    """The token. `hop` counts how often it was passed on in its epoch: a copy that comes late is known by it."""

    epoch: Epoch
    hop: int
    members: tuple[str, ...]
    """Nodes of the ring in the order in which it goes round."""
    next: int
    """Number of the next claim."""
    listed: tuple[Listed, ...] = ()
    """List: claims that are not enqueued everywhere yet, by number."""
    counters: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    """Tickets: per node and pool the last ticket given."""
    unrested: int = 0
    """So many hops it must go before it may rest: the members have changed."""


class TokenAck(msgspec.Struct, frozen=True, tag="token_ack"):
    """This token has come before; said only to a copy, so that it is not sent again."""

    epoch: Epoch
    hop: int


class Call(msgspec.Struct, frozen=True, tag="call"):
    """Somebody has weak requests: the token must not rest. To the first node of the ring, where it does."""


class Recover(msgspec.Struct, frozen=True, tag="recover"):
    """Join this epoch of the ring: tokens of earlier ones are dead from now on. Answered by Reports."""

    epoch: Epoch
    members: tuple[str, ...]


class Known(msgspec.Struct, frozen=True):
    """A claim that has its number, as one node knows it; `places` are those that are in line or held there."""

    number: int
    claim: ClaimId
    attempt: int
    need: tuple[Want, ...]
    terms: Terms
    places: tuple[int, ...]


class Report(msgspec.Struct, frozen=True, tag="report"):
    """What a node knows that has joined; part `part` of `parts`. `boot`: the epoch of its manager."""

    epoch: Epoch
    boot: int
    part: int
    parts: int
    claims: tuple[Known, ...]


class Behind(msgspec.Struct, frozen=True, tag="behind"):
    """The ring has gone on without the one who is told this."""

    epoch: Epoch
    members: tuple[str, ...]


class Ticket(msgspec.Struct, frozen=True):
    """One place of a claim and its ticket at that pool."""

    place: int
    ticket: int


class Move(msgspec.Struct, frozen=True, tag="move"):
    """Tickets: a claim into the strong queues of one node. Repeated until MoveAck."""

    epoch: Epoch
    number: int
    claim: ClaimId
    attempt: int
    need: tuple[Want, ...]
    terms: Terms
    tickets: tuple[Ticket, ...]


class MoveAck(msgspec.Struct, frozen=True, tag="move_ack"):
    """The tickets are known, over a crash too."""

    epoch: Epoch
    claim: ClaimId
    attempt: int


class RingJoin(msgspec.Struct, frozen=True, tag="ring_join"):
    """Take the sender into the ring. From the node itself: ask those `contacts` for it, until the token has come.

    `epoch`: the ring that the sender was in last; None: in none, and it holds nothing.
    """

    epoch: Epoch | None = None
    contacts: tuple[str, ...] = ()


# From a node's own parts


class RingLeave(msgspec.Struct, frozen=True, tag="ring_leave"):
    """Leave the ring with the token's next visit at which nothing stands here any more."""


class RingAbsent(msgspec.Struct, frozen=True, tag="ring_absent"):
    """The membership leases of these nodes have certainly ended: the ring goes on without them."""

    nodes: tuple[str, ...]


Between: TypeAlias = (
    Token | TokenAck | Call | Recover | Report | Behind | RingJoin | RingLeave | RingAbsent | Move | MoveAck
)
"""What managers say to each other."""
ToManager: TypeAlias = Request | Ask | Try | Between

# Records

OUTSIDE = -1
"""Number of an entry that came without waiting."""


class TokenEntry(Entry, frozen=True, tag="token entry"):
    """A claim at one pool: in the weak queue, in the strong queue, or with its units."""

    number: int = 0
    """Its place in the order of all claims; 0: in the weak queue; OUTSIDE: came without waiting."""
    ring: Epoch = (0, "", 0)
    """The ring's epoch in which it came into the strong queue."""
    turn: int = 0
    """Order of arrival in the weak queue."""
    need: tuple[Want, ...] = ()
    """All places of the claim."""
    ticket: int = 0
    """Tickets: above 0, it is held back until all tickets before this one have come; LIMBO: it gets another."""


LIMBO = -1
"""Ticket of an entry whose ticket went with an earlier epoch of the ring."""


class Stage(IntEnum):
    """What a node has of the token."""

    AWAY = 0
    HERE = 1
    """It rests here."""
    PASSED = 2
    """Sent on, and the next node may not have it yet."""
    GATHERING = 3
    """This node makes a new one, as soon as all members have reported."""


class RingState(msgspec.Struct, frozen=True, tag="ring"):
    """What a node knows of its ring. `token` with stages HERE and PASSED."""

    epoch: Epoch
    hop: int
    """The last one seen or sent."""
    members: tuple[str, ...]
    stage: Stage = Stage.AWAY
    token: Token | None = None


class Served(msgspec.Struct, frozen=True, tag="served"):
    """Tickets: the last ticket of a pool that stands in line or is over, and later ones that are over already."""

    epoch: Epoch
    ticket: int
    void: tuple[int, ...] = ()


class Moving(msgspec.Struct, frozen=True, tag="moving"):
    """Tickets: a Move that these nodes have not acknowledged."""

    move: Move
    """With all tickets of the claim."""
    nodes: tuple[str, ...]


class TokenClaim(ClaimRecord, frozen=True, tag="token claim"):
    """A claim of this node."""


CODEC.register("token", ToManager)
CODEC.register("token record", TokenEntry | RingState | Served | Moving | TokenClaim)

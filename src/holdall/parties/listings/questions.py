"""What agents tell each other about the state of their nodes: questions, answers in pieces, histories as they grow.

A peer may read what a listing shows, nothing else: no key, no secret of a session, no path of a node leaves it. Whoever
looks for a lease by its key sends the key's hash. Sender and receiver are both `agent`; the sender's node is the
link's word, never the message's.

An answer is a sequence of pieces, each far below what a frame of the link takes. The first `WINDOW` of them are sent at
once, each further one when the asker has told of one more (`PeerMore`): a long listing never fills a link.
`incarnation` is always the asker's: what comes for its earlier process start is dropped.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.model.frames import HeldUnit, LeaseView, LogRow, PoolRow
from holdall.model.why import Blocker, Why
from holdall.protocols.vocabulary import ClaimId, Stamp

PIECE_BYTES_MAX = 48 * 1024
"""Rows of one piece; what stands around them is far smaller than what is left to 64 KiB."""
PIECES_MAX = 512
"""Of one answer: 24 MiB."""
WINDOW = 2
"""Pieces of one answer that are under way at a time: what a node may have asked of a peer takes less than a link keeps."""
PLACEMENTS_MAX = 16
NODES_MAX = 64
"""Of one placement: a claim has at most so many pools."""
CLAIMS_MAX = 500
"""Claims that one question names,"""
QUESTION_BYTES_MAX = 40 * 1024
"""and about the bytes that they and what they want take."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Small = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
"""So that sums over many rows of a peer that lies stay numbers that a frame can carry."""
Text = Annotated[str, msgspec.Meta(max_length=512)]
What: TypeAlias = Literal["pools", "who", "queue", "log", "find", "lines", "claims"]
Pools: TypeAlias = tuple[str, ...]
"""Pool ids on one node."""
Places: TypeAlias = Annotated[tuple[tuple[str, Pools], ...], msgspec.Meta(max_length=NODES_MAX)]
"""One placement of a claim: (node id, pools there), in the order in which it visits them."""


class Question(msgspec.Struct, frozen=True):
    """About the state of one node."""

    what: What
    """`pools`, `who`, `log`: as in listings. `queue`: its claims that wait, and the places there of claims of others.
    `find`: the claim, lease or unit called `arg`. `lines`: the places of `claims`. `claims`: what people call them."""
    arg: Text = ""
    key: Text = ""
    """For `find`: hash of what was typed, which may be the key of a lease."""
    since_ms: Count | None = None
    claims: Annotated[tuple[ClaimId, ...], msgspec.Meta(max_length=CLAIMS_MAX)] = ()
    wants: Annotated[tuple[Pools, ...], msgspec.Meta(max_length=CLAIMS_MAX)] = ()
    """For `lines`: what each of `claims` wants there, for those that have not come yet."""


class PeerAsk(msgspec.Struct, frozen=True, tag="peer_ask"):
    """A question to the receiving node. Answered by PeerAnswer."""

    n: Count
    """Grows with each question of one process start."""
    incarnation: Count
    about: Question


class PeerMore(msgspec.Struct, frozen=True, tag="peer_more"):
    """The asker has one more piece: send the next."""

    n: Count
    incarnation: Count


# Rows


class PoolOf(msgspec.Struct, frozen=True, tag="pool"):
    """For `pools`."""

    row: PoolRow


class LeaseOf(msgspec.Struct, frozen=True, tag="lease"):
    """For `who` and `find`: a lease that the answering node keeps alive; for `find` also a claim that waits."""

    view: LeaseView
    by_key: bool = False
    """It was found by its key."""


class HeldOf(msgspec.Struct, frozen=True, tag="held"):
    """For `who`: units of the answering node that a claim of another node has."""

    claim: ClaimId
    units: tuple[HeldUnit, ...]
    since_ms: Count
    ttl_ms: Count
    for_ms: Count | None = None


class WaitOf(msgspec.Struct, frozen=True, tag="wait"):
    """For `queue` and `find`: a waiting claim of the answering node, as that node explains it."""

    claim: ClaimId
    why: Why
    placements: Annotated[tuple[Places, ...], msgspec.Meta(max_length=PLACEMENTS_MAX)] = ()
    """Empty: it has no place anywhere but at the answering node."""
    stamp: Stamp | None = None
    """Its age, where the node knows it."""


class LineOf(msgspec.Struct, frozen=True, tag="line"):
    """For `queue`, `find` and `lines`: the place of a claim at the answering node."""

    claim: ClaimId
    nodes: tuple[str, ...]
    """Ids of the nodes of this placement, in order; empty for a claim that has not come (`absent`)."""
    state: Literal["waits", "parked", "active", "absent"]
    pools: Pools = ()
    position: Small = 0
    waiting: Small = 0
    ahead: Small = 0
    overtaken: Small = 0
    passes_left: Small = 0
    passes_bound: Small = 0
    blockers: tuple[Blocker, ...] = ()
    more: Small = 0
    stamp: Stamp | None = None
    note: str = ""


class NamedOf(msgspec.Struct, frozen=True, tag="named"):
    """For `claims`: what people call a claim of the answering node."""

    claim: ClaimId
    printed: str
    holder: str
    reason: str = ""
    until_ms: Count | None = None
    renewing: bool = True


class LogOf(msgspec.Struct, frozen=True, tag="log"):
    """For `log`, and for `find` the latest rows about the claim."""

    row: LogRow


class UnitOf(msgspec.Struct, frozen=True, tag="unit"):
    """For `find`: a unit that `pool/unit` names."""

    pool: str
    unit: str
    state: str


Row: TypeAlias = PoolOf | LeaseOf | HeldOf | WaitOf | LineOf | NamedOf | LogOf | UnitOf


class PeerAnswer(msgspec.Struct, frozen=True, tag="peer_answer"):
    """One piece of the answer to question `n`."""

    n: Count
    incarnation: Count
    piece: Annotated[int, msgspec.Meta(ge=0, lt=PIECES_MAX)]
    last: bool
    rows: tuple[Row, ...] = ()
    refused: Text = ""
    """Why it is not answered, for people."""


class PeerWatch(msgspec.Struct, frozen=True, tag="peer_watch"):
    """Tell each new row of your history for a while; said again and again as long as somebody watches."""

    incarnation: Count
    on: bool = True
    after: Count | None = None
    """The latest row that the asker has seen: what came after it is told first. None: from now on."""


class PeerHappened(msgspec.Struct, frozen=True, tag="peer_happened"):
    """Rows of the sender's history, in order, or (without rows) the number of its latest one, in answer to a PeerWatch."""

    incarnation: Count
    rows: tuple[LogRow, ...] = ()
    newest: Count = 0
    """The number of the latest row that this message accounts for."""
    skipped: Count = 0
    """Rows before these that are not told any more."""


BetweenAgents: TypeAlias = PeerAsk | PeerMore | PeerAnswer | PeerWatch | PeerHappened

CODEC.register("agents", BetweenAgents)

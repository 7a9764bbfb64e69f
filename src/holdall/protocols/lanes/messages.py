"""What lanes say beside the messages that are the same for all protocols by pool: one form up, one form down.

Both are transfers of state, not events: a form tells all that the sender wants or knows of one place, so that it may be
lost, doubled or late. Source: lanes specification, sections 2.3 and 2.4 (`standing`, `view`; its stage `hold` is here
the renewal of a granted claim, its `over` the frame's End, its view `-` PlaceGone).
"""

from enum import IntEnum
from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.by_pool.claim import ClaimRecord
from holdall.protocols.by_pool.messages import Entry
from holdall.protocols.vocabulary import ClaimId, Terms, UnitGrant


class Stage(IntEnum):
    """How far the claimant is with this attempt."""

    ASK = 1
    """Propose an index, and set units aside if nobody known is delayed by that (step 1, `request`)."""
    FINAL = 2
    """The lane's index is `n` in all pools (step 3, `write`)."""


class Status(IntEnum):
    """What an entry is at its pool; at one index it only grows, but for a restart of the node."""

    OPEN = 1
    """P: its index is a proposal. Smaller than another, it keeps its units from that."""
    ASIDE = 2
    """T, tentative: its units are set aside; its claim may go in when all its pools have said so."""
    LENT = 3
    """D, deferred (lending): keeps its place, has no units, and is passed by those that go in at once."""
    QUEUED = 4
    """F, final: in line at the claim's index."""
    TRIED = 5
    """Y (lending): its units are set aside out of turn, past lanes that are lent."""
    GRANTED = 6
    """G: at its turn it was given its units."""


HOLDS = frozenset({Status.ASIDE, Status.TRIED, Status.GRANTED})
"""With these an entry has its units."""


class Wish(IntEnum):
    """Lending: what a claim in its lane wants of a place."""

    KEEP = 0
    """Units at its turn (after LEND: `resume`; after TRY: `untry`)."""
    LEND = 1
    """None for now, but its place (`defer`)."""
    TRY = 2
    """Units now, if that passes nobody but lanes that are lent (`try`)."""


class Standing(msgspec.Struct, frozen=True, tag="standing"):
    """All that a claim wants of one place now. Answered by View, Refused or PlaceGone.

    `n`: index of the lane, 0 until it is known. `answer`: whether a form that changes nothing is answered, too.
    """

    claim: ClaimId
    attempt: int
    place: int
    epoch: int
    stage: Stage
    n: int
    pool: str
    units: int
    terms: Terms
    wait: bool = True
    single: bool = False
    """The claim has no other place: what the pool proposes is its lane."""
    answer: bool = True
    wish: Wish = Wish.KEEP
    turn: int = 0
    """Counts the wishes of this attempt at this place: an older one is not heard any more."""
    seen: tuple[Status, int, bool] | None = None
    """Status, turn and hint of the newest view in this lane and epoch: where nothing else is true, nothing is said."""


class View(msgspec.Struct, frozen=True, tag="view"):
    """All that a claim is at one place now; `units` while the place has them."""

    claim: ClaimId
    attempt: int
    place: int
    status: Status
    index: int
    units: tuple[UnitGrant, ...]
    epoch: int
    turn: int = 0
    """Of the newest wish that is heard."""
    hint: bool = False
    """Lending: a TRY would succeed now."""


ToManager: TypeAlias = Standing

# Records


class LaneEntry(Entry, frozen=True, tag="lane"):
    """A claim at one pool."""

    status: Status = Status.OPEN
    index: int = 0
    asked: int = 0
    """Units as they were asked for: `units` counts what is set aside."""
    turn: int = 0
    hint: bool = False
    heard: bool = False
    """Its claimant has said that it knows of the grant. Saved with the next change only: it may be told once more."""


class SeenAt(msgspec.Struct, frozen=True):
    """The newest view of one place."""

    epoch: int
    index: int
    turn: int
    status: Status
    hint: bool
    units: tuple[UnitGrant, ...]


class LaneClaim(ClaimRecord, frozen=True, tag="lane claim"):
    """A claim with the newest views of its places. Saved is its attempt: what was seen is asked again."""

    n: int = 0
    """Index of its lane; 0 while not all pools have proposed."""
    views: tuple[SeenAt | None, ...] = ()


class Lane(msgspec.Struct, frozen=True):
    """Lending: one place of a claim that is in its lane."""

    turn: int = 0
    """Of the newest wish that was sent."""
    wish: Wish = Wish.KEEP
    lent: bool = False
    """After a TRY that fails it is lent again."""
    since: int = 0
    """A grant of an earlier turn is void: it has been lent since."""
    had: bool = False
    """It was granted in its turn, once since the claim has begun to lend."""


class LendingClaim(LaneClaim, frozen=True, tag="lending claim"):
    """Saved also whenever a wish changes, before that is sent."""

    lanes: tuple[Lane, ...] = ()
    lends: bool = False
    """It has waited so long that it lends what it was granted, until each place has been granted once."""
    rounds: int = 0
    """How often it has begun to lend."""


CODEC.register("lanes", Standing | View)
CODEC.register("lanes record", LaneEntry | LaneClaim | LendingClaim)

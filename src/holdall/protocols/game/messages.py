"""What the game says beside the messages that are the same for all protocols by pool: a form up, a view down.

A form is a transfer of state: all that a claim is at one place. Forms and views may be lost, doubled or late.
Source: game specification, section 6; the paper's releasing form is the frame's End.
"""

from enum import IntEnum
from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.by_pool.claim import ClaimRecord
from holdall.protocols.by_pool.messages import Entry
from holdall.protocols.vocabulary import ClaimId, Terms, UnitGrant


class Rules(msgspec.Struct, frozen=True):
    """Which variant is played; the switches of the fast path are on by default."""

    complete: bool = False
    """Order marks, alarm and advancing (the paper's complete variant); False: its restricted variant."""
    claims: bool = True
    """The first form asks for a tentative marked request: one round trip when nobody competes."""
    at_once: bool = True
    """A winner is in as it sends its winning form; False: when all pools have confirmed it."""
    keeps_place: bool = True
    """Units in use are no reason to withdraw."""


class Stage(IntEnum):
    """How far a claim is in its round (the paper's statuses)."""

    REGISTERED = 1
    """Known at the pool; waits at its doorway."""
    TENTATIVE = 2
    """A marked request without admission, if nobody else competes there."""
    ADMITTED = 3
    """Past the doorway: it competes, and who registers from now on waits for it."""
    REQUESTED = 4
    ORDERED = 5
    """Its request is marked: nobody comes before it any more (complete variant)."""
    WON = 6
    """Its units are booked."""
    LEFT = 7
    """Its admission has gone as well, where that does not go with winning."""


class Ticket(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """Priority: the smaller one is higher. Unique, since claims are."""

    number: int
    claim: ClaimId


class Form(msgspec.Struct, frozen=True, tag="form"):
    """All that a claim is at one place now. Answered by View, Refused or PlaceGone.

    `round` counts withdrawals within the attempt. (round, stage) only grows, so it is also the form's number.
    """

    claim: ClaimId
    attempt: int
    place: int
    epoch: int
    round: int
    stage: Stage
    number: int
    """Of its ticket."""
    pool: str
    units: int
    terms: Terms
    wait: bool = True


class Advance(msgspec.Struct, frozen=True, tag="advance"):
    """Put the request of this round before those of `passes`, which are of lower priority (advancing form)."""

    claim: ClaimId
    attempt: int
    place: int
    round: int
    passes: tuple[ClaimId, ...]


class View(msgspec.Struct, frozen=True, tag="view"):
    """What a claim sees of one pool: what its own guards say there, and nothing else of the others.

    `n` counts views of one (round, stage) of the claim there.
    """

    claim: ClaimId
    attempt: int
    place: int
    epoch: int
    round: int
    stage: Stage
    n: int
    door: bool = False
    """Closed: somebody is still admitted who was when it registered. Then nothing else is told."""
    fits: bool = False
    """(p2) at this pool: with what is to come before it, its units are there."""
    first: bool = False
    """(p4) at this pool, complete variant: its request is within the free units, whoever is ahead."""
    units: tuple[UnitGrant, ...] = ()
    """Set aside: its request is within the free units, and (complete variant) marked."""
    blockers: tuple[ClaimId, ...] = ()
    """While it has a request and no units: the first requests ahead of it, the next one last; at most BLOCKERS."""
    clock: int = 0
    """Largest number of a ticket that the pool has seen: later tickets are numbered after it."""

    @property
    def version(self) -> tuple[int, int, int, int, int]:
        """The newest one counts."""
        return self.attempt, self.epoch, self.round, int(self.stage), self.n


BLOCKERS = 8


def supersedes(older: msgspec.Struct, newer: msgspec.Struct) -> bool:
    """Whether who has got `newer` ignores `older` for ever: both are forms, or views, of one place."""
    if isinstance(older, Form) and isinstance(newer, Form):
        same = (older.claim, older.place) == (newer.claim, newer.place)
        return same and (older.attempt, older.round, older.stage) < (newer.attempt, newer.round, newer.stage)
    if isinstance(older, View) and isinstance(newer, View):
        same = (older.claim, older.place, older.attempt) == (newer.claim, newer.place, newer.attempt)
        return same and older.version < newer.version
    return False


ToManager: TypeAlias = Form | Advance

# Records


class GameEntry(Entry, frozen=True, tag="game"):
    """A claim at one pool. Saved before a view shows it."""

    round: int = 0
    stage: Stage = Stage.REGISTERED
    number: int = 0
    asked: int = 0
    """Units as they were asked for: `units` counts what is set aside."""
    turn: int = 0
    """Place of its request in the pool's queue; 0: it has none."""
    marked: bool = False
    """It is ordered, or tentative."""
    door: int = 0
    """Serial of the newest admission when it registered: it waits for those up to that."""
    serial: int = 0
    """Of its own admission; 0: it is not admitted."""
    n: int = 0
    """Views sent of this (round, stage)."""
    shown: int = 0
    """What the last view told that its claim acts on, as bits; 0: no view yet."""

    @property
    def ticket(self) -> Ticket:
        """Its priority."""
        return Ticket(self.number, self.claim)


class GameClaim(ClaimRecord, frozen=True, tag="game claim"):
    """A claim with the newest views of its places. Saved is its attempt: what was seen is asked again."""

    number: int = 0
    round: int = 0
    stage: Stage = Stage.TENTATIVE
    views: tuple[View | None, ...] = ()
    advanced: bool = False
    """It has advanced in this round."""
    failures: int = 0
    """Rounds that ended with a withdrawal after an advance: its alarm waits twice as long for each."""


CODEC.register("game", Form | Advance | View)
CODEC.register("game record", GameEntry | GameClaim)

"""All messages of the chain, in one closed union per receiver. Source: chain specification, 2.5.

Every message names its claim and attempt; the sender comes from the connection. `epoch` is the receiving
manager's as the sender knows it.
"""

from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.vocabulary import ClaimId, Stamp, Terms, UnitGrant, Vector, Visit

# Claimant -> manager


class Request(msgspec.Struct, frozen=True, tag="request", cache_hash=True):
    """Stand in line at the first node of `need`; `stamp` when the claim has an age already."""

    claim: ClaimId
    attempt: int
    epoch: int
    need: tuple[Visit, ...]
    terms: Terms
    stamp: Stamp | None


class Done(msgspec.Struct, frozen=True, tag="done", cache_hash=True):
    """The end of this attempt and all earlier ones: release and cancel alike. Answered by EndAck, always."""

    claim: ClaimId
    attempt: int
    alone: bool = False
    """The claim has gone to no other node; from the same node nothing of it can arrive any more."""


class Try(msgspec.Struct, frozen=True, tag="try", cache_hash=True):
    """Units now, if that delays no waiting claim. Answered by Tried."""

    claim: ClaimId
    attempt: int
    epoch: int
    alternatives: tuple[Vector, ...]
    terms: Terms


class ShrinkRow(msgspec.Struct, frozen=True, tag="shrink_row", cache_hash=True):
    """Keep at most `keep` here (the named units first); nothing kept ends the claim at this node. No answer."""

    claim: ClaimId
    attempt: int
    keep: Vector
    units: tuple[UnitGrant, ...] = ()


class ExtendRow(msgspec.Struct, frozen=True, tag="extend_row", cache_hash=True):
    """A new hard end, whole from the grant. Answered by RowExtended."""

    claim: ClaimId
    attempt: int
    for_ms: int


class Entered(msgspec.Struct, frozen=True, tag="entered", cache_hash=True):
    """The claim is granted as a whole. For display: no rule depends on it, so it is never repeated."""

    claim: ClaimId
    attempt: int


# Manager -> manager


class Promote(msgspec.Struct, frozen=True, tag="promote", cache_hash=True):
    """The claim is active at all nodes before `position`; stand in line here."""

    claim: ClaimId
    attempt: int
    epoch: int
    need: tuple[Visit, ...]
    terms: Terms
    position: int
    """Index into `need`, from 0; here always > 0."""
    pn: int
    """How often the sender has made it active: tells this Promote from earlier ones."""
    stamp: Stamp
    got: tuple[int, ...]
    """The alternative chosen at each node before this one."""
    units: tuple[UnitGrant, ...]
    """What is set aside at those nodes."""


class Kill(msgspec.Struct, frozen=True, tag="kill", cache_hash=True):
    """An older claim needs what this one has at the sender: give it up, unless it is granted."""

    claim: ClaimId
    attempt: int
    epoch: int
    pn: int


class Killed(msgspec.Struct, frozen=True, tag="killed", cache_hash=True):
    """The Promote numbered `n` has come to nothing: the claim holds and waits for nothing from the sender on."""

    claim: ClaimId
    attempt: int
    n: int


# Manager -> claimant


class Allowed(msgspec.Struct, frozen=True, tag="allowed", cache_hash=True):
    """The last node is active, so all are: the claim is granted."""

    claim: ClaimId
    attempt: int
    stamp: Stamp
    got: tuple[int, ...]
    units: tuple[UnitGrant, ...]


class Queued(msgspec.Struct, frozen=True, tag="queued", cache_hash=True):
    """The first node has given the claim this age and lets it wait. A notice: losing it loses at most the age."""

    claim: ClaimId
    attempt: int
    stamp: Stamp


class Refused(msgspec.Struct, frozen=True, tag="refused", cache_hash=True):
    """Not in line at the sender. The next attempt names `epoch` and comes after `retry_after_ms`."""

    claim: ClaimId
    attempt: int
    epoch: int
    retry_after_ms: int
    stamp: Stamp | None = None
    """The age that the refused message carried."""


class Tried(msgspec.Struct, frozen=True, tag="tried", cache_hash=True):
    """Answer to Try: `units` are set aside, or (`yes` False) nothing is."""

    claim: ClaimId
    attempt: int
    yes: bool
    units: tuple[UnitGrant, ...] = ()


class EndAck(msgspec.Struct, frozen=True, tag="end_ack", cache_hash=True):
    """The sender holds nothing of this attempt and of earlier ones, and never will again."""

    claim: ClaimId
    attempt: int


class RowExtended(msgspec.Struct, frozen=True, tag="row_extended", cache_hash=True):
    """Answer to ExtendRow; `ok` False: the pool allows no end that late, or the claim is not here."""

    claim: ClaimId
    attempt: int
    for_ms: int
    ok: bool


class RowGone(msgspec.Struct, frozen=True, tag="row_gone", cache_hash=True):
    """The sender has ended the claim by itself: its lease is over there."""

    claim: ClaimId
    attempt: int
    reason: str
    stamp: Stamp | None = None
    """The age that the claim had; None for one that never waited."""


ToManager: TypeAlias = Request | Done | Try | ShrinkRow | ExtendRow | Entered | Promote | Kill | Killed
ToClaimantOnWire: TypeAlias = Allowed | Queued | Refused | Tried | EndAck | RowExtended | RowGone
ChainMessage: TypeAlias = ToManager | ToClaimantOnWire

MANAGER = "manager"
"""The part of a node that is its manager."""
CLAIMANT = "claimant"
"""The part of a node that speaks for its claims."""

CODEC.register("chain", ChainMessage)

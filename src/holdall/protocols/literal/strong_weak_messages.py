"""Messages of the two-resource algorithm as printed. Lab only.

Where text and pseudo-code name a message differently, one name is used: StrongReady (Res1Ready in line 113),
KillAck1 and KillAck2 (KillLoopACK in lines 128, 135).
"""

from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.vocabulary import ClaimId

RESOURCE = "manager"
CLIENT = "claimant"


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """What resources say to each other. Nobody reads `nth`; by it equal messages in flight stay two."""

    nth: int = 0
    """So many equal messages has the sender sent to the same receiver before."""


class NewRequest(Counted, frozen=True, tag="NewRequest"):
    """Lines 7, 9, 31. `number` 1: strong, 2: weak. `next_resource`: the other one's node, empty for ⊥."""

    claim: ClaimId
    number: int
    next_resource: str


class NewStrong(Counted, frozen=True, tag="NewStrong"):
    """Line 41 (NewPriority in the text): the client heads the strong queue of the sender."""

    claim: ClaimId


class NewStrongAck(Counted, frozen=True, tag="newStrongACK"):
    """Line 57."""


class StrongReady(Counted, frozen=True, tag="StrongReady"):
    """Line 113. `claim` is not printed (repair "ready_id")."""

    claim: ClaimId | None = None


class ResAllowed(msgspec.Struct, frozen=True, tag="resAllowed"):
    """Lines 39, 65: the client may enter. `claim` is its address there."""

    claim: ClaimId


class Done(Counted, frozen=True, tag="Done"):
    """Lines 16, 18, 80: the head of the receiver's queue is done."""


class EndAck(msgspec.Struct, frozen=True, tag="endACK"):
    """Line 77. `claim` is its address there."""

    claim: ClaimId


class Token(Counted, frozen=True, tag="Token"):
    """Line 15: the ring token."""


class SeekLoop(Counted, frozen=True, tag="seekLoop"):
    """Lines 89, 107: is there a cycle? `rmin`: least resource passed, empty for ∞; `rinit`: who asks."""

    rmin: str
    rinit: str


class NoLoop(Counted, frozen=True, tag="NoLoop"):
    """Line 102."""


class RemoteKillLoop(Counted, frozen=True, tag="RemoteKillLoop"):
    """Line 95: break the cycle at your edge."""


class KillLoop(Counted, frozen=True, tag="KillLoop"):
    """Lines 98, 118: move this client's request back to the weak queue."""

    claim: ClaimId


class KillAck1(Counted, frozen=True, tag="KillACK1"):
    """Line 125."""


class KillAck2(Counted, frozen=True, tag="KillACK2"):
    """Line 131."""


ToResource: TypeAlias = (
    NewRequest
    | NewStrong
    | NewStrongAck
    | StrongReady
    | Done
    | Token
    | SeekLoop
    | NoLoop
    | RemoteKillLoop
    | KillLoop
    | KillAck1
    | KillAck2
)
ToClient: TypeAlias = ResAllowed | EndAck

CODEC.register("literal strong-weak", ToResource | ToClient)

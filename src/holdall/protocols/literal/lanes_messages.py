"""Messages of the slotting protocol ("distributed lanes") as printed. Lab only.

The pools' answers carry no sender, as the note asks for; the agent that they are for is their address there and is
written as `claim` here, since one host may speak for several agents.
"""

from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.vocabulary import ClaimId

POOL = "manager"
AGENT = "claimant"


class Request(msgspec.Struct, frozen=True, tag="request"):
    """Step 1, `request(A)`: the agent wants an index."""

    claim: ClaimId


class Reply(msgspec.Struct, frozen=True, tag="reply"):
    """Step 2, `reply(pp)`: the promise pointer after it was raised by one."""

    claim: ClaimId
    index: int


class Reserve(msgspec.Struct, frozen=True, tag="reserve"):
    """Step 3 (Alexei), `reserve(A, n)`: n is the greatest of the replies."""

    claim: ClaimId
    index: int


class Accept(msgspec.Struct, frozen=True, tag="accept"):
    """Step 4 (Alexei), `accept(n)`."""

    claim: ClaimId
    index: int


class Reject(msgspec.Struct, frozen=True, tag="reject"):
    """Step 4 (Alexei), `reject(pp)`."""

    claim: ClaimId
    index: int


class Write(msgspec.Struct, frozen=True, tag="write"):
    """Step 5.a, `write(A, n)`: the agent's lane is at index n of each of its pools."""

    claim: ClaimId
    index: int


class Withdraw(msgspec.Struct, frozen=True, tag="withdraw"):
    """Not printed (repair "withdraw"): the round to which one of these was promised or accepted is abandoned."""

    claim: ClaimId
    indices: tuple[int, ...]


class Locked(msgspec.Struct, frozen=True, tag="locked"):
    """Consumption, which the note does not print: the pool is locked for this agent now."""

    claim: ClaimId


class Unlock(msgspec.Struct, frozen=True, tag="unlock"):
    """Not printed either: the agent is done with the pool."""

    claim: ClaimId


ToPool: TypeAlias = Request | Reserve | Write | Withdraw | Unlock
ToAgent: TypeAlias = Reply | Accept | Reject | Locked

CODEC.register("literal lanes", ToPool | ToAgent)

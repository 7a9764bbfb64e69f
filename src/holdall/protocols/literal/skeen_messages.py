"""Messages of Skeen lanes: Skeen's total order multicast with the agent as coordinator. Lab only."""

from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.vocabulary import ClaimId

POOL = "manager"
AGENT = "claimant"


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """The agent wants a place in line: request."""

    claim: ClaimId


class Proposal(msgspec.Struct, frozen=True, tag="proposal"):
    """The pool's clock, raised by one: not a promise, a proposal."""

    claim: ClaimId
    index: int


class Final(msgspec.Struct, frozen=True, tag="final"):
    """The greatest of all proposals: the claim's place at every pool."""

    claim: ClaimId
    index: int


class Grant(msgspec.Struct, frozen=True, tag="grant"):
    """The pool's unit is the claim's."""

    claim: ClaimId


class GiveBack(msgspec.Struct, frozen=True, tag="give_back"):
    """The agent is done: release."""

    claim: ClaimId


ToPool: TypeAlias = Ask | Final | GiveBack
ToAgent: TypeAlias = Proposal | Grant

CODEC.register("skeen lanes", ToPool | ToAgent)

"""A node among three, with claims of its own and of others; one of the others lies."""

from parties.party_node import pool

from holdall.machine.contract import (
    Address,
    ClockRead,
    Effect,
    Message,
    Received,
)
from holdall.parties.claimant_side import ClaimantSide
from holdall.parties.pool_side import PoolSide
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.claims import Inside
from holdall.protocols.chain.messages import (
    Allowed,
    Promote,
    Request,
)
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Stamp,
    Terms,
    UnitGrant,
    Vector,
    Visit,
)

ME, FRIEND, LIAR = "n1", "n2", "n3"
TTL_MAX_MS = 300_000
MINE, THEIRS, LIES = ClaimId(ME, 1, 1), ClaimId(FRIEND, 1, 1), ClaimId(LIAR, 1, 1)
THROUGH, WAITS, BEHIND = ClaimId(FRIEND, 1, 2), ClaimId(FRIEND, 1, 3), ClaimId(LIAR, 1, 2)
GPU: Vector = (("gpu", 1),)
TERMS = Terms(ttl_ms=30_000)


def visits(*nodes: str) -> tuple[Visit, ...]:
    return tuple(Visit(node, (GPU,), epoch=1) for node in nodes)


def request(claim: ClaimId, *nodes: str) -> Request:
    return Request(claim, 1, 1, visits(*nodes), TERMS, None)


def side() -> PoolSide:
    """Three units: MINE has one, THEIRS another, THROUGH the third on its way to the liar; WAITS waits, and one comes."""
    made = PoolSide(ME, [pool("gpu", "0", "1", "2")], ttl_max_ms=TTL_MAX_MS)
    made.handle(Received(Address(ME, "node"), ClockRead(1_700_000_000_000, 5_000)))
    for claim, nodes in (
        (MINE, (ME,)),
        (THEIRS, (ME,)),
        (THROUGH, (ME, LIAR)),
        (WAITS, (ME,)),
    ):
        made.handle(Received(Address(claim.node, "claimant"), request(claim, *nodes)))
    came = Promote(BEHIND, 1, 1, visits(FRIEND, ME), TERMS, 1, 1, Stamp(9, FRIEND, BEHIND, 1), (0,), ())
    made.handle(Received(Address(FRIEND, "manager"), came))
    assert [made.manager.rows[claim].active for claim in (MINE, THEIRS, THROUGH, WAITS, BEHIND)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    return made


def claims() -> ClaimantSide:
    """One claim granted at FRIEND, one waiting along FRIEND and LIAR, one trying at LIAR."""
    made = ClaimantSide(Claimant(ME, Address(ME, "agent"), repeat_ms=1_000))
    agent = Address(ME, "agent")
    made.handle(Received(Address(ME, "node"), ClockRead(1_700_000_000_000, 5_000)))
    for counter, nodes, wait in ((1, (FRIEND,), True), (2, (FRIEND, LIAR), True), (3, (LIAR,), False)):
        made.handle(Received(agent, Acquire(ClaimId(ME, 1, counter), visits(*nodes), wait, TERMS)))
    units = (UnitGrant(FRIEND, "gpu", "0", 5),)
    stamp = Stamp(7, FRIEND, MINE, 1)
    made.handle(Received(Address(FRIEND, "manager"), Allowed(MINE, 1, stamp, (0,), units)))
    assert isinstance(made.claimant.claims[MINE], Inside)
    return made


def said(machine: PoolSide | ClaimantSide, node: str, message: Message) -> list[Effect]:
    return machine.handle(Received(Address(node, "manager"), message))

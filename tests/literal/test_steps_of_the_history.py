"""`ballot` and `skeen`, the steps between the printed lanes and fast lanes: complete and clean."""

import pytest
from literal.found import Clean, params, search

from holdall.machine.contract import Address, Received, Send
from holdall.protocols.literal.skeen import SkeenPool
from holdall.protocols.literal.skeen_messages import Ask, Final, GiveBack, Grant, Proposal
from holdall.protocols.vocabulary import ClaimId

# The history of lanes, 3.5, has 938, 584 and 2,071 for the first, second and last: its model keeps more of an agent
# that has decided (with the proposals kept there would be 881, 584 and 2,037 here).
SKEEN = [Clean("same", 873), Clean("line", 584), Clean("mixed", 201), Clean("twice", 1975)]

# The history has 27,257 for the line and 24,457 for "twice"; how its model ends a claim is not told. "twice" is bounded by one round each, the others by two. "same" is row L8 of the printed lanes.
BALLOT = [Clean("line", 30136), Clean("mixed", 5623), Clean("twice", 22232), Clean("same", 538320)]


@pytest.mark.parametrize("row", params(SKEEN))
def test_skeen_is_complete_and_clean(row: Clean) -> None:
    result = search("skeen", row.world)
    assert (result.violations, result.complete, result.states) == ((), True, row.states)


@pytest.mark.parametrize("row", params(BALLOT))
def test_ballot_is_complete_and_clean(row: Clean) -> None:
    result = search("ballot", row.world)
    assert (result.violations, result.complete, result.states) == ((), True, row.states)


A, B = ClaimId("a", 1, 1), ClaimId("b", 1, 2)


def test_skeen_proposes_grants_in_the_order_of_final_indices_and_waits_for_open_ones() -> None:
    pool = SkeenPool()

    def tell(message: Ask | Final | GiveBack) -> list[object]:
        effects = pool.handle(Received(Address(message.claim.node, "claimant"), message))
        return [effect.message for effect in effects if isinstance(effect, Send)]

    assert tell(Ask(A)) == [Proposal(A, 1)]
    assert tell(Ask(B)) == [Proposal(B, 2)]
    assert tell(Final(B, 2)) == []  # A may still become smaller
    assert tell(Final(A, 4)) == [Grant(B)]
    assert tell(GiveBack(B)) == [Grant(A)]
    assert tell(Ask(B)) == [Proposal(B, 5)]  # the final index has raised the clock

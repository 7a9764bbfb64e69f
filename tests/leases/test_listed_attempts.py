"""A list of a claimant's node ends rows of earlier attempts, which a journal that lacked its last turns has kept."""

from holdall.leases.listing import Compared, Entry, Short, Standing
from holdall.leases.peers import Peers
from holdall.protocols.vocabulary import ClaimId

FIRST, SECOND, LATER = ClaimId("c1", 1, 1), ClaimId("c1", 1, 2), ClaimId("c1", 1, 3)


def compare(entry: Entry) -> Short | None:
    """All units are here as listed."""
    del entry
    return None


def test_rows_of_earlier_attempts_are_over_and_those_of_the_listed_one_are_not() -> None:
    peers = Peers()
    for claim in (FIRST, SECOND, LATER):
        peers.arrived(claim, 1)
    entries = (Entry(FIRST, 2, inside=False), Entry(SECOND, 1, inside=True))
    answer, over = peers.standing("c1", Standing(7, 0, entries, SECOND, last=True), 1, compare)
    assert answer == Compared(7, 1)
    assert over == (FIRST,)  # LATER began after the list was written


def test_a_row_of_a_later_attempt_than_the_listed_one_stays() -> None:
    peers = Peers()
    peers.arrived(FIRST, 3)
    _, over = peers.standing(
        "c1", Standing(7, 0, (Entry(FIRST, 2, inside=False),), FIRST, last=True), 1, compare
    )
    assert over == ()

"""Entries, fences as runs, digests, and lists in parts."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdall.leases.listing import (
    WEIGHT_MAX,
    Entry,
    Standing,
    digest,
    is_in,
    is_within,
    number_in,
    parts_of,
    print_of,
    runs_of,
    weight,
)
from holdall.machine.codec import CODEC
from holdall.protocols.vocabulary import ClaimId

CLAIM = ClaimId("c", 1, 1)
FENCES = st.lists(st.integers(0, 60), max_size=40)


@given(FENCES, FENCES)
def test_runs_are_sets_of_fences(some: list[int], others: list[int]) -> None:
    runs, more = runs_of(some), runs_of(others)
    assert number_in(runs) == len(set(some))
    assert {fence for fence in range(70) if is_in(fence, runs)} == set(some)
    assert is_within(runs, more) == (set(some) <= set(others))
    assert all(one[1] + 1 < two[0] for one, two in pairwise(runs))


def test_the_digest_tells_attempts_fences_and_ends_apart_and_no_order() -> None:
    waiting = Entry(CLAIM, 1, inside=False)
    held = Entry(CLAIM, 1, inside=True, fences=((4, 6),))
    others = [
        waiting,
        Entry(CLAIM, 2, inside=False),
        held,
        Entry(CLAIM, 1, inside=True, fences=((4, 5),)),
        Entry(CLAIM, 1, inside=True, fences=((4, 6),), for_ms=5),
    ]
    assert len({print_of(entry) for entry in others}) == len(others)
    other = Entry(ClaimId("c", 1, 2), 1, inside=False)
    assert digest([waiting, other]) == digest([other, waiting])
    assert digest([waiting, other, waiting]) == digest([other])


def test_a_part_stays_below_a_frame_however_many_claims_and_units() -> None:
    node = "a" * 20
    small = [Entry(ClaimId(node, 1, number), 1, inside=False) for number in range(1200)]
    wide = [
        Entry(
            ClaimId(node, 1, 5000 + number),
            1,
            inside=True,
            fences=tuple((n * 3, n * 3 + 1) for n in range(100)),
        )
        for number in range(60)
    ]
    parts = parts_of(small + wide)
    assert [entry for part in parts for entry in part] == small + wide
    assert all(sum(map(weight, part)) <= WEIGHT_MAX for part in parts)
    sizes = [len(CODEC.encode(Standing(1 << 40, 1, part, CLAIM, last=False))) for part in parts]
    assert max(sizes) < 60_000
    assert parts_of([]) == [()]

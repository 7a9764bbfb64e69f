"""What a new token must bring, out of what all members know: which places are missing where, and in which order.

Source: strong/weak specification, section 5: next number := max + 1, list := for every claim seen the live pools of its
need that neither hold it nor have it buried (a node leaves out by itself what has ended there). The order of the
numbers is enough while one ring follows another; a node that was cut off and comes back brings claims of its own, so
the order is taken from the queues: what stands somewhere comes before what is to be put in behind it.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from holdall.protocols.token.messages import Known, Report
from holdall.protocols.vocabulary import ClaimId

Attempt: TypeAlias = tuple[ClaimId, int]
Pool: TypeAlias = tuple[str, str]


def merged(reports: Mapping[str, Sequence[Report]]) -> tuple[int, list[tuple[Known, tuple[int, ...]]]]:
    """(next number, claims with the places that they lack at members, in an order that no queue contradicts)."""
    boots = {member: parts[0].boot for member, parts in reports.items()}
    claims: dict[Attempt, Known] = {}
    have: dict[Attempt, set[int]] = {}
    for parts in reports.values():
        for known in (known for report in parts for known in report.claims):
            claims.setdefault((known.claim, known.attempt), known)
            have.setdefault((known.claim, known.attempt), set()).update(known.places)
    lacks = {key: missing_of(known, have[key], boots) for key, known in claims.items()}
    following = 1 + max((known.number for known in claims.values()), default=0)
    order = _Order(claims)
    for there, to_come in _queues(reports, claims, lacks):
        order.add(there, to_come)
    return following, [(claims[key], lacks[key]) for key in order.sorted() if lacks[key]]


def missing_of(known: Known, have: set[int], boots: Mapping[str, int]) -> tuple[int, ...]:
    """Places that are still to come.

    `boots`: member -> its manager's epoch. A member that has lost its queue may have lost the claim's end with it:
    whoever goes on comes again by itself. So does a claim that wants something of a node that is no member.
    """
    if any(want.node not in boots for want in known.need):
        return ()
    return tuple(
        place for place, want in enumerate(known.need) if place not in have and boots[want.node] == want.epoch
    )


def _queues(
    reports: Mapping[str, Sequence[Report]],
    claims: Mapping[Attempt, Known],
    lacks: Mapping[Attempt, tuple[int, ...]],
) -> Iterator[tuple[list[Attempt], list[Attempt]]]:
    """Per pool: who stands there, in order, and who is to be put in behind."""
    there: dict[Pool, list[Attempt]] = {}
    to_come: dict[Pool, list[Attempt]] = {}
    for member, parts in reports.items():
        for known in (known for report in parts for known in report.claims):
            for place in known.places:
                there.setdefault((member, known.need[place].pool), []).append((known.claim, known.attempt))
    for key, places in lacks.items():
        for place in places:
            want = claims[key].need[place]
            to_come.setdefault((want.node, want.pool), []).append(key)
    for pool in sorted({*there, *to_come}):
        yield there.get(pool, []), to_come.get(pool, [])


class _Order:
    """Claims, each behind those that stand before it in any queue; else by number.

    What stands somewhere comes before what is to be put in behind it, unless that would go in a circle: then one of
    the claims has ended at one node already and not yet at all, and nothing of it will be put in.
    """

    def __init__(self, claims: Mapping[Attempt, Known]) -> None:
        self._claims = claims
        self._behind: dict[Attempt, dict[Attempt, bool]] = {key: {} for key in claims}
        """Followers; True: in some queue itself, False: only where it is to be put in."""

    def add(self, there: Sequence[Attempt], to_come: Sequence[Attempt]) -> None:
        """One queue, and who is to be put in behind it."""
        for first, second in pairwise(there):
            self._behind[first][second] = True
        for key in to_come:
            if there:
                self._behind[there[-1]].setdefault(key, False)

    def sorted(self) -> list[Attempt]:
        """All claims in their order."""
        before = {standing: dict.fromkeys(self._claims, 0) for standing in (True, False)}
        for followers in self._behind.values():
            for key, standing in followers.items():
                before[standing][key] += 1
        heap = [(self._rank(key, before), key) for key in self._claims]
        heapq.heapify(heap)
        found: dict[Attempt, None] = {}
        while heap:
            rank, key = heapq.heappop(heap)
            if key in found or rank != self._rank(key, before):
                continue
            found[key] = None
            for follower, standing in self._behind[key].items():
                before[standing][follower] -= 1
                heapq.heappush(heap, (self._rank(follower, before), follower))
        return list(found)

    def _rank(self, key: Attempt, before: Mapping[bool, Mapping[Attempt, int]]) -> tuple[bool, bool, int]:
        return (before[True][key] > 0, before[False][key] > 0, self._claims[key].number)

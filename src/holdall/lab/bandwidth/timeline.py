"""How shares follow agents that come and go: a fixed course on virtual time, through the same book of leases as a gate's.

Four agents ask in order at 0 s, each for its payload a second. The two small ones leave at 7 s, a fifth comes at 9.5 s; all
renew their leases of 2 s when they end. Source: lease negotiation, section 7.3.
"""

from heapq import heappop, heappush
from typing import Literal, TypeAlias

import msgspec

from holdall.lab.bandwidth.expected import CAPACITY, LEASE_MS, SENDERS
from holdall.leases.capacity import CapacityBook, Leased
from holdall.leases.divisions import Rule
from holdall.leases.shares import Shares, Wanted

NEWCOMER = "a60", 60_000
NEWCOMER_MS = 9_500
LEAVING = ("a10", "a25")
LEAVING_MS = 7_000
END_MS = 16_000

What: TypeAlias = Literal["asks", "leaves"]


class Level(msgspec.Struct, frozen=True):
    """What everybody has from an instant on, in the order of asking."""

    at_ms: int
    granted: dict[str, int]


def course(rule: Rule) -> list[Level]:
    """One entry for each instant at which something happens."""
    book = CapacityBook(Shares(CAPACITY, rule=rule))
    wanted = {**SENDERS, NEWCOMER[0]: NEWCOMER[1]}
    due: list[tuple[int, int, What, str]] = []
    for place, agent in enumerate(wanted):
        heappush(due, (NEWCOMER_MS if agent == NEWCOMER[0] else 0, place, "asks", agent))
    for place, agent in enumerate(LEAVING):
        heappush(due, (LEAVING_MS, place, "leaves", agent))
    levels: list[Level] = []
    gone: set[str] = set()
    while due and due[0][0] < END_MS:
        at_ms, place, what, agent = heappop(due)
        if what == "leaves":
            gone.add(agent)
            book.release(agent, at_ms)
        elif agent not in gone:
            outcome = book.ask(agent, Wanted(wanted[agent]), duration_ms=LEASE_MS, now_ms=at_ms)
            again_ms = outcome.remaining_ms if isinstance(outcome, Leased) else outcome.retry_after_ms
            heappush(due, (at_ms + again_ms, place, "asks", agent))
        if not due or due[0][0] > at_ms:
            has = {part.holder: part.granted for part in book.shares.parts.values()}
            levels.append(Level(at_ms, {one: has[one] for one in wanted if one in has}))
    return levels

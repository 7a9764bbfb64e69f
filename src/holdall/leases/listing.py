"""What one node tells another of its claims there: entries of a list, their digest, and the messages of renewal.

An entry of a granted claim names its units by their fences: a node gives each fence once, over every kind of restart,
so a fence tells the unit and the very activation that set it aside. Source: chain specification, section 7 (leases,
restarts).
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.vocabulary import ClaimId

Runs: TypeAlias = tuple[tuple[int, int], ...]
"""Fences, ascending, as (first, last) of each run without a gap: those of one activation are mostly one run."""

WEIGHT_MAX = 500
"""Entries and runs in one part of a list, so that a part stays far below the size of a frame."""


class Entry(msgspec.Struct, frozen=True):
    """One claim as its own node knows it, at the node that the list goes to."""

    claim: ClaimId
    attempt: int
    inside: bool
    """Granted: `fences` are all that it has there. Else it waits, and may have units there or not."""
    fences: Runs = ()
    for_ms: int | None = None
    """Its hard end, which every node has confirmed; None while it waits, or when it has none."""
    told: bool = True
    """The holder knows of its grant. False: the grant waits for the nodes to confirm its units, and no end counts yet."""


class Short(msgspec.Struct, frozen=True):
    """A granted claim that has less at the answering node than its entry says: `here` is all that it has there."""

    claim: ClaimId
    attempt: int
    here: Runs = ()


class Alive(msgspec.Struct, frozen=True, tag="alive"):
    """To a manager: this node lives. `number` and `digest` are of the list of its claims that may be at the receiver."""

    count: int
    number: int
    digest: int
    news: tuple[Entry, ...] = ()
    """Granted claims whose entries have changed since the receiver last confirmed them; none when they are many."""


class AliveOk(msgspec.Struct, frozen=True, tag="alive_ok"):
    """From a manager: heard. `same` False: what is here differs, send the list. `short`: of the news."""

    count: int
    epoch: int
    same: bool
    short: tuple[Short, ...] = ()


class Standing(msgspec.Struct, frozen=True, tag="standing"):
    """One part of the list, in order; `last` ends it. Claims above `newest` began after it was written."""

    count: int
    part: int
    entries: tuple[Entry, ...]
    newest: ClaimId | None
    last: bool


class Compared(msgspec.Struct, frozen=True, tag="compared"):
    """From a manager, after the last part of a list. All that is listed as held is here, except `short`."""

    count: int
    epoch: int
    short: tuple[Short, ...] = ()


RenewalMessage = Alive | AliveOk | Standing | Compared

CODEC.register("renewal between nodes", RenewalMessage)


def runs_of(fences: Iterable[int]) -> Runs:
    """The fences as runs."""
    runs: list[tuple[int, int]] = []
    for fence in sorted(set(fences)):
        if runs and runs[-1][1] + 1 == fence:
            runs[-1] = (runs[-1][0], fence)
        else:
            runs.append((fence, fence))
    return tuple(runs)


def number_in(runs: Runs) -> int:
    """How many fences they are. Never walk a neighbour's runs fence by fence: it may name any number."""
    return sum(last - first + 1 for first, last in runs)


def is_in(fence: int, runs: Runs) -> bool:
    """Whether the fence is one of them."""
    place = bisect_right(runs, fence, key=lambda run: run[0])
    return place > 0 and fence <= runs[place - 1][1]


def is_within(runs: Runs, others: Runs) -> bool:
    """Whether all fences of `runs`, which are this node's own, are in `others`."""
    return all(is_in(fence, others) for first, last in runs for fence in range(first, last + 1))


@lru_cache(maxsize=1 << 14)
def print_of(entry: Entry) -> int:
    """48 bits of an entry; those of a list are joined by exclusive or, in any order."""
    text = f"{entry.claim}/{entry.attempt}"
    if entry.inside:
        text += f"/{entry.fences}/{entry.for_ms}" if entry.told else f"/{entry.fences}/{entry.for_ms}/untold"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big")


def digest(entries: Iterable[Entry]) -> int:
    """Of a list, in any order."""
    total = 0
    for entry in entries:
        total ^= print_of(entry)
    return total


def weight(entry: Entry) -> int:
    """What it takes of a part's `WEIGHT_MAX`."""
    return 1 + len(entry.fences) // 4


def parts_of(entries: Iterable[Entry]) -> list[tuple[Entry, ...]]:
    """A list in parts that fit into messages; at least one part."""
    parts: list[list[Entry]] = [[]]
    room = WEIGHT_MAX
    for entry in entries:
        if room < weight(entry) and parts[-1]:
            parts.append([])
            room = WEIGHT_MAX
        parts[-1].append(entry)
        room -= weight(entry)
    return [tuple(part) for part in parts]

"""What a location's manager and its hosts tell to whoever looks: messages that change nothing, answered part by part.

A part has what fits a message, in the order of names; who wants more asks again for what comes after its last name.
"""

from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import TypeAlias, TypeVar

import msgspec

from holdall.machine.codec import CODEC
from holdall.model.location_rows import CapacityRow, HostRow, ShareRow
from holdall.model.terms import LeaseDocument

PART_ROWS_MAX = 100
PART_BYTES_MAX = 24 * 1024
"""Of the rows, far below the size of a frame; a row that is larger goes alone."""
Name: TypeAlias = tuple[str, ...]
Row = TypeVar("Row")
SEPARATOR = "\n"
"""Between the words of a name; no word has one."""


class GetHosts(msgspec.Struct, frozen=True, tag="get_hosts"):
    """To the location's manager: which hosts are there? Answered by Hosts."""

    after: str = ""


class GetLeases(msgspec.Struct, frozen=True, tag="get_leases"):
    """To the location's manager, which knows all of them, or to a host for its own, with their use. Answered by Leases."""

    after: str = ""


class GetShares(msgspec.Struct, frozen=True, tag="get_shares"):
    """To a host: how are its capacities divided? Answered by SharesAre."""

    after: str = ""


class Hosts(msgspec.Struct, frozen=True, tag="hosts"):
    """`next`: the `after` of the next part; empty: this is the last."""

    after: str
    rows: tuple[HostRow, ...]
    next: str = ""


class Leases(msgspec.Struct, frozen=True, tag="leases"):
    """As Hosts."""

    after: str
    documents: tuple[LeaseDocument, ...]
    next: str = ""


class SharesAre(msgspec.Struct, frozen=True, tag="shares_are"):
    """As Hosts, with all capacities in each part."""

    after: str
    capacities: tuple[CapacityRow, ...]
    rows: tuple[ShareRow, ...]
    next: str = ""


Looked: TypeAlias = Hosts | Leases | SharesAre
CODEC.register("looking at a location", GetHosts | GetLeases | GetShares | Looked)


def part_of(names: Iterable[Name], row: Callable[[Name], Row], after: str) -> tuple[tuple[Row, ...], str]:
    """The rows that come after that name, as many as fit, and the `next` of the answer."""
    mark = tuple(after.split(SEPARATOR))
    found = nsmallest(PART_ROWS_MAX + 1, (name for name in names if name > mark))
    rows: list[Row] = []
    size = 0
    for place, name in enumerate(found):
        made = row(name)
        size += len(msgspec.msgpack.encode(made))
        if rows and (size > PART_BYTES_MAX or len(rows) == PART_ROWS_MAX):
            return tuple(rows), SEPARATOR.join(found[place - 1])
        rows.append(made)
    return tuple(rows), ""


def leases_part(leases: Iterable[str], document: Callable[[str], LeaseDocument], after: str) -> Leases:
    """Of these leases, by id."""
    shown, more = part_of(((lease,) for lease in leases), lambda name: document(name[0]), after)
    return Leases(after, shown, more)

"""How long after somebody's death the books showed his units as free, or as somebody else's."""

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from chaos.books import Entry

Unit = tuple[str, str]


class Death(NamedTuple):
    """A host or its node ended at `at`; its node served again at `back` (None: not seen)."""

    host: str
    at: int
    back: int | None
    with_clients: bool
    """Its clients died with it."""


class Trouble(NamedTuple):
    """From `start` to `end` a host's node was dead, stopped, or cut off: its part of a measurement says nothing."""

    host: str
    start: int
    end: int


@dataclass(slots=True)
class Had:
    """What one lease had, of whose host, until when its holder believed in it."""

    lease: str
    host: str
    units: dict[Unit, int]
    """Fence of each."""
    ttl: int
    since: int
    until: int


@dataclass(slots=True)
class Reclaims:
    """In parts of the ttl of each lease."""

    after_client_hosts: list[float] = field(default_factory=list[float])
    """From the death of the holder's host."""
    after_pool_hosts: list[float] = field(default_factory=list[float])
    """From when the pool's node served again."""
    late: list[str] = field(default_factory=list[str])

    def add(self, to: list[float], part: float, most: float, text: str) -> None:
        to.append(part)
        if part > most:
            self.late.append(f"{text}: {part:.2f} ttl, at most {most:g}")


def leases_of(histories: Iterable[Path], host_of: Mapping[str, str]) -> list[Had]:
    """All leases of the clients' histories; a belief ends with its release, its loss, its client, or its last deadline."""
    lines = [
        json.loads(line)
        for path in histories
        for line in path.read_bytes().splitlines(True)
        if line[-1:] == b"\n"
    ]
    client_of = {line["claim"]: line["client"] for line in lines if line["t"] == "claim"}
    crashed = {line["client"]: line["at"] for line in lines if line["t"] == "crash"}
    found: dict[str, Had] = {}
    ends: dict[str, int] = {}
    for line in lines:
        if line["t"] == "grant" and line.get("lease") and line["claim"] in client_of:
            client = client_of[line["claim"]]
            ends[line["lease"]] = min(
                ends.get(line["lease"], crashed.get(client, 1 << 62)), crashed.get(client, 1 << 62)
            )
            found[line["lease"]] = _had(line, host_of[client])
    for line in lines:
        lease = line.get("lease")
        if lease in found and line["t"] == "renew" and line["ok"]:
            found[lease].until = max(found[lease].until, line["valid_until"])
        elif lease in found and line["t"] in {"release", "lost"}:
            ends[lease] = min(ends[lease], line.get("call", line.get("at")))
    for lease, had in found.items():
        had.until = min(had.until, ends[lease])
    return list(found.values())


def _had(grant: Mapping[str, Any], host: str) -> Had:
    units = {(unit["pool"], unit["unit"]): unit["fence"] for unit in grant["units"]}
    return Had(grant["lease"], host, units, grant["ttl"], grant["at"], grant["valid_until"])


def measure(
    leases: Sequence[Had],
    entries: Mapping[Unit, Sequence[Entry]],
    deaths: Sequence[Death],
    troubles: Sequence[Trouble],
    *,
    most_client: float,
    most_pool: float,
) -> Reclaims:
    """Only what was held at a death, on another host than the holder's; only where nothing else was in the way."""
    found = Reclaims()
    for death in deaths:
        for had in leases:
            if not had.since <= death.at <= had.until:
                continue
            for unit, fence in had.units.items():
                owner = unit[1].rpartition("@")[2]
                if had.host == death.host != owner and death.with_clients:
                    _after_client(found, entries, troubles, death, had, unit, fence, owner, most_client)
                elif owner == death.host != had.host and death.back is not None and had.until <= death.back:
                    _after_pool(found, entries, troubles, death.back, had, unit, fence, owner, most_pool)
    return found


def _after_client(
    found: Reclaims,
    entries: Mapping[Unit, Sequence[Entry]],
    troubles: Sequence[Trouble],
    death: Death,
    had: Had,
    unit: Unit,
    fence: int,
    owner: str,
    most: float,
) -> None:
    if _troubled(troubles, owner, death.at - had.ttl, death.at + int(most * had.ttl)):
        return
    free = _freed(entries.get(unit, ()), death.at, fence)
    if free is not None:
        part = (free - death.at) / had.ttl
        text = f"{'/'.join(unit)} of lease {had.lease} after the death of {death.host}"
        found.add(found.after_client_hosts, part, most, text)


def _after_pool(
    found: Reclaims,
    entries: Mapping[Unit, Sequence[Entry]],
    troubles: Sequence[Trouble],
    back: int,
    had: Had,
    unit: Unit,
    fence: int,
    owner: str,
    most: float,
) -> None:
    if _troubled(troubles, owner, back + 1, back + int(most * had.ttl)):
        return
    free = _freed(entries.get(unit, ()), back, fence)
    if free is not None:
        part = (free - back) / had.ttl
        text = f"{'/'.join(unit)} of lease {had.lease} of {had.host} after its node was back"
        found.add(found.after_pool_hosts, part, most, text)


def _troubled(troubles: Sequence[Trouble], host: str, first: int, last: int) -> bool:
    return any(one.host == host and one.start < last and first < one.end for one in troubles)


def _freed(entries: Sequence[Entry], at: int, fence: int) -> int | None:
    """The first moment from `at` on at which the books no longer showed it given under this number."""
    index = max(0, bisect_right(entries, (at, True, 1 << 62)) - 1)
    for entry in entries[index:]:
        if entry.fence > fence or not entry.is_given:
            return max(at, entry.at)
    return None

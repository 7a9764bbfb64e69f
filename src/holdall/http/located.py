"""What the node tells about locations: one question and its answer, and whole listings that all who look share."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import msgspec

from holdall.http.callers import Caller
from holdall.http.problems import Problem
from holdall.http.reading import Reading, Shared
from holdall.http.speaking import Talk
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.errors import HoldallError, NeverSatisfiable, Unreachable
from holdall.model.location_rows import HostRow
from holdall.model.terms import LeaseDocument
from holdall.node.front import FrontOrders

KINDS_MAX = 64
HOSTS_AT_ONCE = 32
PARTS_MAX = 10_000
"""Of one listing; each has rows of its own, so this ends only what would never end."""
Wanted = TypeVar("Wanted", bound=f.ToClient)
Told = TypeVar("Told")
Unheard = tuple[frames.NotAsked, ...]


class Leases(msgspec.Struct, frozen=True):
    """All of a location, and the hosts that did not tell what theirs have used."""

    documents: tuple[LeaseDocument, ...]
    unheard: Unheard


class Shares(msgspec.Struct, frozen=True):
    """Of each host that answered; the parts of one host's answer are apart."""

    parts: tuple[f.SharesAre, ...]
    unheard: Unheard


async def negotiate(talk: Talk, question: f.FromClient) -> f.ToClient:
    """One question and its answer. Raises HoldallError as the node does."""
    answer = await talk.ask(frames.Negotiate(talk.number(), f.pack(question)))
    if not isinstance(answer, frames.Negotiated):
        raise Unreachable("the node gave an unexpected answer", definite=False)
    try:
        return f.read_answer(answer.body)
    except msgspec.DecodeError as error:
        raise Unreachable(f"the node gave an unexpected answer ({error})", definite=False) from error


async def ask_for(orders: FrontOrders, caller: Caller, question: f.FromClient) -> f.ToClient:
    """The same in a caller's name, over a connection of its own. Raises Problem when he is nobody."""
    if caller.uid is None:
        raise Problem("unauthorized", "leases need somebody who has them")
    talk = await Talk.open(orders.socket, for_uid=caller.uid, agent=f"{caller.user}@{orders.node}")
    try:
        return await negotiate(talk, question)
    finally:
        talk.close()


async def expect(talk: Talk, question: f.FromClient, kind: type[Wanted]) -> Wanted:
    """An answer of which there is one kind only."""
    answer = await negotiate(talk, question)
    if not isinstance(answer, kind):
        raise Unreachable("the node gave an unexpected answer", definite=False)
    return answer


class Located:
    """Over the connection of `Reading`, whose rule holds here too: requests that come together share an answer."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._shared: dict[tuple[str, str], Shared[Any]] = {}

    async def locations(self) -> tuple[f.LocationRow, ...]:
        """All that the node's directory knows. Raises HoldallError, as all of these."""

        async def ask() -> tuple[f.LocationRow, ...]:
            return (await expect(await self._reading.talk(), f.ListLocations(), f.Locations)).rows

        return await self._share("locations", "", ask)

    async def location(self, name: str) -> f.LocationRow:
        """One of them. Raises NeverSatisfiable when there is none."""
        rows = await self.locations()
        for row in rows:
            if row.location == name:
                return row
        known = ", ".join(row.location for row in rows) or "none"
        raise NeverSatisfiable(f"no location {name[:64]!r} is known (known: {known}). See: GET /v1/locations")

    async def templates(self, location: str) -> f.TemplatesAre:
        """What may be asked there."""

        async def ask() -> f.TemplatesAre:
            return await expect(await self._reading.talk(), f.AskTemplates(location), f.TemplatesAre)

        return await self._share("templates", location, ask)

    async def hosts(self, location: str) -> tuple[str, tuple[HostRow, ...]]:
        """The manager, and the hosts that it knows."""

        async def ask() -> tuple[str, tuple[HostRow, ...]]:
            parts = await self._parts(lambda after: f.AskHosts(location, after), f.HostsAre)
            return parts[0].manager, tuple(row for part in parts for row in part.rows)

        return await self._share("hosts", location, ask)

    async def index(self, location: str) -> tuple[LeaseDocument, ...]:
        """All leases as the manager knows them; what they have used may be old."""

        async def ask() -> tuple[LeaseDocument, ...]:
            return await self._documents(location, "")

        return await self._share("index", location, ask)

    async def leases(self, location: str) -> Leases:
        """All leases; those of hosts that answer as these know them, with what they have used by now."""

        async def ask() -> Leases:
            _, hosts = await self.hosts(location)
            index, (told, unheard) = await asyncio.gather(
                self.index(location), self._of_hosts(hosts, lambda host: self._documents(location, host))
            )
            silent = {one.node for one in unheard}
            found = {
                one.lease: msgspec.structs.replace(one, host_reachable=one.host not in silent)
                for one in index
            }
            for own in (one for documents in told for one in documents):
                if own.lease not in found or own.revision >= found[own.lease].revision:
                    found[own.lease] = own
            return Leases(tuple(found.values()), unheard)

        return await self._share("leases", location, ask)

    async def shares(self, location: str) -> Shares:
        """How the capacities of all hosts are divided, as these know it."""

        async def of_host(host: str) -> list[f.SharesAre]:
            return await self._parts(lambda after: f.AskShares(location, host, after), f.SharesAre)

        async def ask() -> Shares:
            _, hosts = await self.hosts(location)
            told, unheard = await self._of_hosts(hosts, of_host)
            return Shares(tuple(part for parts in told for part in parts), unheard)

        return await self._share("shares", location, ask)

    # ------------------------------------------------------------ inside

    async def _share(self, what: str, location: str, ask: Callable[[], Awaitable[Told]]) -> Told:
        shared = self._shared.get((what, location))
        if shared is None:
            while len(self._shared) >= KINDS_MAX:
                self._shared.pop(next(iter(self._shared)))
            shared = self._shared[what, location] = Shared(ask)
        told: Told = await shared.get()
        return told

    async def _documents(self, location: str, host: str) -> tuple[LeaseDocument, ...]:
        parts = await self._parts(lambda after: f.AskLeases(location, host, after), f.AllLeasesAre)
        return tuple(one for part in parts for one in part.documents)

    async def _parts(
        self, question: Callable[[str], f.AskHosts | f.AskLeases | f.AskShares], kind: type[Any]
    ) -> list[Any]:
        talk = await self._reading.talk()
        parts: list[Any] = []
        after = ""
        while len(parts) < PARTS_MAX:
            parts.append(await expect(talk, question(after), kind))
            after = parts[-1].next
            if not after:
                break
        return parts

    async def _of_hosts(
        self, hosts: Iterable[HostRow], ask: Callable[[str], Awaitable[Told]]
    ) -> tuple[list[Told], Unheard]:
        """What those say that are there, and who did not answer."""
        turn = asyncio.Semaphore(HOSTS_AT_ONCE)
        told: list[Told] = []
        unheard: list[frames.NotAsked] = []

        async def one(row: HostRow) -> None:
            if row.presence != "live":
                unheard.append(frames.NotAsked(row.host, f"the host is {row.presence}"))
                return
            async with turn:
                try:
                    told.append(await ask(row.host))
                except HoldallError as error:
                    unheard.append(frames.NotAsked(row.host, error.text))

        await asyncio.gather(*(one(row) for row in hosts))
        return told, tuple(sorted(unheard))

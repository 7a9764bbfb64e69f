"""The asyncio face of locations: `offer = await hub.location("prague").request({"net.tx": "50KiB/s"})`."""

import asyncio
import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

from holdall.client.gate import Gate, taker_of
from holdall.client.link import Link
from holdall.client.location_tenure import LeaseFace, NegotiatedTenure, expected, problem, read, taken
from holdall.client.location_words import Amount, before_end_of, new_request, renewal_of, together, wait_ms_of
from holdall.client.splitting import new_split
from holdall.guardian.clock import boottime_ms
from holdall.model import location_frames as f
from holdall.model.errors import LeaseLost
from holdall.model.terms import LeaseDocument, LeaseRequest, Template


class Location:
    """One location, as the hub's node reaches it."""

    def __init__(self, link: Link, name: str) -> None:
        self._link = link
        self.name = name

    async def templates(self) -> tuple[Template, ...]:
        """What may be asked there. Raises NeverSatisfiable (no such location), Unreachable."""
        return expected(await ask(self._link, f.AskTemplates(self.name)), f.TemplatesAre).templates

    async def request(
        self,
        terms: Mapping[str, Amount],
        *,
        duration: float | str | None = None,
        floors: Mapping[str, int | str] | None = None,
        weights: Mapping[str, int | str] | None = None,
        template: str | None = None,
        replaces: "NegotiatedLease | str | None" = None,
        wait: float | str | None = None,
        before_end: float | str | None = None,
    ) -> "Offer":
        """Ask for an offer, which binds the location for a few seconds; `await offer.accept()` makes it a lease.

        Amounts are base units, or text with a unit (`"50KiB/s"`); functions are True or words. `floors`: less is of no use.
        `wait`: stand in line for so long, an hour at most, where nothing can be offered now.
        `before_end`: so long before the lease ends, unless it is renewed, its `ending` is set.
        Raises BadSpec, NeverSatisfiable (no host supports it), NotGranted (not now), Refused (policy).
        """
        made = new_request(
            terms,
            duration=duration,
            floors=floors,
            weights=weights,
            template=template,
            replaces=replaces.id if isinstance(replaces, LeaseFace) else replaces,
            wait=wait,
            before_end=before_end_of(before_end),
        )
        answer = await ask(self._link, f.AskOffer(self.name, made))
        if isinstance(answer, f.OfferIs):
            return Offer(self._link, answer)
        raise problem(answer, self.name)

    def lease(
        self,
        terms: Mapping[str, Amount],
        *,
        duration: float | str | None = None,
        floors: Mapping[str, int | str] | None = None,
        weights: Mapping[str, int | str] | None = None,
        template: str | None = None,
        wait: float | str | None = None,
        before_end: float | str | None = None,
        on_loss: Literal["cancel", "event"] = "cancel",
    ) -> "Taking":
        """As `request`, and the offer is taken at once: `async with location.lease({…}) as lease`."""
        made = new_request(
            terms,
            duration=duration,
            floors=floors,
            weights=weights,
            template=template,
            wait=wait,
            before_end=before_end_of(before_end),
        )
        return Taking(self._link, self.name, made, on_loss)

    async def attach(
        self, lease: str, *, duration: float | str, on_loss: Literal["cancel", "event"] = "cancel"
    ) -> "NegotiatedLease":
        """A lease that is this user's: a part that he was given, or one of before a restart of the node. It is renewed for `duration`.

        Raises NotHolder, NotGranted, Refused.
        """
        question, asked_ms = renewal_of(lease, self.name, duration), boottime_ms()
        return _leased(self._link, await ask(self._link, question), asked_ms, self.name, on_loss)

    async def lease_all(
        self,
        parts: Sequence[Mapping[str, Amount]],
        *,
        duration: float | str | None = None,
        on_loss: Literal["cancel", "event"] = "event",
    ) -> "list[NegotiatedLease]":
        """A lease for each part, perhaps on several hosts: all of them, or none and the error of one that is not to be had."""
        question = together(self.name, parts, duration)
        asked_ms = boottime_ms()
        answer = await ask(self._link, question)
        if not isinstance(answer, f.LeasesAre):
            raise problem(answer, self.name)
        return [_leased(self._link, one, asked_ms, self.name, on_loss) for one in answer.leases]


class Taking:
    """A lease that is asked for when it is awaited or its `async with` begins."""

    def __init__(
        self, link: Link, location: str, request: LeaseRequest, on_loss: Literal["cancel", "event"]
    ) -> None:
        self._link, self._location, self._request = link, location, request
        self._on_loss: Literal["cancel", "event"] = on_loss
        self._lease: NegotiatedLease | None = None

    def __await__(self) -> "Generator[Any, None, NegotiatedLease]":
        return self._take().__await__()

    async def _take(self) -> "NegotiatedLease":
        asked_ms = boottime_ms()
        answer = await ask(self._link, f.AskOffer(self._location, self._request, take=True))
        return _leased(self._link, answer, asked_ms, self._location, self._on_loss)

    async def __aenter__(self) -> "NegotiatedLease":
        self._lease = await self._take()
        return await self._lease.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            await self._lease.__aexit__(kind, value, trace)


class Offer:
    """What a location would give. Not accepted in time it is over, and grants nothing."""

    def __init__(self, link: Link, offer: f.OfferIs) -> None:
        self._link = link
        self.document: LeaseDocument = offer.document
        self.offer_ms = offer.offer_ms
        """It was binding for so long when it came."""

    async def accept(self, *, on_loss: Literal["cancel", "event"] = "cancel") -> "NegotiatedLease":
        """The lease. Raises NotGranted when the offer is over."""
        asked_ms = boottime_ms()
        answer = await ask(self._link, f.AcceptOffer(self.document.lease))
        return _leased(self._link, answer, asked_ms, self.document.location, on_loss)

    async def decline(self) -> None:
        """What it held is free at once."""
        await ask(self._link, f.DeclineOffer(self.document.lease))


class NegotiatedLease(LeaseFace):
    """A lease that is renewed until it is released or lost; `async with` releases it at the end of the body."""

    def __init__(self, link: Link, tenure: NegotiatedTenure, on_loss: Literal["cancel", "event"]) -> None:
        super().__init__(link, tenure)
        self._on_loss = on_loss
        self._loop = asyncio.get_running_loop()
        self._body: asyncio.Task[Any] | None = None
        self._struck = False
        self.lost = asyncio.Event()
        """Set when the lease is lost."""
        self.ending = asyncio.Event()
        """Set so long before its end as `before_end` says; cleared when a renewal has come after all."""
        tenure.listen(self._hear)
        tenure.listen_before_end(
            lambda: self._in_loop(self.ending.set), lambda: self._in_loop(self.ending.clear)
        )

    async def renew(self, duration: float | str | None = None) -> None:
        """Ask for its renewal now, perhaps for another duration. Raises NotGranted, Refused; it goes on as it was then."""
        question, asked_ms = self._renewal(duration), boottime_ms()
        self._renewed(await ask(self._link, question), asked_ms)

    def gate(self, term: str = "") -> Gate:
        """For sending at the rate of this term, in bytes per second; empty: of its only rate. Raises BadSpec for any other term, LeaseLost."""
        return Gate(self._tenure, taker_of(self._link, self._tenure, term))

    async def split(self, terms: Mapping[str, int | str], *, to: str, request: str = "") -> LeaseDocument:
        """Amounts of its capacities become a lease of `to` (`user@node`), which ends with this one unless it is renewed there.

        `request`: its id; the same again is the same split. Raises BadSpec, Refused (policy), LeaseLost; nothing has changed then.
        """
        self.check()
        question, asked_ms = new_split(self.id, terms, to, request), boottime_ms()
        part, looks = self._parted(await ask(self._link, question), asked_ms)
        if looks:
            await asyncio.to_thread(self._look)
        return part

    async def release(self) -> None:
        """Give it back. Again, and after its loss, does no harm."""
        if self._give_back():
            await asyncio.shield(ask(self._link, f.EndLease(self.id)))

    async def __aenter__(self) -> Self:
        self.check()
        self._body = asyncio.current_task()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        del value, trace
        body, self._body = self._body, None
        loss = self._tenure.loss
        await self.release()
        if self._struck and body is not None:
            body.uncancel()
        if loss is not None and (kind is None or (self._struck and kind is asyncio.CancelledError)):
            raise loss from None

    def _hear(self, loss: LeaseLost) -> None:
        del loss
        self._in_loop(self._lose)

    def _in_loop(self, what: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # that loop has ended
            self._loop.call_soon_threadsafe(what)

    def _lose(self) -> None:
        self.lost.set()
        if self._on_loss == "cancel" and self._body is not None and not self._struck:
            self._struck = True
            self._body.cancel()


async def ask(link: Link, question: f.FromClient) -> f.ToClient:
    """One question to the node."""
    return read(
        await asyncio.wrap_future(link.negotiate(f.pack(question), wait_ms=wait_ms_of(question)).future)
    )


def _leased(
    link: Link, answer: f.ToClient, asked_ms: int, location: str, on_loss: Literal["cancel", "event"]
) -> NegotiatedLease:
    return NegotiatedLease(link, taken(link, answer, asked_ms, location), on_loss)

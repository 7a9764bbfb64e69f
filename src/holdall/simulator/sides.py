"""Hosts with pools: a protocol's manager behind the shipped lease book, with an answer to renewals."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Protocol, Self, cast, get_args

from holdall.leases.book import LeaseBook
from holdall.leases.messages import PoolSpec
from holdall.leases.records import PREFIX
from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    Effect,
    Event,
    ProtocolViolation,
    Received,
    Record,
    Send,
    TimerFired,
)
from holdall.parties.pool_side import PoolSide
from holdall.protocols.hooks import Effects
from holdall.protocols.ordered.manager import Manager as OrderedManager
from holdall.protocols.ordered.messages import ToManager
from holdall.protocols.vocabulary import ClaimId
from holdall.simulator.renewals import Alive, AliveOk

_TO_ORDERED: tuple[type, ...] = get_args(ToManager)


def specs_of(pools: Mapping[str, int]) -> tuple[PoolSpec, ...]:
    """Pools with units `u0`, `u1`, …, and no commands."""
    return tuple(
        PoolSpec(pool, pool, units=tuple(f"u{number}" for number in range(units)))
        for pool, units in sorted(pools.items())
    )


class Guard(Protocol):
    """A manager, as far as renewals are concerned."""

    def departed(self, claim: ClaimId, out: Effects, reason: str = "expired") -> None:
        """The claim is over here."""
        ...


def answer(sender: Address, alive: Alive, book: LeaseBook, guard: Guard, here: Iterable[ClaimId]) -> Effects:
    """A host lives: its leases here live on, and it hears which of them there are; what it does not list ends."""
    out: Effects = []
    book.heard(sender.node, out)
    mine = {claim for claim in here if claim.node == sender.node}
    inside = tuple(claim for claim in alive.inside if claim in mine)
    missing = tuple(claim for claim in alive.inside if claim not in mine)
    out.append(Send(sender, AliveOk(alive.count, inside, missing)))
    for claim in sorted(mine.difference(alive.inside, alive.others)):
        if alive.newest is not None and claim <= alive.newest:
            guard.departed(claim, out, "not listed")
    return out


class ChainSide(PoolSide):
    """The shipped pool's side, with an answer to Alive."""

    def handle(self, event: Event) -> list[Effect]:
        """As the pool's side, and Alive."""
        match event:
            case Received(sender, Alive() as alive):
                return answer(sender, alive, self.book, self.manager, tuple(self.manager.rows))
            case _:
                return super().handle(event)


class OrderedSide:
    """The manager of ordered locking and a lease book, joined by plain calls."""

    def __init__(self, node: str, pools: Mapping[str, int], *, watch_peers: bool) -> None:
        self.node = node
        self.book = LeaseBook(node, specs_of(pools), watch_peers=watch_peers)
        self.manager = OrderedManager(node, 1, self.book)
        self.book.guard = self.manager

    def start(self) -> Sequence[Effect]:
        """Nothing is kept."""
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """The book first, then the locks."""
        out: Effects = []
        self.book.recover(records, out)
        self.manager.recover(records, cast("Boot", records[BOOT_KEY]), out)
        return out

    def handle(self, event: Event) -> Sequence[Effect]:
        """One event for the book or for the protocol."""
        out: Effects = []
        match event:
            case TimerFired(timer) if timer.startswith(PREFIX):
                self.book.fired(timer, out)
            case TimerFired(timer):
                self.manager.fired(timer, out)
            case Received(sender, Alive() as alive):
                return answer(
                    sender, alive, self.book, self.manager, tuple(claim for claim, _ in self.manager.locks)
                )
            case Received(sender, message):
                if not isinstance(message, _TO_ORDERED):
                    raise ProtocolViolation(f"{type(message).__name__} is no message for a pool's side")
                if sender.node != self.node:
                    self.book.heard(sender.node, out)
                self.manager.receive(sender, cast("ToManager", message), out)
        return out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (self.manager.key(), self.book.key())

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.node = self.node
        twin.book = self.book.copy()
        twin.manager = self.manager.copy_with(twin.book)
        twin.book.guard = twin.manager
        return twin

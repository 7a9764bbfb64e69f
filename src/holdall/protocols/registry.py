"""The protocols by name: what makes their managers and claimants, and which messages a manager takes."""

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, Protocol, Self, TypeAlias, get_args

import msgspec

from holdall.machine.contract import Address, Boot, Machine, Record
from holdall.protocols.chain.claimant import Claimant as ChainClaimant
from holdall.protocols.chain.manager import Manager as ChainManager
from holdall.protocols.chain.messages import ToManager as ChainToManager
from holdall.protocols.chain.settling import Settings as ChainSettings
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.ordered.claimant import Claimant as OrderedClaimant
from holdall.protocols.ordered.manager import Manager as OrderedManager
from holdall.protocols.ordered.messages import ToManager as OrderedToManager
from holdall.protocols.vocabulary import ClaimId


class PoolManager(Protocol):
    """A manager as whoever composes a pool's side sees it: a `PoolGuard` that takes messages and timers."""

    def receive(self, sender: Address, message: Any, out: Effects) -> None:
        """One message (of `ProtocolEntry.messages`) and its whole turn."""
        ...

    def fired(self, timer: str, out: Effects) -> bool:
        """A timer has run out. False: it is none of the manager's."""
        ...

    def clock_read(self, wall_ms: int) -> None:
        """What the wall clock shows."""
        ...

    def capacity_changed(self, out: Effects, pools: Collection[str] = ()) -> None:
        """As in `hooks.PoolGuard`."""
        ...

    def departed(self, claim: ClaimId, out: Effects, reason: str = "expired") -> None:
        """As in `hooks.PoolGuard`."""
        ...

    def recover(self, records: Mapping[str, Record], boot: Boot, out: Effects) -> None:
        """Come up from the records of earlier turns, after the book."""
        ...

    def key(self) -> Hashable:
        """Equal keys behave alike over equal books."""
        ...

    def copy_with(self, book: Book) -> Self:
        """An independent twin over a copied book."""
        ...


class Tuning(msgspec.Struct, frozen=True):
    """What protocols can be told; each takes what it knows."""

    passes: int = 8
    passes_per_ahead: int = 1
    try_from: int = 4
    """Claims over so many nodes or more try all of them at once first."""
    repeat_ms: int | None = None
    """Pause before a message is repeated, doubled up to `repeat_most_ms`; None: never."""
    repeat_most_ms: int | None = None


DEFAULT_TUNING = Tuning()

ManagerFactory: TypeAlias = Callable[[str, int, Book, Tuning], PoolManager]
"""(node, epoch, book, tuning)"""
ClaimantFactory: TypeAlias = Callable[[str, Address, Tuning], Machine]
"""(node, agent, tuning) -> the machine for part `claimant`."""


class ProtocolEntry(msgspec.Struct, frozen=True):
    """One protocol."""

    name: str
    manager: ManagerFactory
    claimant: ClaimantFactory
    messages: tuple[type, ...]
    """What a manager takes."""


class UnknownProtocolError(ValueError):
    """There is no protocol of this name."""


def protocol(name: str) -> ProtocolEntry:
    """The protocol of this name. Raises UnknownProtocolError, which names those that there are."""
    if name not in PROTOCOLS:
        raise UnknownProtocolError(f"no protocol {name!r}; there are: {', '.join(sorted(PROTOCOLS))}")
    return PROTOCOLS[name]


def _chain_manager(node: str, epoch: int, book: Book, tuning: Tuning) -> PoolManager:
    settings = ChainSettings(
        passes=tuning.passes,
        passes_per_ahead=tuning.passes_per_ahead,
        repeat_ms=tuning.repeat_ms,
        repeat_most_ms=tuning.repeat_most_ms,
    )
    return ChainManager(node, epoch, book, settings)


def _chain_claimant(node: str, agent: Address, tuning: Tuning) -> Machine:
    return ChainClaimant(
        node,
        agent,
        try_from=tuning.try_from,
        repeat_ms=tuning.repeat_ms,
        repeat_most_ms=tuning.repeat_most_ms,
    )


def _ordered_manager(node: str, epoch: int, book: Book, tuning: Tuning) -> PoolManager:
    del tuning
    return OrderedManager(node, epoch, book)


def _ordered_claimant(node: str, agent: Address, tuning: Tuning) -> Machine:
    return OrderedClaimant(node, agent, again_ms=tuning.repeat_ms)


PROTOCOLS: dict[str, ProtocolEntry] = {
    entry.name: entry
    for entry in (
        ProtocolEntry("chain", _chain_manager, _chain_claimant, get_args(ChainToManager)),
        ProtocolEntry("ordered", _ordered_manager, _ordered_claimant, get_args(OrderedToManager)),
    )
}

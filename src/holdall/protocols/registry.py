"""The protocols by name: what makes their managers and claimants."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from holdall.machine.contract import Address, Machine
from holdall.protocols.chain.alone import ManagerAlone
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.settling import Settings

Capacities: TypeAlias = Mapping[str, int]
"""Pool -> units, on one node."""


class Tuning(msgspec.Struct, frozen=True):
    """What every protocol may be told; one that has no such thing leaves it aside.

    `repeat_ms` None: messages are never repeated, for a network that loses nothing.
    """

    passes: int = 8
    passes_per_ahead: int = 1
    repeat_ms: int | None = None
    repeat_most_ms: int | None = None
    try_from: int = 4
    """Claims over so many nodes or more try all of them at once first."""
    tell_stamp: bool = True


DEFAULT_TUNING = Tuning()

ManagerFactory: TypeAlias = Callable[[str, Capacities, Tuning], Machine]
"""(node, capacities, tuning) -> the machine for part `manager` with a book that only counts."""
ClaimantFactory: TypeAlias = Callable[[str, Address, Tuning], Machine]
"""(node, agent, tuning) -> the machine for part `claimant`."""


class ProtocolEntry(msgspec.Struct, frozen=True):
    """One protocol."""

    name: str
    manager: ManagerFactory
    claimant: ClaimantFactory


def _chain_manager(node: str, capacities: Capacities, tuning: Tuning) -> Machine:
    settings = Settings(
        passes=tuning.passes,
        passes_per_ahead=tuning.passes_per_ahead,
        repeat_ms=tuning.repeat_ms,
        repeat_most_ms=tuning.repeat_most_ms,
        tell_stamp=tuning.tell_stamp,
    )
    return ManagerAlone(node, capacities, settings=settings)


def _chain_claimant(node: str, agent: Address, tuning: Tuning) -> Machine:
    return Claimant(
        node,
        agent,
        try_from=tuning.try_from,
        repeat_ms=tuning.repeat_ms,
        repeat_most_ms=tuning.repeat_most_ms,
    )


PROTOCOLS: dict[str, ProtocolEntry] = {
    "chain": ProtocolEntry("chain", _chain_manager, _chain_claimant),
}


class UnknownProtocolError(ValueError):
    """There is no protocol of this name."""


def protocol(name: str) -> ProtocolEntry:
    """The protocol of this name. Raises UnknownProtocolError, which names those that there are."""
    if name not in PROTOCOLS:
        raise UnknownProtocolError(f"no protocol {name!r}; there are: {', '.join(sorted(PROTOCOLS))}")
    return PROTOCOLS[name]

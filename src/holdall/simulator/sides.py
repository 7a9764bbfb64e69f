"""What joins the machines of one host in a run: pools with plain units, and the sides of a protocol by pool."""

from collections.abc import Mapping
from typing import Any, cast

from holdall.leases.messages import PoolSpec
from holdall.machine.contract import Address
from holdall.parties.by_pool.claims import ClaimsByPool
from holdall.parties.by_pool.pools import PoolsByPool
from holdall.protocols.by_pool.claimant import Claimant
from holdall.protocols.by_pool.manager import Manager
from holdall.protocols.hooks import Book
from holdall.protocols.registry import DEFAULT_TUNING, Tuning, protocol

AGENT = "agent"


def specs_of(pools: Mapping[str, int]) -> tuple[PoolSpec, ...]:
    """Pools with units `u0`, `u1`, …, and no commands."""
    return tuple(
        PoolSpec(pool, pool, units=tuple(f"u{number}" for number in range(units)))
        for pool, units in sorted(pools.items())
    )


def pools_side(
    name: str, node: str, pools: Mapping[str, int], *, watch_peers: bool, tuning: Tuning = DEFAULT_TUNING
) -> PoolsByPool:
    """The machine `manager` of a node under the protocol `name`, which asks each pool apart."""
    entry = protocol(name)

    def make(book: Book) -> Manager[Any]:
        return cast("Manager[Any]", entry.manager(node, 1, book, tuning))

    return PoolsByPool(
        node, specs_of(pools), make, entry.messages, between=entry.between, watch_peers=watch_peers
    )


def claims_side(name: str, node: str, tuning: Tuning = DEFAULT_TUNING) -> ClaimsByPool:
    """The machine `claimant` of a host under the protocol `name`, with the renewal of its claims."""
    claimant = protocol(name).claimant(node, Address(node, AGENT), tuning)
    return ClaimsByPool(cast("Claimant[Any]", claimant))

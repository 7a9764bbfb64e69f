"""Which view reads which pool's side: the chain's, or that of a protocol by pool."""

from typing import TypeAlias

from holdall.parties.by_pool.lines import PoolsByPoolView
from holdall.parties.by_pool.pools import PoolsByPool
from holdall.parties.lines import PoolSideView
from holdall.parties.pool_side import PoolSide

AnySide: TypeAlias = PoolSide | PoolsByPool
AnyView: TypeAlias = PoolSideView | PoolsByPoolView


def view_of(side: AnySide) -> AnyView:
    """What an agent and a directory read of this side."""
    return PoolSideView(side) if isinstance(side, PoolSide) else PoolsByPoolView(side)

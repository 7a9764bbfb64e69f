"""What the clients of a run want: pools on nodes, and a closed loop of claims, holds and thinking times.

Each client draws from a generator of its own, so every protocol meets the same claims, holds and pauses. Times
are in mean message delays. Source: common specification, section 4, and chain specification, section 10.
"""

import random
from typing import Literal, TypeAlias

import msgspec

from holdall.protocols.vocabulary import Visit

Load: TypeAlias = Literal["low", "medium", "saturated"]

THINK: dict[Load, float] = {"low": 30.0, "medium": 15.0, "saturated": 1.0}
"""Mean pause between the end of a client's lease and its next claim, by load."""
CLIENTS_PER_POOL: dict[Load, int] = {"low": 1, "medium": 2, "saturated": 3}
HOLD = 5.0
"""Mean time that a client holds what it got."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Pools `p000`, `p001`, … in blocks on `nodes` nodes `n000`, …; clients that claim for ever.

    `local` is the share of claims that lie on one node (of those with enough pools); with `wide` the first client
    wants every pool, and all others one each.
    """

    pools: int = 8
    k: int = 2
    """Pools of a claim."""
    units: int = 1
    """Units of a pool; with more than one a claim takes 1 to `units` of each of its pools."""
    load: Load = "medium"
    nodes: int = 1
    local: float | None = None
    wide: bool = False
    hold: float = HOLD
    think: float | None = None
    """None: by `load`."""
    clients: int | None = None
    """None: by `load` and the number of pools."""
    cancel_share: float = 0.0
    """Share of claims whose client gives up while waiting."""
    try_share: float = 0.0
    """Share of claims that do not wait."""

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= self.pools <= 1000 or not 1 <= self.k <= self.pools:
            raise ValueError(
                f"a workload needs 1 ≤ nodes ≤ pools ≤ 1000 and 1 ≤ k ≤ pools; "
                f"here nodes={self.nodes}, pools={self.pools}, k={self.k}"
            )
        if not 1 <= self.units <= 1000 or self.hold <= 0:
            raise ValueError("a workload needs 1 ≤ units ≤ 1000 and hold > 0")

    @property
    def think_mean(self) -> float:
        """Mean pause between claims, in message delays; a longer hold stretches the pause as well."""
        return self.think if self.think is not None else THINK[self.load] * self.hold / HOLD

    @property
    def client_count(self) -> int:
        """How many clients take part."""
        return self.clients if self.clients is not None else CLIENTS_PER_POOL[self.load] * self.pools

    def node_of(self, pool: int) -> int:
        """Pools lie on the nodes in blocks."""
        return pool * self.nodes // self.pools

    def node_name(self, node: int) -> str:
        """`n000` and so on: names in the order of the numbers, since nodes are visited in the order of their names."""
        return f"n{node:03d}"

    def pool_name(self, pool: int) -> str:
        """`p000`, `p001` and so on."""
        return f"p{pool:03d}"

    def pools_on(self, name: str) -> dict[str, int]:
        """Pool -> units of the node with this name; empty for the name of a client."""
        return {
            self.pool_name(pool): self.units
            for pool in range(self.pools)
            if self.node_name(self.node_of(pool)) == name
        }

    def node_names(self) -> tuple[str, ...]:
        """All nodes that have pools."""
        return tuple(self.node_name(node) for node in range(self.nodes))


class Wish(msgspec.Struct, frozen=True):
    """What a client does next: pause, claim, and hold what it gets."""

    think: float
    need: tuple[Visit, ...]
    hold: float
    wait: bool = True
    patience: float | None = None
    """Give up after so long without a grant."""


class Client:
    """One client's endless series of wishes."""

    def __init__(self, workload: Workload, number: int, seed: int) -> None:
        self.workload = workload
        self.number = number
        self._rng = random.Random(f"holdall client {seed} {number}")
        blocks: dict[int, list[int]] = {}
        for pool in range(workload.pools):
            blocks.setdefault(workload.node_of(pool), []).append(pool)
        self._place = [
            (workload.node_name(workload.node_of(pool)), workload.pool_name(pool))
            for pool in range(workload.pools)
        ]
        self._blocks = [block for block in blocks.values() if len(block) >= workload.k]

    def next(self) -> Wish:
        """Draws are made in a fixed order, whatever becomes of the claim."""
        rng, workload = self._rng, self.workload
        think = rng.expovariate(1.0 / workload.think_mean)
        pools = self._pools()
        need = self._need(pools)
        hold = rng.expovariate(1.0 / workload.hold)
        wait, patience = True, None
        if workload.try_share and rng.random() < workload.try_share:
            wait = False
        if workload.cancel_share and rng.random() < workload.cancel_share:
            patience = rng.expovariate(1.0 / (4 * workload.hold))
        return Wish(think, need, hold, wait, patience)

    def _pools(self) -> list[int]:
        rng, workload = self._rng, self.workload
        if workload.wide:
            return list(range(workload.pools)) if self.number == 0 else [rng.randrange(workload.pools)]
        if workload.local is not None and self._blocks and rng.random() < workload.local:
            return sorted(rng.sample(rng.choice(self._blocks), workload.k))
        return sorted(rng.sample(range(workload.pools), workload.k))

    def _need(self, pools: list[int]) -> tuple[Visit, ...]:
        """Pools ascend, and with them their nodes: so do vectors and visits, as the vocabulary wants it."""
        units = self.workload.units
        vectors: dict[str, list[tuple[str, int]]] = {}
        for pool in pools:
            count = self._rng.randint(1, units) if units > 1 else 1
            node, name = self._place[pool]
            vectors.setdefault(node, []).append((name, count))
        return tuple(Visit(node, (tuple(vector),), 1) for node, vector in vectors.items())

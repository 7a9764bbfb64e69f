"""What a client of a whole node wants next: drawn from a generator of its own, whatever becomes of its claims."""

import random
from collections.abc import Iterable
from typing import Protocol

import msgspec

from holdall.model.frames import Need, Selector
from holdall.simulator.whole.setup import COMMON, WholeSetup, pool_of

HOLD_MOST = 3.0
"""No hold is longer than so many mean ones."""


class Wish(msgspec.Struct, frozen=True):
    """Pause, claim, use, give back. Times in ms of the client's clock."""

    think_ms: float
    needs: tuple[Need, ...]
    hold_ms: float
    now: bool = False
    wait_ms: int | None = None
    """How long the node may let it wait."""
    cancel_ms: float | None = None
    """When the client cancels, if it has nothing by then."""
    for_ms: int | None = None


class Series(Protocol):
    """What a client wants, one wish after the other."""

    ttl_ms: int

    def next(self) -> Wish:
        """The next one."""
        ...


NEVER_MS = 1e12


class Script:
    """Wishes that are written down; after the last one nothing is wanted."""

    def __init__(self, wishes: Iterable[Wish], *, ttl_ms: int) -> None:
        self.ttl_ms = ttl_ms
        self._wishes = iter(tuple(wishes))

    def next(self) -> Wish:
        """As `Series.next`."""
        return next(self._wishes, Wish(NEVER_MS, (), 0.0))


class Wishes:
    """One client's endless series."""

    def __init__(self, setup: WholeSetup, node: int, seat: int) -> None:
        self._setup = setup
        self._rng = random.Random(f"holdall whole client {setup.seed} {node} {seat}")
        reach = max(1, min(setup.wants.reach, setup.nodes))
        near = [(node + step) % setup.nodes for step in range(reach)]
        self.ttl_ms = setup.ttl_ms
        self._near = [pool_of(one, pool) for one in near for pool in range(setup.wants.pools)]
        self._wide = setup.wants.wide if (node, seat) == (0, 0) else 0

    def next(self) -> Wish:
        """All draws are made in a fixed order."""
        rng, wants = self._rng, self._setup.wants
        think = rng.expovariate(1.0 / wants.think_ms)
        hold = min(rng.expovariate(1.0 / wants.hold_ms), HOLD_MOST * wants.hold_ms)
        needs = self._needs()
        kind, patience, ends = rng.random(), rng.expovariate(1.0 / (4 * wants.hold_ms)), rng.random()
        if self._wide:
            return Wish(think, self._everything(), hold)
        now = kind < wants.now_share
        gives_up = not now and kind < wants.now_share + wants.give_up_share
        by_node = gives_up and patience * 1000 % 2 < 1
        return Wish(
            think_ms=think,
            needs=needs,
            hold_ms=hold,
            now=now,
            wait_ms=int(patience) + 1 if by_node else None,
            cancel_ms=patience if gives_up and not by_node else None,
            for_ms=int(hold * (0.5 + 2 * ends / wants.end_share)) + 200 if ends < wants.end_share else None,
        )

    def _needs(self) -> tuple[Need, ...]:
        rng, wants = self._rng, self._setup.wants
        k = rng.randint(1, min(wants.k, len(self._near)))
        pools = rng.sample(self._near, k)
        rest = [pool for pool in self._near if pool not in pools]
        needs: list[Need] = []
        for pool in pools:
            count = rng.randint(1, wants.units)
            options = [Selector((pool,), count=count)]
            if rng.random() < wants.or_share and rest:
                options.append(Selector((rest.pop(rng.randrange(len(rest))),), count=count))
            needs.append(Need(tuple(options)))
        if rng.random() < wants.common_share and wants.common:
            needs.append(Need((Selector((COMMON,)),)))
        return tuple(needs)

    def _everything(self) -> tuple[Need, ...]:
        wants = self._setup.wants
        return tuple(
            Need((Selector((pool_of(node, pool),), count=wants.units),))
            for node in range(self._wide)
            for pool in range(wants.pools)
        )

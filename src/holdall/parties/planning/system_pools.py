"""All pools that an agent knows, its own node's and its neighbours', as planning and explaining read them."""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from holdall.leases.messages import PoolSpec
from holdall.model.names import pool_name
from holdall.parties.neighbours import Neighbours, NodeState, PoolNews, RemotePool
from holdall.parties.planning.spreading import Spot
from holdall.parties.planning.ways import PoolFacts
from holdall.parties.views import PoolView

TIERS: dict[NodeState, int] = {"serving": 0, "quarantine": 1, "draining": 2, "silent": 2, "stopped": 2}
"""How planning prefers nodes: see `PoolFacts.tier`."""

ASKED_MS = 5000
"""So long an announcement may take that accounts for units which this node has asked for."""
ASKED_POOLS_MAX = 256


class Numbers(msgspec.Struct, frozen=True):
    """A pool in numbers; of another node as it announced them last."""

    total: int
    free: int
    unusable: int
    waiting: int
    own: bool

    @property
    def usable(self) -> int:
        """Free or held."""
        return self.total - self.unusable


class Reader(Protocol):
    """Whose eyes these are: an agent's state."""

    pools: PoolView
    neighbours: Neighbours

    @property
    def own(self) -> str:
        """The node's id."""
        ...

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    def is_shunned(self, node: str) -> bool:
        """Whether the node has said a moment ago that it gives nothing yet."""
        ...

    @property
    def now_ms(self) -> int:
        """By the boot clock."""
        ...


class SystemPools:
    """Asks the views each time; remembers only what the own node has asked others for of late."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._asked: dict[Spot, tuple[PoolNews, int, int]] = {}
        """Pool of another node -> (what it had announced, when it was asked then, for how many units)."""

    def own_facts(self, names: Iterable[str] | None = None) -> list[PoolFacts]:
        """The own node's pools of these names (None: all), by pool id. While it gives none, none is free."""
        reader = self._reader
        tier = self.tier_of(reader.own)
        return [
            msgspec.structs.replace(facts, at=reader.name, tier=tier, free=0 if tier else facts.free)
            for facts in reader.pools.facts(names)
        ]

    def other_facts(self, names: Iterable[str] | None = None) -> list[PoolFacts]:
        """Other nodes' pools of these names, by node id, then pool id. Of a node that gives none, none is free."""
        neighbours = self._reader.neighbours
        found: list[PoolFacts] = []
        for remote in neighbours.pools(names):
            news, tier = remote.news, self.tier_of(remote.node)
            found.append(
                PoolFacts(
                    pool=news.pool,
                    name=news.name,
                    labels=news.labels,
                    total=news.total,
                    free=max(0, news.free - self._asked_lately(remote)) if tier == 0 else 0,
                    node=remote.node,
                    at=neighbours.name_of(remote.node),
                    host_only=news.reach == "host",
                    tier=tier,
                )
            )
        return found

    def facts(self, names: Iterable[str] | None = None) -> list[PoolFacts]:
        """All of them, the own node's first."""
        wanted = None if names is None else list(names)
        return [*self.own_facts(wanted), *self.other_facts(wanted)]

    def tier_of(self, node: str) -> int:
        """0: it serves; 1: it does later; 2: draining, silent, stopped or unknown."""
        reader = self._reader
        if node == reader.own:
            return 2 if reader.pools.draining else 0 if reader.pools.granting else 1
        known = reader.neighbours.node(node)
        tier = 2 if known is None else TIERS[known.state]
        return max(tier, 1) if reader.is_shunned(node) else tier

    def is_untold(self) -> bool:
        """Whether there are nodes whose pools are not known yet, since this one has just started."""
        return not all(node.has_told for node in self._reader.neighbours.nodes())

    def epoch_of(self, node: str) -> int:
        """The manager's, as known here."""
        if node == self._reader.own:
            return self._reader.pools.epoch
        known = self._reader.neighbours.node(node)
        return 0 if known is None else known.epoch

    def spec(self, spot: Spot) -> PoolSpec | None:
        """How a pool of the own node is configured."""
        return self._reader.pools.spec(spot[1]) if spot[0] == self._reader.own else None

    def news(self, spot: Spot) -> PoolNews | None:
        """What another node has told of a pool."""
        found = self._reader.neighbours.pools([pool_name(spot[1])])
        return next((one.news for one in found if (one.node, one.news.pool) == spot), None)

    def max_for_ms(self, spot: Spot) -> int | None:
        """The longest that a lease of it may last."""
        known = self.spec(spot) if spot[0] == self._reader.own else self.news(spot)
        return None if known is None else known.max_for_ms

    def prepares(self, spot: Spot) -> bool:
        """Whether its units are prepared (on_grant) before the holder is told."""
        if spot[0] == self._reader.own:
            spec = self.spec(spot)
            return spec is not None and bool(spec.on_grant)
        news = self.news(spot)
        return news is not None and news.prepares

    def numbers(self, spot: Spot) -> Numbers | None:
        """The pool in numbers; None: it is not known."""
        if spot[0] == self._reader.own:
            counts = self._reader.pools.counts(spot[1])
            if counts is None:
                return None
            return Numbers(counts.total, counts.free, counts.unusable, counts.waiting, own=True)
        news = self.news(spot)
        if news is None:
            return None
        if self.tier_of(spot[0]):
            return Numbers(news.total, 0, news.total, news.waiting, own=False)
        return Numbers(news.total, news.free, 0, news.waiting, own=False)

    def asks_for(self, spot: Spot, units: int) -> None:
        """Units of another node's pool are asked for, or (negative) not wanted any more."""
        news, now_ms = self.news(spot), self._reader.now_ms
        if news is None:
            return
        known, at_ms, before = self._asked.get(spot, (news, now_ms, 0))
        before = before if known == news and now_ms - at_ms < ASKED_MS else 0
        self._asked[spot] = (news, now_ms, max(0, before + units))
        if len(self._asked) > ASKED_POOLS_MAX:
            del self._asked[min(self._asked, key=lambda one: self._asked[one][1])]

    def _asked_lately(self, pool: RemotePool) -> int:
        """Units that this node has asked for there and that the announcement does not account for yet."""
        known, at_ms, units = self._asked.get((pool.node, pool.news.pool), (None, 0, 0))
        return units if known == pool.news and self._reader.now_ms - at_ms < ASKED_MS else 0

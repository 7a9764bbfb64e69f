"""Several nodes joined by a network of a test, on one clock: messages take time, and what nodes know of each other is old.

Whole hosts (agent, claimant with renewal, pool's side); in place of a directory each node reads what all have announced
last, once a second. There is no link: a message to a node that is down or cut off is lost, and what must be repeated is.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random

import msgspec
from parties.party_node import Client, Node

from holdall.leases.messages import PoolSpec
from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Message, Received
from holdall.machine.host import Arrival, Host
from holdall.model import frames
from holdall.parties.agent import Agent
from holdall.parties.claimant_side import ClaimantSide
from holdall.parties.messages import AGENT, CLAIMANT, MANAGER
from holdall.parties.neighbours import Neighbour, NeighboursChanged, NodeState, PoolNews, RemotePool
from holdall.parties.pool_side import PoolSide
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.messages import ChainMessage
from holdall.protocols.chain.settling import Settings

ANNOUNCE_MS = 1000
SILENT_AFTER_MS = 5000
REPEAT_MS = 1000


class Announced(msgspec.Struct, frozen=True):
    """What one node has said of itself last, and when."""

    state: NodeState
    epoch: int
    incarnation: int
    pools: tuple[PoolNews, ...]
    at_ms: int


class Place(Node):
    """A node with renewal, whose claimant and manager repeat what may be lost. Its id is not its name."""

    try_from = 1000

    def _build(self, *, epoch: int = 1, incarnation: int = 1) -> Host:
        side = PoolSide(
            self.id, self.pools, epoch=epoch, settings=Settings(repeat_ms=REPEAT_MS, repeat_most_ms=8000)
        )
        claimant = Claimant(
            self.id,
            Address(self.id, AGENT),
            try_from=self.try_from,
            repeat_ms=REPEAT_MS,
            repeat_most_ms=8000,
        )
        claims = ClaimantSide(claimant, incarnation=incarnation)
        agent = Agent(
            self.settings,
            side,
            incarnation=incarnation,
            neighbours=self.neighbours,
            ages=claimant,
            life=claims,
        )
        return Host(self.id, {AGENT: agent, CLAIMANT: claims, MANAGER: side})

    @property
    def name(self) -> str:
        return self.settings.name


class Known:
    """What one node reads of the others."""

    def __init__(self, system: "System", own: str) -> None:
        self._system, self._own = system, own

    def name_of(self, node: str) -> str:
        return self._system.names.get(node, node)

    def node_named(self, name: str) -> str | None:
        return next((node for node, known in self._system.names.items() if known == name), None)

    def node(self, node: str) -> Neighbour | None:
        said = self._system.announced.get(node)
        if said is None or node == self._own:
            return None
        silent_ms = self._system.now_ms - said.at_ms
        return Neighbour(
            node=node,
            name=self.name_of(node),
            state=self._system.seen_as[node],
            epoch=said.epoch,
            incarnation=said.incarnation,
            silent_ms=silent_ms,
            has_told=self.name_of(node) not in self._system.untold,
        )

    def nodes(self) -> Sequence[Neighbour]:
        found = [known for node in self._system.announced if (known := self.node(node)) is not None]
        return sorted(found, key=lambda one: one.name)

    def pools(self, names: Iterable[str] | None = None) -> Sequence[RemotePool]:
        wanted = None if names is None else set(names)
        return [
            RemotePool(node, news)
            for node in sorted(self._system.announced)
            if node != self._own
            for news in self._system.announced[node].pools
            if wanted is None or news.name in wanted
        ]


class System:
    """Nodes by name, and the clock that they share. `delay` gives each message's time on the way in ms."""

    def __init__(self, *, seed: int = 0, delay: Callable[[Random], int] = lambda _random: 10) -> None:
        self.random = Random(seed)
        self.delay = delay
        self.now_ms = 1000
        self.nodes: dict[str, Place] = {}
        self.names: dict[str, str] = {}
        self.announced: dict[str, Announced] = {}
        self.seen_as: dict[str, NodeState] = {}
        self.down: set[str] = set()
        self.untold: set[str] = set()
        """Names of nodes of whose pools nobody knows yet."""
        self.forget_news = False
        """Whether nobody hears announcements any more."""
        self.flying: list[tuple[int, int, Address, Address, bytes]] = []
        self.sent: list[tuple[str, str, Message]] = []
        """(from, to, message) by names, of all that has left a node."""
        self.clients: list[Client] = []
        self._number = 0
        self._next_announcement = self.now_ms

    # ------------------------------------------------------------ nodes

    def add(self, name: str, *pools: PoolSpec, **settings: object) -> Place:
        """Another node; the order of ids is the order in which they were added."""
        node = f"id{len(self.names) + 1:02}"
        self.names[node] = name
        known = Known(self, node)
        place = Place(*pools, node=node, name=name, neighbours=known, post=self._post, **settings)  # type: ignore[arg-type]
        self.nodes[name] = place
        self.announce()
        return place

    def stop(self, name: str) -> None:
        """The node is gone from now on: it hears and says nothing."""
        self.down.add(self.nodes[name].id)

    def start(self, name: str, **crash: object) -> None:
        """It comes back with its records, as after a crash (`Node.crash`)."""
        place = self.nodes[name]
        self.down.discard(place.id)
        place.now_ms = self.now_ms
        place.crash(**crash)  # type: ignore[arg-type]
        self.announce()

    def client(self, name: str, at: str) -> Client:
        """A client of this node, which renews as long as the node is there."""
        client = Client(self.nodes[at], f"{name}-{at}", agent=f"{name}@{at}")
        self.clients.append(client)
        return client

    # ------------------------------------------------------------ time

    def run(self, milliseconds: int) -> None:
        """Messages arrive, timers fire and nodes announce themselves in the order of their times."""
        end = self.now_ms + milliseconds
        while (at := self._next()) <= end:
            self.now_ms = max(self.now_ms, at)
            for place in self.nodes.values():
                place.now_ms = self.now_ms
            self._one()
        self.now_ms = end
        for place in self.nodes.values():
            place.now_ms = end

    def until(self, holds: Callable[[], bool], most_ms: int = 600_000) -> int:
        """Run until something holds; returns how long that took. Fails when it does not come to hold."""
        began = self.now_ms
        while not holds():
            assert self.now_ms - began < most_ms, f"not within {most_ms} ms"
            self.run(max(1, min(self._next() - self.now_ms, 1000)))
        return self.now_ms - began

    def _next(self) -> int:
        timers = [
            min(place.timers.values())
            for place in self.nodes.values()
            if place.timers and place.id not in self.down
        ]
        mail = [self.flying[0][0]] if self.flying else []
        return min([*timers, *mail, self._next_announcement])

    def _one(self) -> None:
        if self.flying and self.flying[0][0] <= self.now_ms:
            _, _, sender, to, data = heapq.heappop(self.flying)
            place = self.nodes[self.names[to.node]]
            if to.node not in self.down:
                place.turn([Arrival(to.part, Received(sender, CODEC.decode(data)))])
            return
        for place in self.nodes.values():
            if place.id in self.down:
                continue
            due = [timer for timer, at in place.timers.items() if at <= self.now_ms]
            if due:
                timer = min(due, key=lambda name: (place.timers[name], name))
                del place.timers[timer]
                place.turn([place.host.fire(timer)])
                return
        if self._next_announcement <= self.now_ms:
            self._next_announcement = self.now_ms + ANNOUNCE_MS
            self.announce()
            for client in self.clients:
                if client.node.id not in self.down:
                    client.node.turn([client.asks(frames.Beat(client.number()))])

    def _post(self, sender: Address, to: Address, message: Message) -> None:
        if sender.node in self.down:
            return
        self.sent.append((self.names[sender.node], self.names[to.node], message))
        self._number += 1
        at = self.now_ms + self.delay(self.random)
        heapq.heappush(self.flying, (at, self._number, sender, to, CODEC.encode(message)))

    # ------------------------------------------------------------ what nodes know of each other

    def announce(self) -> None:
        """Each node says how it is, and all hear it; those that say nothing any more become silent."""
        changes: dict[str, tuple[set[str], bool]] = {}
        for place in self.nodes.values():
            before = self.announced.get(place.id)
            state_before = self.seen_as.get(place.id)
            if place.id not in self.down and not self.forget_news:
                self.announced[place.id] = self._news_of(place)
            said = self.announced.get(place.id)
            if said is None:
                continue
            old = self.now_ms - said.at_ms > SILENT_AFTER_MS
            self.seen_as[place.id] = "silent" if old else said.state
            changes[place.id] = _difference(before, said, state_before != self.seen_as[place.id])
        for place in self.nodes.values():
            pools = {name for node, (names, _) in changes.items() if node != place.id for name in names}
            nodes = {node for node, (_, changed) in changes.items() if changed and node != place.id}
            if place.id not in self.down and (pools or nodes):
                place.tell(AGENT, "directory", NeighboursChanged(tuple(sorted(pools)), tuple(sorted(nodes))))

    def _news_of(self, place: Place) -> Announced:
        side = place.side
        pools = tuple(
            PoolNews(
                pool=name,
                name=units.spec.name,
                labels=units.spec.labels,
                reach=units.spec.reach,
                total=len(units.spec.units),
                free=units.free_count(),
                waiting=side.manager.counts.all_waiting((name,)),
                max_for_ms=units.spec.max_for_ms,
                prepares=bool(units.spec.on_grant),
            )
            for name, units in sorted(side.book.service.pools.items())
            if name in side.book.service.configured
        )
        if side.book.service.draining:
            state: NodeState = "draining"
        else:
            state = "serving" if side.book.may_grant() else "quarantine"
        told = () if place.name in self.untold else pools
        return Announced(state, side.manager.epoch, place.agent.state.incarnation, told, self.now_ms)

    # ------------------------------------------------------------ what is true now

    def protocol(self) -> Counter[str]:
        """Messages of the protocol between nodes so far, by kind."""
        return Counter(
            type(message).__name__ for _, _, message in self.sent if isinstance(message, ChainMessage)
        )

    def holders(self) -> dict[str, str]:
        """`pool/unit@node` -> claim that the node's book gives it to, by the claim's own words."""
        return {
            f"{units.spec.name}/{unit.name}@{place.name}": str(unit.claim[0])
            for place in self.nodes.values()
            for units in place.side.book.service.pools.values()
            for unit in units.in_order()
            if unit.claim is not None
        }

    def check(self) -> None:
        """Every unit that a lease names is set aside for it at its node, and for nobody else's lease."""
        believed: dict[str, str] = {}
        for place in self.nodes.values():
            if place.id in self.down:
                continue
            place.check_counts()
            for claim in place.agent.state.by_printed.values():
                for grant in claim.record.grants:
                    unit = f"{grant.pool}/{grant.unit}@{grant.node}"
                    assert unit not in believed, f"{unit} is in two leases"
                    believed[unit] = claim.record.printed
                    home = self.nodes[self.names[grant.node]]
                    kept = home.side.book.service.pools[grant.pool].units[grant.unit]
                    if grant.node not in self.down:
                        assert kept.claim is not None, f"{unit} is not set aside"
                        assert kept.fence == grant.fence, f"{unit} was given again"


def _difference(before: Announced | None, now: Announced, state_changed: bool) -> tuple[set[str], bool]:
    """Names of pools with news worth telling, and whether the node itself has changed."""
    old = {} if before is None else {news.pool: news for news in before.pools}
    new = {news.pool: news for news in now.pools}
    names = {new[pool].name for pool in new if pool not in old or new[pool].free > old[pool].free}
    names |= {new[pool].name for pool in new if pool in old and new[pool].total != old[pool].total}
    names |= {old[pool].name for pool in old if pool not in new}
    if state_changed:
        names |= {news.name for news in now.pools}
    restarted = before is None or before.incarnation != now.incarnation
    return names, state_changed or restarted


def granted(answers: Iterable[frames.FromNode]) -> list[frames.Granted]:
    return [one for one in answers if isinstance(one, frames.Granted)]


def places(lease: frames.Granted) -> list[str]:
    """`pool/unit@node` of a lease, in the order of the answer."""
    return [f"{unit.pool}/{unit.name}@{unit.node}" for unit in lease.lease.units]

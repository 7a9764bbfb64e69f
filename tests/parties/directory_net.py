"""Directories in one process, with a network that a test may make lose, repeat, delay and cut.

Every directory has its own clock rate and draws its own spreads, from one seed.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush

import msgspec

from holdall.machine.codec import CODEC
from holdall.machine.contract import (
    Address,
    Boot,
    CancelTimer,
    Effect,
    Event,
    Forget,
    Message,
    ProtocolViolation,
    Received,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.parties.directory.machine import Directory
from holdall.parties.directory.messages import (
    BUS,
    DIRECTORY,
    AnnouncedState,
    DirectorySettings,
    Member,
)
from holdall.parties.directory.view import DirectoryView
from holdall.parties.messages import AGENT, NODE
from holdall.parties.neighbours import NeighboursChanged, PoolNews


class Pools:
    """Own pools that a test changes by hand. Implements `OwnPools`, and counts how often a pool is read."""

    def __init__(self, *news: PoolNews) -> None:
        self.by_id = {one.pool: one for one in news}
        self.touched: set[str] = set()
        self.state: AnnouncedState = "serving"
        self.epoch = 1
        self.reads = 0

    def set(self, news: PoolNews) -> None:
        self.by_id[news.pool] = news
        self.touched.add(news.pool)

    def remove(self, pool: str) -> None:
        del self.by_id[pool]
        self.touched.add(pool)

    def all(self) -> list[str]:
        return sorted(self.by_id)

    def take_touched(self) -> list[str]:
        touched, self.touched = sorted(self.touched), set()
        return touched

    def news(self, pool: str) -> PoolNews | None:
        self.reads += 1
        return self.by_id.get(pool)


class Site:
    """One process of a node: its directory, its records, its timers, what it has told its node and agent."""

    def __init__(self, net: "Net", settings: DirectorySettings, pools: Pools, incarnation: int) -> None:
        self.net = net
        self.settings = settings
        self.pools = pools
        self.records: dict[str, Record] = {}
        self.timers: dict[str, float] = {}
        self.rate = net.random.uniform(0.98, 1.02)
        self.to_node: list[Message] = []
        self.changes: list[NeighboursChanged] = []
        self.refused: list[str] = []
        self.up = True
        self.incarnation = incarnation
        self.directory = Directory(settings, pools, incarnation=incarnation)

    @property
    def node(self) -> str:
        return self.settings.node

    @property
    def view(self) -> DirectoryView:
        return DirectoryView(self.directory)

    def start(self, records: Mapping[str, Record] | None = None) -> None:
        boot = Boot("same", self.pools.epoch, self.incarnation)
        if records is not None:
            self.records = dict(records)
        self.carry_out(self.directory.recover({**self.records, "boot": boot}))

    def handle(self, event: Event) -> None:
        try:
            effects = self.directory.handle(event)
        except ProtocolViolation as error:
            self.refused.append(str(error))
            return
        self.carry_out(effects)

    def own(self, message: Message, part: str = NODE) -> None:
        self.handle(Received(Address(self.node, part), message))

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Save(key, record):
                    self.records[key] = CODEC.decode(CODEC.encode(record))
                case Forget(key):
                    self.records.pop(key, None)
                case SetTimer(timer, after_ms, spread_ms):
                    delay = (after_ms + self.net.random.randint(0, spread_ms)) / self.rate
                    self.timers[timer] = self.net.now_ms + delay
                case CancelTimer(timer):
                    self.timers.pop(timer, None)
                case Send(Address(node, part), message):
                    self._send(node, part, message)

    def _send(self, node: str, part: str, message: Message) -> None:
        if node != self.node:
            assert part == DIRECTORY
            self.net.post(self, node, message)
        elif part == BUS:
            self.net.post_to_own(self, message)
        elif part == AGENT:
            assert isinstance(message, NeighboursChanged)
            self.changes.append(message)
        else:
            assert part == NODE
            self.to_node.append(message)

    def told(self, kind: type[Message]) -> list[Message]:
        return [message for message in self.to_node if isinstance(message, kind)]


class Net:
    """All sites, and what is under way between them."""

    def __init__(
        self, seed: int = 0, *, loss: float = 0, repeat: float = 0, delay_ms: tuple[int, int] = (1, 5)
    ) -> None:
        self.random = random.Random(seed)
        self.loss, self.repeat, self.delay_ms = loss, repeat, delay_ms
        self.now_ms = 0.0
        self.sites: list[Site] = []
        self.groups: list[set[str]] = []
        """While there are some: only members of one group reach each other."""
        self.messages: list[tuple[str, str, Message]] = []
        """(from, to, message) of all that were posted between nodes since `count` was called."""
        self.bytes = 0
        self._flying: list[tuple[float, int, Site, Event]] = []
        """A heap: soonest first."""
        self._number = 0

    def add(self, name: str, *pools: PoolNews, **fields: object) -> Site:
        """A process of a node; its id is its name unless told otherwise. Not started."""
        incarnation = fields.pop("incarnation", 1)
        assert isinstance(incarnation, int)
        plain = DirectorySettings(
            node=name,
            name=name,
            instance=f"{name}-{len(self.sites)}",
            address=f"10.0.0.{len(self.sites) + 1}:4222",
            started_wall_ms=1_700_000_000_000 + int(self.now_ms),
        )
        settings = msgspec.structs.replace(plain, **fields)
        site = Site(self, settings, Pools(*pools), incarnation)
        self.sites.append(site)
        return site

    def again(self, site: Site, *, records: bool = True, **fields: object) -> Site:
        """The node of a process that is gone starts again."""
        later = self.add(site.settings.name, incarnation=site.incarnation + 1)
        plain = {"node": site.node, "name": site.settings.name, "address": site.settings.address}
        later.settings = msgspec.structs.replace(later.settings, **{**plain, **fields})
        later.pools = site.pools
        later.pools.touched.clear()
        later.directory = Directory(later.settings, later.pools, incarnation=later.incarnation)
        later.start(site.records if records else {})
        return later

    def member(self, site: Site) -> Member:
        return Member(site.node, site.settings.name, site.settings.address)

    def kill(self, site: Site) -> None:
        site.up = False
        site.timers.clear()

    def cut(self, *groups: Iterable[Site]) -> None:
        self.groups = [{site.node for site in group} for group in groups]

    def post(self, sender: Site, to: str, message: Message) -> None:
        self.messages.append((sender.node, to, message))
        body = CODEC.encode(message)
        assert len(body) < 64 * 1024
        self.bytes += len(body)
        if self.groups and not any(sender.node in group and to in group for group in self.groups):
            return
        if self.random.random() < self.loss:
            return
        copies = 2 if self.random.random() < self.repeat else 1
        for _ in range(copies):
            self._fly(sender.node, DIRECTORY, to, body)

    def post_to_own(self, sender: Site, message: Message) -> None:
        # The bus gives it to all processes with this identity that it reaches, the sender included.
        self._fly(sender.node, BUS, sender.node, CODEC.encode(message))

    def _fly(self, sender: str, part: str, to: str, body: bytes) -> None:
        for site in self.sites:
            if site.node == to and site.up:
                self._number += 1
                due = self.now_ms + self.random.uniform(*self.delay_ms)
                event = Received(Address(sender, part), CODEC.decode(body))
                heappush(self._flying, (due, self._number, site, event))

    def count(self) -> tuple[int, int]:
        """(messages, bytes) since the last call."""
        counted = (len(self.messages), self.bytes)
        self.messages, self.bytes = [], 0
        return counted

    def run(self, milliseconds: float) -> None:
        end = self.now_ms + milliseconds
        while True:
            timer = min(
                (
                    (due, place, name)
                    for place, site in enumerate(self.sites)
                    if site.up
                    for name, due in site.timers.items()
                ),
                default=(end + 1, 0, ""),
            )
            flight = self._flying[0] if self._flying else None
            if flight is not None and flight[0] <= min(timer[0], end):
                heappop(self._flying)
                self.now_ms = flight[0]
                if flight[2].up:
                    flight[2].handle(flight[3])
            elif timer[0] <= end:
                self.now_ms = max(self.now_ms, timer[0])
                site = self.sites[timer[1]]
                del site.timers[timer[2]]
                site.handle(TimerFired(timer[2]))
            else:
                self.now_ms = end
                return

    def rounds_until(self, condition: Callable[[], bool], most: int) -> int:
        """Lets rounds pass until it holds; fails when it does not within so many."""
        for rounds in range(most + 1):
            if condition():
                return rounds
            self.run(1100)
        raise AssertionError(f"does not hold after {most} rounds")


def system(net: Net, count: int, *pools: PoolNews) -> list[Site]:
    """So many nodes that have joined one after the other, each knowing the first only; all know all."""
    sites: list[Site] = []
    for number in range(count):
        site = net.add(f"n{number:02}", *pools)
        if sites:
            site.settings = msgspec.structs.replace(site.settings, members=(net.member(sites[0]),))
            site.directory = Directory(site.settings, site.pools)
        site.start()
        sites.append(site)
        net.run(50)
    net.rounds_until(lambda: agree(sites), 30)
    return sites


def agree(sites: Iterable[Site]) -> bool:
    """Whether each knows of each other what that one says of itself, pools included."""
    everybody = list(sites)
    return all(knows(one, other) for one in everybody for other in everybody if one is not other)


def knows(one: Site, other: Site) -> bool:
    """Whether one knows what the other says of itself now."""
    neighbour = one.view.node(other.node)
    if neighbour is None or other.directory.state.own.header is None:
        return False
    known = one.directory.state.known.by_id[other.node]
    return (
        neighbour.state == other.directory.state.own.header.state
        and neighbour.incarnation == other.incarnation
        and known.log.news == other.directory.state.own.log.news
    )

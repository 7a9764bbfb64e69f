"""The same search written plainly: real hosts copied at every step, no numbers, no tables. Slow, and easy to trust."""

from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from itertools import chain, combinations
from typing import Any

import msgspec

from holdall.explorer.mail import Letter
from holdall.machine.contract import Received, Record, SetTimer
from holdall.machine.host import Arrival, Host, Turn
from holdall.world.clients import Clients, Scene
from holdall.world.faults import KINDS, Budget, spend
from holdall.world.system import System


class Node:
    """One state."""

    def __init__(
        self,
        hosts: dict[str, Host],
        timers: dict[str, frozenset[str]],
        saved: dict[str, dict[str, Record]],
        net: frozenset[Letter],
        scene: Scene,
    ) -> None:
        self.hosts, self.timers, self.saved, self.net, self.scene = hosts, timers, saved, net, scene

    def key(self) -> Hashable:
        return (
            tuple(
                (name, host.key(), self.timers[name], tuple(sorted(self.saved[name].items())))
                for name, host in sorted(self.hosts.items())
            ),
            self.net,
            self.scene,
        )


class PlainSearch:
    def __init__(self, system: System, left: Budget, *, timers: bool) -> None:
        self.system = system
        self.clients = Clients(system.world, left, system.placed)
        self.with_timers = timers
        counts = dict(zip(KINDS, left, strict=True))
        self.with_records = bool(counts["restart"])

    def count(self) -> int:
        hosts = {name: self.system.build(name) for name in self.system.hosts()}
        first = Node(
            hosts,
            dict.fromkeys(hosts, frozenset[str]()),
            {name: {} for name in hosts},
            frozenset(),
            self.clients.first,
        )
        for name, host in hosts.items():
            first = self.after(first, name, host, host.start(), first.scene, first.net)
        known = {first.key()}
        todo = deque([first])
        while todo:
            for then in self.steps(todo.popleft()):
                key = then.key()
                if key not in known:
                    assert not then.scene.wrong, then.scene.wrong
                    known.add(key)
                    todo.append(then)
        return len(known)

    def after(
        self,
        node: Node,
        name: str,
        host: Host,
        turn: Turn,
        scene: Scene,
        net: frozenset[Letter],
        fired: str = "",
    ) -> Node:
        told = [message for _, to, message in turn.sends if to.node == name]
        sent = {Letter(sender, to, message) for sender, to, message in turn.sends if to.node != name}
        timers = set(node.timers[name]) - {fired}
        for timer, order in turn.timers.items():
            timers.discard(timer)
            if isinstance(order, SetTimer) and self.with_timers:
                timers.add(timer)
        saved: dict[str, Record] = dict(node.saved[name])
        if self.with_records:
            for key, record in turn.saves.items():
                saved.pop(key, None)
                if record is not None:
                    saved[key] = record
        return Node(
            {**node.hosts, name: host},
            {**node.timers, name: frozenset(timers)},
            {**node.saved, name: saved},
            net | sent,
            self.clients.told(scene, told) if told else scene,
        )

    def turn(self, node: Node, name: str, arrival: Arrival, scene: Scene, net: frozenset[Letter]) -> Node:
        host = node.hosts[name].copy()
        fired = getattr(arrival.event, "timer", "")
        turn = host.turn((arrival,))
        return self.after(node, name, host, turn, scene, net, f"{arrival.part}!{fired}" if fired else "")

    def steps(self, node: Node) -> Iterator[Node]:
        left = dict(zip(KINDS, node.scene.left, strict=True))
        for letter in node.net:
            arrival = Arrival(letter.to.part, Received(letter.sender, letter.message))
            yield self.turn(node, letter.to.node, arrival, node.scene, node.net - {letter})
            if left["duplicate"]:
                yield self.turn(node, letter.to.node, arrival, self.spent(node, "duplicate"), node.net)
            if left["loss"]:
                lost = node.net - {letter}
                yield Node(node.hosts, node.timers, node.saved, lost, self.spent(node, "loss"))
        for act in self.clients.acts(node.scene):
            assert act.command is not None
            arrival = self.system.command(act.host, act.command)
            yield self.turn(node, act.host, arrival, act.then, node.net)
        if not node.net:
            for name, timers in node.timers.items():
                for timer in timers:
                    yield self.turn(node, name, node.hosts[name].fire(timer), node.scene, node.net)
        if left["restart"]:
            for name in self.system.hosts():
                yield from self.restarts(node, name, node.saved[name])

    def restarts(self, node: Node, name: str, saved: Mapping[str, Record]) -> Iterator[Node]:
        to_it = [letter for letter in node.net if letter.to.node == name]
        parts: Iterator[Any] = chain.from_iterable(
            combinations(to_it, count) for count in range(len(to_it) + 1)
        )
        for lost in parts:
            host = self.system.build(name)
            turn = host.recover(saved, self.system.boot("same", 1))
            fresh = Node(node.hosts, {**node.timers, name: frozenset()}, node.saved, node.net, node.scene)
            yield self.after(fresh, name, host, turn, self.spent(node, "restart"), node.net - set(lost))

    def spent(self, node: Node, kind: str) -> Scene:
        return msgspec.structs.replace(node.scene, left=spend(node.scene.left, kind))

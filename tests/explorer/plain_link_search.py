"""The search of two linked hosts written plainly: real hosts copied at every step, no numbers, no tables."""

from collections import deque
from collections.abc import Hashable, Iterator

import msgspec

from holdall.explorer.mail import Letter
from holdall.machine.contract import Received, SetTimer
from holdall.machine.host import Arrival, Host, Turn
from holdall.world.link import HOSTS, LinkSystem

Left = tuple[int, int, int]
"""How many losses, doubles and restarts may still come."""


class Node(msgspec.Struct):
    """One state."""

    hosts: dict[str, Host]
    timers: dict[str, frozenset[str]]
    net: frozenset[Letter]
    turns: tuple[int, int]
    processes: tuple[int, int]
    left: Left

    def key(self) -> Hashable:
        hosts = tuple((name, self.hosts[name].key(), self.timers[name]) for name in HOSTS)
        return hosts, self.net, self.turns, self.processes, self.left


class PlainLinkSearch:
    def __init__(self, system: LinkSystem, left: Left, *, any_time: bool) -> None:
        self.system = system
        self.any_time = any_time
        hosts = {name: system.build(name) for name in HOSTS}
        for host in hosts.values():
            assert host.start() == Turn({}, {}, [])
        timers = {str(name): frozenset[str]() for name in HOSTS}
        self.first = Node(hosts, timers, frozenset(), (0, 0), (1, 1), left)

    def count(self) -> int:
        known = {self.first.key()}
        todo = deque([self.first])
        while todo:
            for then in self.steps(todo.popleft()):
                key = then.key()
                if key not in known:
                    known.add(key)
                    todo.append(then)
        return len(known)

    def turn(self, node: Node, name: str, arrival: Arrival, fired: str = "") -> Node:
        host = node.hosts[name].copy()
        return self.after(node, name, host, host.turn((arrival,)), node.timers[name] - {fired})

    def after(self, node: Node, name: str, host: Host, turn: Turn, armed: frozenset[str]) -> Node:
        timers = set(armed)
        for timer, order in turn.timers.items():
            timers.discard(timer)
            if isinstance(order, SetTimer):
                timers.add(timer)
        return msgspec.structs.replace(
            node,
            hosts={**node.hosts, name: host},
            timers={**node.timers, name: frozenset(timers)},
            net=node.net | {Letter(sender, to, message) for sender, to, message in turn.sends},
        )

    def steps(self, node: Node) -> Iterator[Node]:
        losses, doubles, restarts = node.left
        for letter in node.net:
            arrival = Arrival(letter.to.part, Received(letter.sender, letter.message))
            gone = msgspec.structs.replace(node, net=node.net - {letter})
            yield self.turn(gone, letter.to.node, arrival)
            if losses:
                yield msgspec.structs.replace(gone, left=(losses - 1, doubles, restarts))
            if doubles:
                spent = msgspec.structs.replace(node, left=(losses, doubles - 1, restarts))
                yield self.turn(spent, letter.to.node, arrival)
        for host, name in enumerate(HOSTS):
            says, had = self.system.world.says[host], node.turns[host]
            if had < len(says):
                turns = (had + 1, node.turns[1]) if host == 0 else (node.turns[0], had + 1)
                spoken = msgspec.structs.replace(node, turns=turns)
                yield self.turn(spoken, name, self.system.command(name, says[had]))
            if self.any_time or not node.net:
                for timer in node.timers[name]:
                    yield self.turn(node, name, node.hosts[name].fire(timer), timer)
            if restarts:
                number = node.processes[host] + 1
                processes = (number, node.processes[1]) if host == 0 else (node.processes[0], number)
                fresh = msgspec.structs.replace(
                    node, processes=processes, left=(losses, doubles, restarts - 1)
                )
                built = self.system.build(name)
                yield self.after(
                    fresh, name, built, built.recover({}, self.system.boot("same", number)), frozenset()
                )

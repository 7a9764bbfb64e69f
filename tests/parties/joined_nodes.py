"""Several nodes without drivers that hear each other: messages wait in a queue until a test delivers them.

Each message is written and read again on its way, and has to fit into a frame of the link. What the nodes know of each
other is a plain table in place of a directory.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from parties.party_node import Client, Node

from holdall.leases.messages import PoolSpec
from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Message, Received
from holdall.machine.host import Arrival
from holdall.model import frames
from holdall.parties.neighbours import Neighbour, NeighboursChanged, NodeState, PoolNews, RemotePool

FRAME_BYTES_MAX = 64 * 1024
ROOM_BYTES = 1024
"""What a frame of the link needs around one parcel."""


class Table:
    """What one node knows of the others: all of it, as it is."""

    def __init__(self, net: "Net", own: str) -> None:
        self.net = net
        self.own = own

    def name_of(self, node: str) -> str:
        return self.net.names.get(node, node)

    def node_named(self, name: str) -> str | None:
        return {name: node for node, name in self.net.names.items()}.get(name)

    def node(self, node: str) -> Neighbour | None:
        if node == self.own or node not in self.net.names or node in self.net.forgotten:
            return None
        side = self.net.nodes[node].side if node in self.net.nodes else None
        return Neighbour(
            node=node,
            name=self.net.names[node],
            state=self.net.states.get(node, "serving"),
            epoch=1 if side is None else side.manager.epoch,
            incarnation=1,
            address=f"10.0.0.{sorted(self.net.names).index(node) + 1}:4222",
            silent_ms=self.net.silent_ms.get(node, 0),
        )

    def nodes(self) -> Sequence[Neighbour]:
        found = [known for node in self.net.names if (known := self.node(node)) is not None]
        return sorted(found, key=lambda one: one.name)

    def pools(self, names: Iterable[str] | None = None) -> Sequence[RemotePool]:
        wanted = None if names is None else set(names)
        return [
            RemotePool(
                node,
                PoolNews(
                    pool=spec.pool,
                    name=spec.name,
                    labels=spec.labels,
                    reach=spec.reach,
                    total=len(spec.units),
                    free=0
                    if (known := self.net.nodes[node].side.book.service.pools.get(spec.pool)) is None
                    else known.free_count(),
                    max_for_ms=spec.max_for_ms,
                ),
            )
            for node in sorted(self.net.nodes)
            if self.node(node) is not None
            for spec in sorted(self.net.nodes[node].pools, key=lambda one: one.pool)
            if wanted is None or spec.name in wanted
        ]


class Net:
    """Nodes by id. Ids and names differ, so that neither passes for the other."""

    def __init__(self, **settings: object) -> None:
        self.nodes: dict[str, Node] = {}
        self.names: dict[str, str] = {}
        self.states: dict[str, NodeState] = {}
        self.silent_ms: dict[str, int] = {}
        self.forgotten: set[str] = set()
        self.queue: deque[tuple[Address, Address, bytes]] = deque()
        self.deaf: set[str] = set()
        """Nodes that hear nothing now; what is sent to them waits in `held`."""
        self.held: list[tuple[Address, Address, bytes]] = []
        self.sent: list[tuple[Address, Address, Message]] = []
        self._settings = settings

    def add(self, name: str, *pools: PoolSpec, **settings: object) -> Node:
        """A node whose id is `id-` and its name turned round."""
        node = f"id{len(self.names) + 1}{name[::-1]}"
        self.names[node] = name
        self.nodes[node] = Node(
            *pools,
            node=node,
            name=name,
            neighbours=Table(self, node),
            post=self._post,
            **(self._settings | settings),  # type: ignore[arg-type]
        )
        return self.nodes[node]

    def _post(self, sender: Address, to: Address, message: Message) -> None:
        data = CODEC.encode(message)
        assert len(data) + ROOM_BYTES <= FRAME_BYTES_MAX, f"{len(data)} bytes do not fit: {message}"
        self.sent.append((sender, to, message))
        self.queue.append((sender, to, data))

    def deliver(self, most: int = 100_000) -> int:
        """What is under way arrives, and what is sent because of it; returns how many messages that were."""
        count = 0
        while self.queue and count < most:
            sender, to, data = self.queue.popleft()
            if to.node in self.deaf:
                self.held.append((sender, to, data))
                continue
            count += 1
            self.arrive(sender, to, CODEC.decode(data))
        return count

    def arrive(self, sender: Address, to: Address, message: Message) -> None:
        node = self.nodes.get(to.node)
        if node is not None:
            node.turn([Arrival(to.part, Received(sender, message))])

    def hear_again(self, node: str) -> None:
        """The node is not deaf any more: what was sent to it comes late."""
        self.deaf.discard(node)
        self.queue.extend(self.held)
        self.held.clear()

    def pass_ms(self, milliseconds: int, step: int = 100) -> None:
        """Time goes by on all nodes, messages arrive meanwhile."""
        self.deliver()
        for _ in range(0, milliseconds, step):
            for node in self.nodes.values():
                node.pass_ms(step)
            self.deliver()

    def state(self, node: Node, state: NodeState | Literal["forgotten"], silent_ms: int = 0) -> None:
        """All other nodes learn it."""
        if state == "forgotten":
            self.forgotten.add(node.id)
        else:
            self.states[node.id] = state
        self.silent_ms[node.id] = silent_ms
        for other in self.nodes.values():
            if other is not node:
                other.tell("agent", "directory", NeighboursChanged(nodes=(node.id,)))

    def ask(self, asked: Node, what: str, arg: str = "", **fields: object) -> frames.Listing | frames.Denied:
        """A question of a client of this node, answered when all that is under way has arrived."""
        asker = Asker(self, asked)
        asker.ask(what, arg, **fields)
        self.deliver()
        answer = asker.answer()
        assert answer is not None, "nobody answers"
        return answer


class Asker:
    """A client that looks."""

    def __init__(self, net: Net, node: Node) -> None:
        self.net = net
        self.client = Client(node, f"asker{node.lot()}")

    def ask(self, what: str, arg: str = "", **fields: object) -> None:
        frame = frames.Ask(self.client.number(), what, arg)  # type: ignore[arg-type]
        self.say(msgspec.structs.replace(frame, **fields))

    def say(self, frame: frames.ToNode) -> None:
        """In a turn of its own; the answers stay in the inbox."""
        self.client.node.turn([self.client.asks(frame)])

    def answer(self) -> frames.Listing | frames.Denied | None:
        """The whole answer, its parts joined; None: none yet."""
        answers = [one for one in self.client.inbox() if isinstance(one, (frames.Listing, frames.Denied))]
        if not answers:
            return None
        if isinstance(answers[0], frames.Denied):
            assert len(answers) == 1
            return answers[0]
        parts = [one for one in answers if isinstance(one, frames.Listing)]
        assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False], "one answer, once"
        return msgspec.structs.replace(
            parts[-1],
            pools=tuple(row for part in parts for row in part.pools),
            leases=tuple(row for part in parts for row in part.leases),
            waits=tuple(row for part in parts for row in part.waits),
            log=tuple(row for part in parts for row in part.log),
        )

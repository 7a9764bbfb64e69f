"""Nodes of a bus for tests: real nats-servers below this process, on free ports of 127.0.0.1."""

import asyncio
import contextlib
import json
import random
import shutil
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from holdall.bus.entry import make_bus
from holdall.bus.identity import NodeKey
from holdall.bus.join import join_system
from holdall.bus.keys import new_seed
from holdall.bus.service import OwnBus, anybody
from holdall.bus.system import Facts

FACTS = Facts(protocol="chain", ttl_max_ms=300_000, rho_ppm=20_000)
HOST = "127.0.0.1"


def no_frames(sender: str, frame: bytes) -> None:
    """For a bus whose frames do not matter."""


def no_state(connected: bool, text: str) -> None:
    """For a bus whose state does not matter."""


class Lines:
    """A log that remembers."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, object]]] = []

    def info(self, event: str, **values: object) -> None:
        self.lines.append(("info", event, values))

    def warning(self, event: str, **values: object) -> None:
        self.lines.append(("warning", event, values))

    def error(self, event: str, **values: object) -> None:
        self.lines.append(("error", event, values))

    def text(self) -> str:
        """All of it, one line each."""
        return "\n".join(f"{level} {event} {values}" for level, event, values in self.lines)


class Node:
    """One node's bus, what it heard, and what it was told about its connection."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.seed = new_seed()
        self.key = NodeKey(self.seed)
        self.log = Lines()
        self.heard: list[tuple[str, bytes]] = []
        self.states: list[tuple[bool, str]] = []
        self._bus: OwnBus | None = None

    def seed_from(self, path: Path) -> None:
        """The key that a test left there, so that it can come back as the same node."""
        self.seed = path.read_text(encoding="ascii")
        self.key = NodeKey(self.seed)

    @property
    def id(self) -> str:
        return self.key.id

    @property
    def home(self) -> Path:
        return self.folder / "bus"

    @property
    def bus(self) -> OwnBus:
        assert self._bus is not None
        return self._bus

    @property
    def bus_port(self) -> int:
        """Where its server listens, also while it is down."""
        listen = json.loads((self.home / "membership.json").read_text(encoding="utf-8"))["listen"]
        return int(listen[1])

    @property
    def is_connected(self) -> bool:
        return bool(self.states) and self.states[-1][0]

    @property
    def server_pid(self) -> int:
        server = self.bus.server
        assert server is not None
        assert server.pid is not None
        return server.pid

    async def found(self, port: int, may_join: Callable[[str, str], str] = anybody) -> None:
        await self.open((HOST, port), may_join)

    async def join(self, code: str, listen: tuple[str, int] | None = None, facts: Facts = FACTS) -> None:
        await join_system(code, self.folder, self.key, name=self.name, facts=facts, listen=listen)

    async def open(
        self, listen: tuple[str, int] | None = None, may_join: Callable[[str, str], str] = anybody
    ) -> None:
        bus = make_bus(
            self.folder,
            self.key,
            name=self.name,
            facts=FACTS,
            log=self.log,
            listen=listen,
            may_join=may_join,
        )
        assert isinstance(bus, OwnBus)
        self._bus = bus
        await bus.open(lambda sender, frame: self.heard.append((sender, frame)), self._state)

    async def close(self) -> None:
        bus, self._bus = self._bus, None
        if bus is not None:
            await bus.close()

    def _state(self, connected: bool, text: str) -> None:
        self.states.append((connected, text))


async def until(condition: Callable[[], object], what: str, *, bound_s: float = 20.0) -> float:
    """Seconds until it holds; fails with `what` when it does not within the bound."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not condition():
        assert loop.time() - began < bound_s, f"not within {bound_s} s: {what}"
        await asyncio.sleep(0.01)
    return loop.time() - began


def free_port() -> int:
    """The first of three ports in a row that are free now, below those that connections get by themselves."""
    for _ in range(1000):
        port = random.randrange(15_000, 32_000)
        with contextlib.ExitStack() as trials:
            try:
                for number in range(port, port + 3):
                    trials.enter_context(socket.socket()).bind((HOST, number))
            except OSError:
                continue
            return port
    raise AssertionError("no free ports")


@contextlib.asynccontextmanager
async def system_of(count: int) -> AsyncGenerator[list[Node]]:
    """That many nodes that are connected; the first three run a server each."""
    state = Path(tempfile.mkdtemp(dir="/tmp", prefix="hdbus"))
    nodes: list[Node] = []
    try:
        for number in range(count):
            node = Node(state / str(number), f"lab-{number + 1}")
            nodes.append(node)
            if number == 0:
                await node.found(free_port())
            else:
                await node.join(nodes[0].bus.join_code(), (HOST, free_port()))
                await node.open()
        await until(lambda: all(node.is_connected for node in nodes), "all nodes are connected")
        await all_hear_all(nodes)
        yield nodes
    finally:
        for node in reversed(nodes):
            await node.close()
        shutil.rmtree(state)


async def all_hear_all(nodes: list[Node], *, bound_s: float = 20.0) -> float:
    """Seconds until every node has heard every other; each says its word again until it is heard, as the link does."""
    word = random.randbytes(8)

    def missing() -> list[tuple[Node, Node]]:
        return [
            (one, other)
            for one in nodes
            for other in nodes
            if one is not other and (one.id, word) not in other.heard
        ]

    loop = asyncio.get_running_loop()
    began = loop.time()
    while pairs := missing():
        left = [f"{one.name} to {other.name}" for one, other in pairs]
        assert loop.time() - began < bound_s, f"not within {bound_s} s: {left}"
        for one, other in pairs:
            one.bus.post(other.id, word)
        await asyncio.sleep(0.05)
    return loop.time() - began

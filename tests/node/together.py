"""Several whole nodes in one process over a bus of that process: sockets, journals and machines are real."""

import asyncio
import contextlib
import io
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from node.lab import Client

from holdall.bus.identity import NodeKey
from holdall.bus.inprocess import Hub, InProcessBus
from holdall.bus.interface import OnFrame, OnState
from holdall.machine.codec import CODEC
from holdall.machine.link_frames import LinkFrame, LinkOpen
from holdall.node import boot, paths
from holdall.node.membership import GivenSeat
from holdall.node.service import Service
from holdall.node.settings import parse_settings
from holdall.parties.directory.messages import Member, Presence

Result = TypeVar("Result")
WITHIN_S = 30.0

CONFIG = """
[node]
name = "{name}"
listen = "off"
[defaults]
ttl = "20s"
ttl_max = "60s"
margin = "50ms"
"""


def pool(name: str, *units: str) -> str:
    """A pool of the configuration."""
    listed = ", ".join(f'"{unit}"' for unit in units)
    return f'[[pool]]\nname = "{name}"\nunits = [{listed}]\n'


def _unheard(connected: bool, text: str) -> None:
    del connected, text


class WatchedBus:
    """A bus of the hub that counts what leaves, and can be cut off from everybody."""

    def __init__(self, inner: InProcessBus) -> None:
        self._inner = inner
        self.senders: Counter[str] = Counter()
        """Part that sent it -> parcels; `presence` and `open` are counted as such."""
        self.on_state: OnState = _unheard
        self.is_lost = False

    async def open(self, on_frame: OnFrame, on_state: OnState) -> None:
        self.on_state = on_state
        await self._inner.open(on_frame, on_state)

    def post(self, to: str, frame: bytes) -> None:
        match CODEC.decode(frame):
            case LinkFrame(parcels=parcels):
                self.senders.update(parcel.sender for parcel in parcels)
            case LinkOpen():
                self.senders["open"] += 1
            case Presence():
                self.senders["presence"] += 1
            case _:
                self.senders["other"] += 1
        if not self.is_lost:
            self._inner.post(to, frame)

    async def close(self) -> None:
        await self._inner.close()


class Together:
    """Nodes on one event loop in a thread, since the bus of one process belongs to one loop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hub = Hub()
        self.nodes: dict[str, Service] = {}
        self.buses: dict[str, WatchedBus] = {}
        self.members: dict[str, Member] = {}
        """What joining would tell a node that starts: all that were started before it."""
        self.logs: dict[str, io.StringIO] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def start(self, name: str, pools: str, *, state: str = "", node: str = "") -> Service:
        """A node with these pools; again after `stop` or `kill`: the same one. `node`: more of its `[node]`."""
        text = CONFIG.replace("{name}", name).replace("[defaults]", f"{node}\n[defaults]") + pools
        settings = parse_settings(text, state=self.folder / (state or name))
        log = self.logs[name] = io.StringIO()
        service = self.run(
            self._made(
                lambda: Service(settings, new=True, log_to=log, seat=lambda key: self._seat(name, key))
            )
        )
        try:
            self.run(service.start())
        except BaseException:
            self.run(service.close())
            raise
        self.nodes[name] = service
        return service

    def _seat(self, name: str, key: NodeKey) -> GivenSeat:
        others = tuple(member for node, member in self.members.items() if node != key.id)
        self.members[key.id] = Member(key.id, name)
        bus = self.buses[name] = WatchedBus(self.hub.bus(key.id))
        return GivenSeat(bus, others)

    def lose(self, name: str) -> None:
        """The node's bus is cut off, and says so."""
        self._cut(name, is_lost=True)

    def find(self, name: str) -> None:
        """The opposite of `lose`."""
        self._cut(name, is_lost=False)

    def _cut(self, name: str, *, is_lost: bool) -> None:
        bus = self.buses[name]

        def cut() -> None:
            bus.is_lost = is_lost
            bus.on_state(not is_lost, "cut off" if is_lost else "in one process")

        self.call(cut)

    def stop(self, name: str) -> None:
        """End it in order."""
        service = self.nodes.pop(name)
        self._loop.call_soon_threadsafe(service.stop, "test")
        try:
            self.run(service.until_stopped())
        finally:
            self.run(service.close())

    def client(self, name: str, **changes: str) -> Client:
        return Client(self.nodes[name].settings.socket, **changes)

    def call(self, function: Callable[[], None]) -> None:
        """Run a function on the loop of the nodes."""

        async def called() -> None:
            function()

        self.run(called())

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        future: Future[Result] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(WITHIN_S)

    def close(self) -> None:
        for service in self.nodes.values():
            self._loop.call_soon_threadsafe(service.stop, "test")
            self.run(service.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WITHIN_S)
        self._loop.close()

    @staticmethod
    async def _made(make: Callable[[], Result]) -> Result:
        return make()


@contextlib.contextmanager
def together() -> Generator[Together]:
    """In a folder with a short name, with a run folder and a boot of its own."""
    kept = {name: os.environ.get(name) for name in (paths.RUN_ENV, boot.BOOT_ID_ENV)}
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="hd") as folder:
        os.environ[paths.RUN_ENV] = f"{folder}/run"
        os.environ[boot.BOOT_ID_ENV] = "boot-1"
        made = Together(Path(folder))
        try:
            yield made
        finally:
            made.close()
            for name, value in kept.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

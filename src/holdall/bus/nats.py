"""A bus over NATS: one connection at a time, kept alive by asking, replaced at once when it is lost.

`post` only appends to a bounded queue; one task writes it out. Each frame that arrives is one plain call, no task.
"""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable, Sequence

from holdall.bus.connection import CannotConnect, Connection, Login, OnMessage
from holdall.bus.interface import OnFrame, OnState
from holdall.bus.log import Log, Seldom
from holdall.bus.subjects import FRAME_BYTES_MAX, is_node_id
from holdall.model.errors import BadConfig

QUEUE_BYTES_MAX = 1024 * 1024
"""Of frames that wait for a connection; older ones give way, as the link repeats what still matters."""
BEAT_S = 1.0
PAUSE_S = 0.05
PAUSE_S_MAX = 2.0
SHUT_OUT = "Authorization Violation"
SHUT_OUT_PAUSE_S_MAX = 30.0
"""For a node that servers do not know (any more); each try of it stands in their logs."""
WRITE_OUT_S = 1.0
CLOSE_S = 3.0


class NatsBus:
    """See `interface.Bus`."""

    def __init__(
        self,
        system: str,
        node: str,
        *,
        servers: Callable[[], Sequence[str]],
        login: Callable[[], Login],
        log: Log,
        on_notice: OnMessage | None = None,
        on_connected: Callable[[], None] | None = None,
        foreign: bool = False,
    ) -> None:
        """`servers` (addresses, the preferred first) and `login` are asked at each new connection.

        `foreign`: the servers are somebody else's, so it is tried out whether they hold this node to its subjects.
        """
        if not is_node_id(node):
            raise BadConfig(f"{node[:80]!r} is no id of a node, so it has no subject on a bus.")
        self.connections = 0
        self.posted = 0
        self.heard = 0
        self.dropped = 0
        """Frames that waited too long for a connection, or were too long."""
        self._system, self._node = system, node
        self._servers, self._login = servers, login
        self._log = log
        self._warn = Seldom(log.warning)
        self._on_notice, self._on_connected = on_notice, on_connected
        self._foreign = foreign
        self._on_frame: OnFrame | None = None
        self._on_state: OnState | None = None
        self._queue: deque[tuple[str, bytes]] = deque()
        self._queued_bytes = 0
        self._work = asyncio.Event()
        self._written = asyncio.Event()
        """Nothing waits to be written."""
        self._written.set()
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._told: tuple[bool, str] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def connected_to(self) -> str | None:
        """The address of the server in use."""
        return self._connection.url if self._connection is not None else None

    @property
    def latency_s(self) -> float | None:
        """How long the server took to answer last, in seconds."""
        return self._connection.latency_s if self._connection is not None else None

    async def open(self, on_frame: OnFrame, on_state: OnState) -> None:
        if self._task is not None:
            raise RuntimeError("a bus is opened once")
        self._login()  # raises BadConfig for what waiting can't mend
        self._on_frame, self._on_state = on_frame, on_state
        self._task = asyncio.create_task(self._run(), name="bus")

    def post(self, to: str, frame: bytes) -> None:
        if self._on_frame is None:
            return
        if len(frame) > FRAME_BYTES_MAX or not is_node_id(to):
            self.dropped += 1
            self._warn("a frame was not sent: too long, or to no id of a node", bytes=len(frame), to=to[:40])
            return
        self._enqueue(to, frame)

    def announce(self, body: bytes) -> None:
        """Tell all nodes of the system; may be lost like any frame."""
        if self._on_frame is not None and len(body) <= FRAME_BYTES_MAX:
            self._enqueue("all", body)

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        if self._connection is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WRITE_OUT_S):
                    await self._written.wait()
        self._on_frame = self._on_state = None
        self._closed = True
        task.cancel()
        await asyncio.wait((task,), timeout=CLOSE_S)
        if self._ending:
            await asyncio.wait(self._ending, timeout=CLOSE_S)

    def _enqueue(self, to: str, body: bytes) -> None:
        self.posted += 1
        self._queue.append((to, body))
        self._queued_bytes += len(body)
        while self._queued_bytes > QUEUE_BYTES_MAX:
            _, old = self._queue.popleft()
            self._queued_bytes -= len(old)
            self.dropped += 1
        self._work.set()
        self._written.clear()

    async def _run(self) -> None:
        pause = PAUSE_S
        shunned: str | None = None
        while True:
            connection, why = await self._connect(shunned)
            if self._closed:  # and nats-py has swallowed the cancellation
                if connection is not None:
                    self._end(connection)
                return
            if connection is None:
                self._tell(False, why)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 (spreads nodes in time)
                pause = min(pause * 2, SHUT_OUT_PAUSE_S_MAX if SHUT_OUT in why else PAUSE_S_MAX)
                continue
            began = asyncio.get_running_loop().time()
            try:
                why = await self._serve(connection)
            finally:
                self._connection = None
                self._end(connection)
            shunned = connection.url
            self._tell(False, f"{connection.url}: {why}")
            if asyncio.get_running_loop().time() - began < PAUSE_S_MAX:
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 (as above)
                pause = min(pause * 2, PAUSE_S_MAX)
            else:
                pause = PAUSE_S

    async def _connect(self, shunned: str | None) -> tuple[Connection | None, str]:
        """To the first server that takes us; the one that was lost last is asked last."""
        reasons: list[str] = []
        for url in sorted(self._servers(), key=lambda one: one == shunned):
            connection = Connection(
                url,
                self._system,
                self._node,
                on_frame=self._frame_came,
                on_notice=self._on_notice,
                refused=self._refused,
            )
            try:
                await connection.open(self._login())
            except asyncio.CancelledError:
                self._end(connection)
                raise
            except CannotConnect as problem:
                self._end(connection)
                reasons.append(f"{url}: {problem}")
            except BadConfig as problem:
                return None, problem.text
            else:
                self.connections += 1
                return connection, ""
        return None, "no server of the bus lets this node in: " + ("; ".join(reasons) or "none is known")

    async def _serve(self, connection: Connection) -> str:
        """Until the connection is lost; why."""
        if self._foreign:
            for excess in await connection.excess():
                self._warn(
                    f"the NATS servers let this node {excess}: any holder of such a login could pose as a node of this "
                    "system. Set the permissions that `holdall nats-config` prints."
                )
            if self._closed:  # as above
                return "closed"
        self._connection = connection
        tasks = (asyncio.create_task(self._write(connection)), asyncio.create_task(_beat(connection)))
        try:
            if not connection.lost.done():
                self._tell(True, connection.url)
                if self._on_connected is not None:
                    self._on_connected()
            return await asyncio.shield(connection.lost)
        finally:
            # nats-py swallows a cancellation that comes while it flushes: the tasks must also see that it is over.
            if not connection.lost.done():
                connection.lost.set_result("closed")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, connection: Connection) -> None:
        while not connection.lost.done():
            if not self._queue:
                self._work.clear()
                self._written.set()
                await self._work.wait()
                continue
            to, body = self._queue.popleft()
            self._queued_bytes -= len(body)
            await connection.publish(to, body)

    def _frame_came(self, sender: str, frame: bytes) -> None:
        if self._on_frame is None:
            return
        if len(frame) > FRAME_BYTES_MAX:
            self._refused(f"a frame of {len(frame)} bytes from {sender}")
            return
        self.heard += 1
        self._on_frame(sender, frame)

    def _refused(self, what: str) -> None:
        self._warn("the bus refused something", what=what)

    def _end(self, connection: Connection) -> None:
        """In the background: a server that is gone may take a while to close, and the next one shall not wait for it."""
        task = asyncio.create_task(connection.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _tell(self, connected: bool, text: str) -> None:  # noqa: FBT001 (the shape of OnState)
        if self._on_state is not None and self._told != (connected, text):
            self._told = (connected, text)
            self._on_state(connected, text)


async def _beat(connection: Connection) -> None:
    while not connection.lost.done():
        await asyncio.sleep(BEAT_S)
        await connection.alive()

"""The blocking face of a gate: `with lease.gate("net.tx") as gate: gate.send(sock, data)`."""

import socket
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self
from weakref import WeakKeyDictionary

from holdall.client.blocking import LOOK_UP_SECONDS
from holdall.client.gate import Data, GateFace
from holdall.client.location_tenure import NegotiatedTenure
from holdall.client.taking import AGAIN_S, Taker
from holdall.model.durations import finite_duration
from holdall.model.errors import Unreachable


class Turns:
    """A lock for threads that lets them in in the order in which they came; those of `threading` do not promise that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line: deque[threading.Event] = deque()

    def __len__(self) -> int:
        """How many are in or wait."""
        return len(self._line)

    @contextmanager
    def held(self, until_s: float = float("inf")) -> Generator[bool]:
        """Whether it is one's turn; not, when that took longer than until this instant of the monotonic clock."""
        mine = threading.Event()
        with self._lock:
            self._line.append(mine)
            self._line[0].set()
        try:
            # In pieces: a signal just before a wait does not end it.
            while not mine.is_set() and (left_s := until_s - time.monotonic()) > 0:
                mine.wait(min(LOOK_UP_SECONDS, left_s))
            yield mine.is_set()
        finally:
            with self._lock:
                self._line.remove(mine)
                if self._line:
                    self._line[0].set()


class Gate(GateFace):
    """For any number of threads, which are let through in turn, a piece each. `with` closes it."""

    def __init__(self, tenure: NegotiatedTenure, taker: Taker) -> None:
        super().__init__(tenure, taker)
        self._turns = Turns()
        self._orders: WeakKeyDictionary[socket.socket, Turns] = WeakKeyDictionary()

    def take(self, size: int = 1, *, wait: float | str | None = None) -> None:
        """As the asyncio twin. A wait may last a second longer than `wait`, which is how long the node lets a question wait."""
        self._begin(size, len(self._turns))
        wait_ms = None if wait is None else finite_duration(wait, what="wait")
        until_s = float("inf") if wait_ms is None else time.monotonic() + wait_ms / 1000
        if not self._leave(size, least=size, until_s=until_s):
            raise self._not_within(wait_ms or 0)

    def send(self, to: socket.socket, data: Data) -> None:
        """As the asyncio twin, to a connected socket that blocks; an OSError of it is passed on."""
        self._begin(1, len(self._turns))
        view = memoryview(data).cast("B")
        with self._orders.setdefault(to, Turns()).held():
            while view:
                size = self._leave(len(view))
                to.sendall(view[:size])
                view = view[size:]

    def close(self) -> None:
        """As the asyncio twin."""
        self._closed = True
        if not self._turns:
            with suppress(Unreachable):
                self._taker.tell()
        self._taker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _leave(self, most: int, *, least: int = 1, until_s: float = float("inf")) -> int:
        """So many may leave now; 0: none could until then."""
        with self._turns.held(until_s) as is_mine:
            while is_mine:
                size = self._taken(min(most, self.piece))
                if size >= least:
                    return size
                if time.monotonic() >= until_s:
                    break
                time.sleep(AGAIN_S)
        return 0

    def _taken(self, size: int) -> int:
        """What may leave now; 0: nothing, as it came too late or the node is away."""
        try:
            piece = self._taker.take(size)
        except Unreachable:
            return 0
        if self._taker.is_late(piece) or not self._held():
            self._taker.put_back(piece.size)
            return 0
        return piece.size

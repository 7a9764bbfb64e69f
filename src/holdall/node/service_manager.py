"""Words to the service manager that started the node: ready, reloading, stopping, still alive (sd_notify(3)).

A few datagrams to a unix socket; without a service manager nothing is sent. Nothing here can keep a node from
serving: a manager that does not listen is none.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Self

from holdall.model.durations import show_duration

SOCKET_ENV = "NOTIFY_SOCKET"
WATCHDOG_ENV = "WATCHDOG_USEC"
WATCHDOG_PID_ENV = "WATCHDOG_PID"
MORE_TIME_S = 30.0
"""What a start that still waits (for the wall clock, for other nodes) asks for, again and again."""
ROUND_S = 10.0
"""Between two words of a start that waits; of a node that serves, at most."""
ROUNDS_PER_WATCHDOG = 3


class ServiceManager:
    """The service manager's socket, and how often it wants to hear from this process."""

    def __init__(self, address: str = "", *, watchdog_us: int = 0) -> None:
        """`address`: a path, or `@NAME` in the abstract name space; empty: there is no manager."""
        self.watchdog_us = watchdog_us
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket: socket.socket | None = None
        if address.startswith(("/", "@")):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] = os.environ) -> Self:
        """What the environment says. It is taken out of there: a command that the node starts is another service."""
        address = environment.pop(SOCKET_ENV, "")
        interval = environment.pop(WATCHDOG_ENV, "")
        meant = environment.pop(WATCHDOG_PID_ENV, "")
        for_us = meant in {"", str(os.getpid())}
        return cls(address, watchdog_us=int(interval) if for_us and interval.isdecimal() else 0)

    @property
    def listens(self) -> bool:
        """Whether there is somebody to tell."""
        return self._socket is not None

    @property
    def round_s(self) -> float:
        """Seconds between two signs of life; a third of what the watchdog allows, so that two may come late."""
        if not self.watchdog_us:
            return ROUND_S
        return min(ROUND_S, self.watchdog_us / 1_000_000 / ROUNDS_PER_WATCHDOG)

    def tell(self, **words: str | int) -> None:
        """One datagram of `NAME=value` lines."""
        if self._socket is None:
            return
        lines = "\n".join(f"{name}={_one_line(str(value))}" for name, value in words.items())
        # A full or a closed socket: the next word says it again, and the watchdog decides.
        with contextlib.suppress(OSError):
            self._socket.sendto(lines.encode(), self._address)

    def starting(self, text: str) -> None:
        """The start goes on, and needs more time than the unit's TimeoutStartSec."""
        self.tell(EXTEND_TIMEOUT_USEC=int(MORE_TIME_S * 1_000_000), STATUS=text)

    def ready(self, text: str) -> None:
        """The node serves."""
        self.tell(READY=1, STATUS=text)

    def reloading(self) -> None:
        """The configuration is being read; `ready` says that this is done."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.tell(RELOADING=1, MONOTONIC_USEC=now_us)

    def stopping(self) -> None:
        """The node gives everything back."""
        self.tell(STOPPING=1)

    async def keep_told(self, health: Callable[[], Mapping[str, object]]) -> None:
        """Signs of life from the loop that handles every event: where it stands still, none is sent.

        Until `health` says ok they ask for more time to start; then they feed the watchdog. Runs until cancelled;
        returns at once where nobody listens.
        """
        while self.listens:
            state = health()
            if state["ok"]:
                words = {"WATCHDOG": 1} if self.watchdog_us else {}
                self.tell(STATUS=status_text(state), **words)
            elif state["state"] == "starting":
                self.starting(status_text(state))
            await asyncio.sleep(self.round_s)

    def close(self) -> None:
        """Give the socket back."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def status_text(health: Mapping[str, object]) -> str:
    """What `systemctl status` shows, from what `/healthz` tells."""
    left = health.get("quarantine_ms")
    if health["state"] == "quarantine" and isinstance(left, int):
        return f"{health['node']}: quarantine, grants in {show_duration(left)}"
    return f"{health['node']}: {health['state']}"


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())

"""Tells when a process of this host is gone, without ever mistaking a later one with its number for it."""

import asyncio
import contextlib
import os
import select
from collections import OrderedDict
from collections.abc import Callable

from holdall.node.boot import process_start_ticks

_CALLS_MAX = 1024
"""Waiters kept for one process; the oldest are dropped (their sessions end by silence instead)."""
_POLL_S = 0.5


class Processes:
    """Watches processes through pidfds on the running loop; one descriptor a process, whoever waits for it."""

    def __init__(self) -> None:
        self._calls: dict[tuple[int, int], OrderedDict[str, Callable[[], None]]] = {}
        self._fds: dict[tuple[int, int], int] = {}

    def when_gone(self, pid: int, started: int, name: str, call: Callable[[], None]) -> None:
        """Call `call` when the process ends; at once when it is gone already. The same `name` replaces.

        `started` as in `process_start_ticks`; 0: judge by pid alone.
        """
        process = (pid, started)
        if process not in self._calls and not self._watch(process):
            call()
            return
        waiting = self._calls[process]
        waiting[name] = call
        if len(waiting) > _CALLS_MAX:
            waiting.popitem(last=False)

    def close(self) -> None:
        """Watch nothing any more."""
        for process in list(self._calls):
            self._unwatch(process)

    def _watch(self, process: tuple[int, int]) -> bool:
        pid, started = process
        if pid <= 0:
            return False
        loop = asyncio.get_running_loop()
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        except OSError:
            # No descriptors left: look again and again instead.
            fd = -1
        # The number is pinned by the descriptor now, so this answer can't grow old.
        if is_gone(pid, started):
            if fd >= 0:
                os.close(fd)
            return False
        self._calls[process] = OrderedDict()
        if fd >= 0:
            self._fds[process] = fd
            loop.add_reader(fd, self._ended, process)
        else:
            loop.call_later(_POLL_S, self._poll, process)
        return True

    def _poll(self, process: tuple[int, int]) -> None:
        if process not in self._calls:
            return
        if is_gone(*process):
            self._ended(process)
        else:
            asyncio.get_running_loop().call_later(_POLL_S, self._poll, process)

    def _ended(self, process: tuple[int, int]) -> None:
        calls = self._unwatch(process)
        for call in calls.values():
            call()

    def _unwatch(self, process: tuple[int, int]) -> OrderedDict[str, Callable[[], None]]:
        fd = self._fds.pop(process, -1)
        if fd >= 0:
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)
        return self._calls.pop(process, OrderedDict())


def is_gone(pid: int, started: int) -> bool:
    """Whether this very process has ended; one that nobody has waited for yet (a zombie) counts as ended."""
    if pid <= 0:
        return True
    now = process_start_ticks(pid)
    if now == 0 or (started and now != started):
        return True
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    try:
        return bool(poller.poll(0))
    finally:
        os.close(fd)

"""Signals as something that a loop can wait for, and what this process was started to ignore."""

import contextlib
import os
import signal
from collections.abc import Iterable

PASSED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGWINCH,
)
"""What somebody who signals `holdall run` means for the command."""


class Signals:
    """From now on signals arrive in `take`, as numbers; `fileno` becomes readable. Main thread only.

    Signals that were ignored when this process started (`nohup`, a shell's background jobs) stay ignored.
    """

    def __init__(self, numbers: Iterable[int] = PASSED_ON) -> None:
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._before_wakeup = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._before: dict[int, object] = {}
        self.ignored: tuple[int, ...] = ()
        for number in (*numbers, signal.SIGCHLD):
            if signal.getsignal(number) == signal.SIG_IGN and number != signal.SIGCHLD:
                self.ignored = (*self.ignored, int(number))
            else:
                self._before[number] = signal.signal(number, _note)

    def fileno(self) -> int:
        return self._reading

    def poke(self) -> None:
        """From any thread: let the waiting end, with nothing to take."""
        with contextlib.suppress(OSError):
            os.write(self._writing, b"\0")

    def take(self) -> list[int]:
        """The signals that have come, in their order, without SIGCHLD."""
        numbers: list[int] = []
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._reading, 512):
                numbers += [number for number in data if number not in {0, signal.SIGCHLD}]
        return numbers

    def restore(self) -> None:
        """As it was before."""
        signal.set_wakeup_fd(self._before_wakeup)
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]
        self._before.clear()
        os.close(self._reading)
        os.close(self._writing)


def _note(_number: int, _frame: object) -> None:
    """The number is in the pipe already; Python only needs a handler to put it there."""

"""What is done some time before a command's end: a signal to it, or a command beside it; and what became of that."""

import signal
from collections.abc import Callable

from holdall.guardian import group as processes
from holdall.guardian.orders import BeforeEnd


class Farewell:
    """`order` None: nothing is to be done."""

    def __init__(self, order: BeforeEnd | None) -> None:
        self.outcome = ""
        """Empty: it was not done."""
        self._order = order
        self._pid = 0

    @property
    def lead_ms(self) -> int | None:
        """How long before TERM."""
        return None if self._order is None else self._order.lead_ms

    def begin(self, send: Callable[[int], None]) -> None:
        """Do it now; `send` gives a signal to the command's process group. What can't be done ends nothing."""
        if self._order is None:
            return
        if self._order.signal:
            send(self._order.signal)
            self.outcome = f"signal {signal.Signals(self._order.signal).name} was sent"
        if self._order.command:
            try:
                self._pid = processes.start_beside(self._order.command)
                self.outcome = "was still running at the end"
            except OSError as problem:
                self.outcome = f"could not be started: {problem}"

    def hear(self, ended: processes.Ended) -> None:
        """A child has ended, perhaps ours."""
        if ended.pid == self._pid:
            self._pid = 0
            self.outcome = (
                f"ended with {ended.code}" if ended.signal is None else f"was ended by signal {ended.signal}"
            )

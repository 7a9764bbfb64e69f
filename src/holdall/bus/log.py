"""What the bus needs of a logger, and a way to say a thing that repeats only now and then."""

from collections.abc import Callable
from time import monotonic
from typing import Protocol

EVENTS_MAX = 256
"""Remembered at a time; texts come from outside too."""


class Log(Protocol):
    """A logger with named values, such as the node's."""

    def info(self, event: str, **values: object) -> object:
        """News that needs nobody."""
        ...

    def warning(self, event: str, **values: object) -> object:
        """Something a person may want to look at."""
        ...

    def error(self, event: str, **values: object) -> object:
        """Something a person must look at."""
        ...


class Seldom:
    """Passes an event on a few times a minute; then the next minute's first says how many were left out."""

    def __init__(
        self,
        log: Callable[..., object],
        *,
        times: int = 10,
        every_s: float = 60.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._log = log
        self._times = times
        self._every_s = every_s
        self._clock = clock
        self._said: dict[str, tuple[float, int]] = {}
        """Event: (begin of its minute, how often it came since)."""

    def __call__(self, event: str, **values: object) -> None:
        """`values` are those of the time when it is said."""
        now = self._clock()
        began, count = self._said.get(event, (now, 0))
        left_out = max(0, count - self._times)
        if now - began >= self._every_s:
            began, count = now, 0
        elif left_out or count == self._times:
            self._said[event] = (began, count + 1)
            return
        if len(self._said) > EVENTS_MAX:
            self._said.clear()
        self._said[event] = (began, count + 1)
        more = {"left_out": left_out} if left_out else {}
        self._log(event, **values, **more)

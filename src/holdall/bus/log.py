"""What the bus needs of a logger, and a way to say a thing that repeats only now and then."""

from collections.abc import Callable
from time import monotonic
from typing import Protocol


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
    """Passes a text on at most once in `every_s` seconds each; the next time with the number left out."""

    def __init__(
        self, log: Callable[..., object], *, every_s: float = 60.0, clock: Callable[[], float] = monotonic
    ) -> None:
        self._log = log
        self._every_s = every_s
        self._clock = clock
        self._said: dict[str, tuple[float, int]] = {}

    def __call__(self, event: str, **values: object) -> None:
        """`values` are those of the time when it is said."""
        now = self._clock()
        said_at, left_out = self._said.get(event, (float("-inf"), 0))
        if now - said_at < self._every_s:
            self._said[event] = (said_at, left_out + 1)
            return
        if len(self._said) > 256:  # texts come from outside, so they are not remembered without end
            self._said.clear()
        self._said[event] = (now, 0)
        more = {"left_out": left_out} if left_out else {}
        self._log(event, **values, **more)

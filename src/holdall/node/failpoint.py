"""Places where a test can end this process: `HOLDALL_FAIL=NAME:kill[:N]` (at the N-th visit; also `pause`).

A crash test visits each name once. In normal use the environment variable is missing and a visit costs one test.
"""

import os
import signal

ENV = "HOLDALL_FAIL"

NAMES = (
    "boot-before-commit",
    "boot-after-commit",
    "turn-before-commit",
    "turn-after-commit",
    "turn-before-send",
    "turn-after-send",
)

_SIGNALS = {"kill": signal.SIGKILL, "pause": signal.SIGSTOP}


class Failpoint:
    """What the environment asks for. Raises ValueError when it can't be read."""

    def __init__(self, order: str) -> None:
        self._name, _, rest = order.partition(":")
        action, _, count = rest.partition(":")
        if order and (self._name not in NAMES or action not in _SIGNALS or not (count or "1").isdigit()):
            raise ValueError(
                f"{ENV}={order!r}: write NAME:kill or NAME:pause:N, NAME one of {', '.join(NAMES)}"
            )
        self._signal = _SIGNALS.get(action)
        self._left = int(count or "1")

    def visit(self, name: str) -> None:
        """Carry the order out when it is for this place and this visit."""
        if self._signal is None or name != self._name:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), self._signal)

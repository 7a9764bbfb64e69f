"""The most that left within any window of one length: what a rate's promise is judged by."""

from collections import deque
from collections.abc import Iterable


class BusiestWindow:
    """Fed with what leaves, in order of time; keeps no more than one window of it.

    A window is closed: what leaves at both its ends counts.
    """

    def __init__(self, length_ns: int) -> None:
        self.length_ns = length_ns
        self.most = 0
        """Bytes in the busiest window so far."""
        self.total = 0
        self._inside: deque[tuple[int, int]] = deque()
        self._sum = 0

    def sent(self, now_ns: int, size: int) -> None:
        """So many bytes left at this instant, which is no earlier than the one before."""
        self.total += size
        self._sum += size
        self._inside.append((now_ns, size))
        self.most = max(self.most, self.recent(now_ns))

    def recent(self, now_ns: int) -> int:
        """Bytes in the window that ends now."""
        while self._inside and self._inside[0][0] < now_ns - self.length_ns:
            self._sum -= self._inside.popleft()[1]
        return self._sum


def busiest(sent: Iterable[tuple[int, int]], length_ns: int) -> int:
    """Bytes in the busiest window of a whole record of (instant, bytes), in order of time."""
    window = BusiestWindow(length_ns)
    for now_ns, size in sent:
        window.sent(now_ns, size)
    return window.most

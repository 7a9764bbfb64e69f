"""What a lease's holder used of a rate, and whether the host has kept its promise, second by second.

A second counts as demanded when the holder offered at least what was granted for it: what left in it, and what still waited
at its end. A demanded second is violated when less than 95 % of the grant left. Source: lease negotiation, section 3.5.

Instants are nanoseconds of one clock that never goes back.
"""

from holdall.leases.buckets import NS
from holdall.leases.windows import BusiestWindow
from holdall.model.terms import Guarantee, TermState, Usage

KEPT_PERCENT = 95


class Meter:
    """Of one term of one holder, from its first grant on. `granted` is bytes a second."""

    def __init__(self, granted: int, now_ns: int) -> None:
        self.guarantee: Guarantee = "not_determined"
        """Of the last whole second, once one has been demanded."""
        self.violated_s = 0
        """Seconds in which the promise was not kept."""
        self.waiting = 0
        """Bytes that were offered and have not left."""
        self._window = BusiestWindow(NS)
        self._granted = granted
        self._began_ns = self._seen_ns = now_ns
        self._sent = 0
        """Since the second began."""
        self._promised = 0
        """Bytes x ns, since the second began."""

    def grants(self, granted: int, now_ns: int) -> None:
        """Another grant from now on; 0 while there is none."""
        self._pass(now_ns)
        self._granted = granted

    def offered(self, size: int, now_ns: int) -> None:
        """So much waits to leave."""
        self._pass(now_ns)
        self.waiting += size

    def left(self, size: int, now_ns: int) -> None:
        """So much of what waits has left."""
        self._pass(now_ns)
        self.waiting -= size
        self._sent += size
        self._window.sent(now_ns, size)

    def came_back(self, size: int, now_ns: int) -> None:
        """So much of what had left has not been sent after all."""
        self._pass(now_ns)
        self._sent -= size
        self._window.sent(now_ns, -size)

    def given_up(self, size: int, now_ns: int) -> None:
        """So much of what waits will not leave."""
        self._pass(now_ns)
        self.waiting -= size

    def usage(self, now_ns: int) -> Usage:
        """In all, in the second that ends now, and in the busiest second."""
        return Usage(self._window.total, self._window.recent(now_ns), self._window.most)

    def state(self, now_ns: int) -> TermState:
        """Whether it was used in the second that ends now, while there is a grant."""
        self._pass(now_ns)
        if self._window.recent(now_ns):
            return "ready.processing"
        return "ready.idle" if self._granted else "completed"

    def status(self, now_ns: int) -> tuple[Usage, TermState, Guarantee]:
        """All of it, with the seconds that are over judged."""
        self._pass(now_ns)
        return self.usage(now_ns), self.state(now_ns), self.guarantee

    # ------------------------------------------------------------ inside

    def _pass(self, now_ns: int) -> None:
        """Judge each second that is over. While nothing happened all seconds are alike, so no loop goes over them."""
        ends_ns = self._began_ns + NS
        if now_ns >= ends_ns:
            self._promised += self._granted * (ends_ns - self._seen_ns)
            self._judge(1)
            more = (now_ns - ends_ns) // NS
            self._sent, self._promised = 0, self._granted * NS
            if more:
                self._judge(more)
            self._began_ns = self._seen_ns = ends_ns + more * NS
            self._promised = 0
        self._promised += self._granted * (now_ns - self._seen_ns)
        self._seen_ns = now_ns

    def _judge(self, seconds: int) -> None:
        demanded = self._promised > 0 and (self._sent + self.waiting) * NS >= self._promised
        if demanded and self._sent * NS * 100 < self._promised * KEPT_PERCENT:
            self.guarantee = "violated"
            self.violated_s += seconds
        elif demanded or self.guarantee != "not_determined":
            self.guarantee = "fulfilled"

"""Rates that hold over every window: a bucket is known by the instant at which it will be level, full again.

Each byte sent moves that instant by 1 / rate; sending is allowed as long as it lies no further ahead than the depth takes
to fill. (What is kept is how much is missing at the instant of the last question: the same, and exact when the rate
changes or is 0.) So a sender that is woken late is repaid: the credit of the time it slept has gathered, up to the depth, and the
long-run rate is exact, where a pause after each piece would lose all lateness for good. Over any window of W seconds no more
than rate x W + depth bytes leave. The bucket of a lease stands under a root, the host's: a byte needs credit from both, so
the sum over all leases obeys the root's bound. Source: lease negotiation, section 8.1.

Instants are nanoseconds of one clock that never goes back. Arithmetic is exact: inside, time is counted in bytes x ns.
"""

NS = 1_000_000_000
DEPTH_MS = 50
"""A bucket holds at least what its rate sends in this time, so that timers may be so late."""
QUANTUM_MIN, QUANTUM_MAX = 1_500, 65_536


def quantum_for(rate: int) -> int:
    """How many bytes to take at a time at this rate: a hundredth of a second's, within bounds."""
    return max(QUANTUM_MIN, min(QUANTUM_MAX, rate // 100))


def depth_for(rate: int, quantum: int) -> int:
    """How much may leave at once: two quanta, or what the rate sends in 50 ms, whichever is more."""
    return max(2 * quantum, rate * DEPTH_MS // 1_000)


class Bucket:
    """Permission for bytes at `rate` bytes a second, `depth` of them at once; full at the start.

    A rate of 0 permits nothing until it is changed. `root`: a bucket from which the same bytes are taken.
    """

    def __init__(self, rate: int, depth: int, *, root: "Bucket | None" = None) -> None:
        if rate < 0 or depth < 1:
            raise ValueError("a rate is 0 or more bytes a second, a depth 1 or more bytes")
        self.rate, self.depth, self.root = rate, depth, root
        self._lacking = 0
        """Bytes x ns that were missing at `_seen_ns`: 0 is full, `depth` x NS is empty."""
        self._seen_ns: int | None = None

    def take(self, size: int, now_ns: int) -> int | None:
        """Take `size` bytes from here and from the root: 0, or nothing: how many ns to wait before asking again.

        None: a rate is 0, so no time is told. Raises ValueError for more bytes than a depth on the way holds: they could
        never leave at once.
        """
        wait_ns = self.wait_ns(size, now_ns)
        if wait_ns == 0:
            self.charge(size, now_ns)
        return wait_ns

    def wait_ns(self, size: int, now_ns: int) -> int | None:
        """As `take`, but nothing is taken."""
        if not 0 < size <= self.depth:
            raise ValueError(f"{size} bytes can't be taken at once from a bucket of {self.depth}")
        root_ns = 0 if self.root is None else self.root.wait_ns(size, now_ns)
        self._refill(now_ns)
        over = self._lacking + size * NS - self.depth * NS
        if root_ns is None or (over > 0 and not self.rate):
            return None
        return max(root_ns, -(-over // self.rate) if over > 0 else 0)

    def charge(self, size: int, now_ns: int) -> None:
        """So many bytes leave whether there is credit or not; those that follow wait for them."""
        if self.root is not None:
            self.root.charge(size, now_ns)
        self._refill(now_ns)
        self._lacking += size * NS

    def put_back(self, size: int, now_ns: int) -> None:
        """Of what was taken, so much has not been sent after all."""
        if self.root is not None:
            self.root.put_back(size, now_ns)
        self._refill(now_ns)
        self._lacking = max(0, self._lacking - size * NS)

    def change(self, now_ns: int, *, rate: int, depth: int) -> None:
        """Another rate and depth from now on.

        A bucket that was emptied at a high rate is just empty at a low one: to wait until the low rate has filled what the
        high one took would punish for what was allowed.
        """
        if rate < 0 or depth < 1:
            raise ValueError("a rate is 0 or more bytes a second, a depth 1 or more bytes")
        self._refill(now_ns)
        self.rate, self.depth = rate, depth
        self._lacking = min(self._lacking, depth * NS)

    def level_at_ns(self, now_ns: int) -> int | None:
        """When it will be full if nothing more is taken, rounded up; None: never, at a rate of 0."""
        self._refill(now_ns)
        if not self._lacking:
            return now_ns
        return now_ns - (-self._lacking // self.rate) if self.rate else None

    def _refill(self, now_ns: int) -> None:
        if self._seen_ns is not None and now_ns > self._seen_ns:
            self._lacking = max(0, self._lacking - self.rate * (now_ns - self._seen_ns))
        self._seen_ns = now_ns if self._seen_ns is None else max(now_ns, self._seen_ns)

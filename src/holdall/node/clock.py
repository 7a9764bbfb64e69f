"""The node's two clocks. Deadlines use the first, people are shown the second."""

import time


def boottime_ms() -> int:
    """Milliseconds since the kernel booted, sleep included; no setting of the clock moves it."""
    return boottime_ns() // 1_000_000


def boottime_ns() -> int:
    """As `boottime_ms`, for rates: a byte at 100 MB/s takes 10 ns."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def wall_ms() -> int:
    """Unix milliseconds as the wall clock shows them; may jump."""
    return time.time_ns() // 1_000_000

"""The clock of all deadlines: it goes on while the machine sleeps, and nobody can set it."""

import time


def boottime_ms() -> int:
    """CLOCK_BOOTTIME in whole milliseconds. One clock for all processes of a host."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

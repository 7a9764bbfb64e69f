"""The clock of all deadlines, CLOCK_BOOTTIME: it goes on while the machine sleeps, and nobody can set it."""

import ctypes
import os
import time

_ABSOLUTE = 1
_libc = ctypes.CDLL(None, use_errno=True)


class _Moment(ctypes.Structure):
    """`struct timespec`."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Alarm(ctypes.Structure):
    """`struct itimerspec`; interval 0: rings once."""

    _fields_ = (("interval", _Moment), ("moment", _Moment))


def boottime_ms() -> int:
    """CLOCK_BOOTTIME in whole milliseconds. One clock for all processes of a host."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class BootTimer:
    """A file that becomes readable at a moment of CLOCK_BOOTTIME, also when that passed while the machine slept.

    (The time limit of `poll` counts CLOCK_MONOTONIC, which stands still in the meantime.)
    """

    def __init__(self) -> None:
        self._file: int = _libc.timerfd_create(time.CLOCK_BOOTTIME, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"no timer on CLOCK_BOOTTIME: {os.strerror(number)}")

    def fileno(self) -> int:
        return self._file

    def arm(self, at_ms: int | None) -> None:
        """Ring at `at_ms` (at once when that has passed); None: never. Takes back an earlier ring."""
        # A zero moment would disarm the timer.
        whole = 0 if at_ms is None else max(at_ms, 1)
        alarm = _Alarm(_Moment(0, 0), _Moment(whole // 1000, whole % 1000 * 1_000_000))
        if _libc.timerfd_settime(self._file, _ABSOLUTE, ctypes.byref(alarm), None) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

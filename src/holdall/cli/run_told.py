"""What a run tells whoever has started it for somebody else: the lease that its command has.

The `holdall run` on the node of a command tells it to that node, over a pipe; the one that has asked for the command writes
it down for the attempt of a job that it is. Neither waits for it or depends on it.
"""

import contextlib
import os
import stat

import msgspec

from holdall.client.scope import FACTS_ENV
from holdall.model.frames import LeaseView
from holdall.model.run_frames import GRANT_ENV, LEASE_BYTES_MAX, RunLease


def tell_starter(lease: LeaseView) -> None:
    """Over the pipe whose number the environment has, if it has one; the command gets neither."""
    number = os.environ.pop(GRANT_ENV, "")
    if not (number.isascii() and number.isdecimal() and len(number) < 6):
        return
    from holdall.jobs.facts import units_shown

    units = units_shown([f"{one.pool}/{one.name}@{one.node}#{one.fence}" for one in lease.units])
    told = msgspec.json.encode(RunLease(lease.lease, units))
    with contextlib.suppress(OSError):
        if stat.S_ISFIFO(os.fstat(int(number)).st_mode) and len(told) <= LEASE_BYTES_MAX:
            os.write(int(number), told)
            os.close(int(number))


def write_down(lease: RunLease) -> None:
    """Into the file that the environment names, if it names one."""
    file = os.environ.get(FACTS_ENV, "")
    if not file:
        return
    from holdall.jobs.facts import Got, units_shown

    line = msgspec.json.encode(Got(lease.lease, units_shown(lease.units))) + b"\n"
    with contextlib.suppress(OSError):
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

"""Becomes a program that the kernel kills when the process that started it dies. Run by path, outside any package.

Usage: launcher.py PARENT_PID PROGRAM [ARGUMENT…]

The order is given here rather than between fork and exec of the node, where other threads may hold locks.
It holds across exec (prctl(2), PR_SET_PDEATHSIG), and whoever got a new parent before it was given has none to serve.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Never returns."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        sys.exit(1)
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execv(command[0], command)  # noqa: S606 (to become that program is the point)


if __name__ == "__main__":
    main()

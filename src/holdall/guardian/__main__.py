"""`python -m holdall.guardian FD -- COMMAND ARGS…`: started by `holdall run` and by nodes, not by people."""

import os
import signal
import socket
import sys

import msgspec

from holdall.guardian import orders
from holdall.guardian.group import become_subreaper
from holdall.guardian.keeper import Keeper

DEAF_TO = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)
"""Meant for the wrapper, which says what to do, or for the command; only KILL ends a guardian from outside."""


def main(arguments: list[str]) -> int:
    """Guard one command. The status says nothing; the wrapper has been told everything."""
    if len(arguments) < 3 or arguments[1] != "--" or not arguments[0].isdecimal():
        sys.stderr.write("holdall.guardian is started by `holdall run`; see: holdall run --help\n")
        return 64
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    wake, wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    wrapper = socket.socket(fileno=int(arguments[0]))
    wrapper.set_inheritable(False)
    become_subreaper()
    try:
        start = orders.read_order(wrapper.recv(orders.ORDER_BYTES_MAX))
    except (OSError, msgspec.DecodeError):
        return 0  # the wrapper has ended before it said what to do
    if not isinstance(start, orders.Start):
        return 64
    wrapper.setblocking(False)
    Keeper(wrapper, wake, start, arguments[2:]).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

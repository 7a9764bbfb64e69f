"""What a process start brings along that no configuration says: random numbers, the clock, whom the bus knows."""

import os
import secrets

import msgspec

from holdall.node.clock import wall_ms
from holdall.parties.directory.messages import Member

_NUMBER_BITS = 53


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a node's process."""

    pid: int
    uid: int
    instance: str = "1"
    """Random text: two processes with one identity differ in it."""
    number: int = 0
    """The same for the link, below 2**53."""
    started_wall_ms: int = 0
    address: str = ""
    """Where people reach the node, as other nodes are told."""
    members: tuple[Member, ...] = ()
    """Nodes that the bus knows of."""


def this_process(address: str, members: tuple[Member, ...]) -> Process:
    """This one, with fresh random numbers."""
    return Process(
        pid=os.getpid(),
        uid=os.geteuid(),
        instance=secrets.token_hex(16),
        number=secrets.randbits(_NUMBER_BITS - 1) + 1,
        started_wall_ms=wall_ms(),
        address=address,
        members=members,
    )

"""The first moments of a manager that has begun to lead: its hosts report, and requests wait until it knows what there is.

Without that, a location's limits would be judged by what an earlier manager knew and this one does not. It waits for
three heartbeats at most: a host that is silent for longer is not waited for, and what its leases take of a limit is missed
until it speaks, or until they have ended. Where the location has no policy nothing waits, as hosts know their own limits.
Source: lease negotiation, section 10.4.
"""

from collections.abc import Hashable, Iterable

import msgspec

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Asker
from holdall.leases.negotiation.members import SUSPECT_BEATS
from holdall.machine.contract import Address

SETTLE_TIMER = "settle"
KEPT_MOST = 1000
"""Requests that wait; more are told to come again."""


class Kept(msgspec.Struct, frozen=True):
    """One request that waits."""

    agent: Address
    asker: Asker
    message: m.RequestLease


class Settling:
    """Over when every host that was known has reported; where none was known, when the time is over."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self.waits = set(hosts)
        self.kept: dict[tuple[str, str], Kept] = {}
        """By (holder, request id), so that a request that comes again waits once."""

    def keep(self, kept: Kept) -> bool:
        """False: there are too many."""
        asked = kept.asker.holder, kept.message.request.request
        if asked not in self.kept and len(self.kept) >= KEPT_MOST:
            return False
        self.kept[asked] = kept
        return True

    def reported(self, host: str) -> bool:
        """Whether it was the last one."""
        if host not in self.waits:
            return False
        self.waits.remove(host)
        return not self.waits

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return tuple(sorted(self.waits)), repr(sorted(self.kept.items()))

    def copy(self) -> "Settling":
        """An independent twin."""
        twin = Settling(self.waits)
        twin.kept = dict(self.kept)
        return twin


def settle_ms(heartbeat_ms: int) -> int:
    """The longest that a request waits."""
    return SUSPECT_BEATS * heartbeat_ms

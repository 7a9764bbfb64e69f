"""Has live leases looked at again, as long as a policy in force may end them: after each reload, and as time goes on.

A condition may come to hold at an hour, so there is no event to wait for.
"""

import asyncio
from collections.abc import Callable

from holdall.leases.negotiation.host_messages import Review
from holdall.machine.contract import Address, Message
from holdall.machine.host import Host
from holdall.parties.location.messages import HOST, LOCATION
from holdall.parties.messages import NODE

EVERY_S = 5.0


class Reviewing:
    """Of one node. `put` gives a message to one of the node's parts."""

    def __init__(
        self, host: Host, put: Callable[[str, Address, Message], None], may_revoke: Callable[[], bool]
    ) -> None:
        self._host, self._put, self._may_revoke = host, put, may_revoke
        self.grace_ms = 0
        self._timer: asyncio.TimerHandle | None = None

    def now(self, grace_ms: int) -> None:
        """Look now, and every 5 s from now on. What a rule ends has this grace."""
        self.close()
        self.grace_ms = grace_ms
        if self._may_revoke():
            for part in (LOCATION, HOST):
                if part in self._host.parts:
                    self._put(part, Address(self._host.node, NODE), Review(grace_ms))
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self.now, grace_ms)

    def close(self) -> None:
        """Nothing is looked at any more."""
        if self._timer is not None:
            self._timer.cancel()

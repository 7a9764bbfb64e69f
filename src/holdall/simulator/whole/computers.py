"""One computer of a run: a clock that runs a little wrong, a node with what its driver keeps, clients at its socket.

Sockets are reliable and keep the order of frames until they break; commands of pools take a while and fail at times;
processes are watched as a node's driver watches them.
"""

import random

from holdall.leases.messages import HookDone, RunHook
from holdall.machine.contract import Address, ClockRead, Message, Received
from holdall.machine.host import Arrival
from holdall.parties.messages import AGENT, CLAIMANT, MANAGER, NODE, SESSION
from holdall.simulator.sites import Site
from holdall.simulator.whole.clients import WholeClient

WALL_MS = 1_790_000_000_000
"""What a wall clock showed when the run began, give or take `SKEW_MS`."""
SKEW_MS = 60_000
BOOTED_MS = 5_000
"""How long the kernels had run by then."""
SOCKET_MS = 0.1
"""A frame's way between client and node."""


class Computer:
    """Its node may be away, or known by another id, while it stays the same computer."""

    def __init__(self, number: int, name: str, site: Site, chance: random.Random, *, drift: float) -> None:
        self.number = number
        self.name = name
        """Its node's, for people; always the same."""
        self.site = site
        self.rate = 1.0 + drift * chance.choice((-1.0, 1.0, chance.uniform(-1, 1)))
        """Bounds are met at their edges, so these are drawn more often than the middle."""
        self.inbox: list[Arrival] = []
        self.due: list[str] = []
        self.is_waking = False
        self.busy_until = 0.0
        self.connections: dict[str, WholeClient] = {}
        """Open ones, by id."""
        self.watched: dict[str, int] = {}
        """Session -> process that the node wants to be told of when it ends."""
        self.broken: dict[str, int] = {}
        """Connection that has ended -> its process, which lives on."""
        self.is_open = False
        """Clients can connect: the other nodes have nothing against this start."""
        self.lives = 1
        """It has lost its disk one time less often."""
        self.buried: list[str] = []
        """Ids that it had before, which nobody has told the others to forget yet."""
        self._booted = 0.0
        self._skew = chance.uniform(-SKEW_MS, SKEW_MS)

    def clock(self, now: float) -> float:
        """Milliseconds of its own since the run began."""
        return now * self.rate

    def reads(self, now: float) -> ClockRead:
        """What its clocks show."""
        boot = (now - self._booted) * self.rate + BOOTED_MS
        return ClockRead(wall_ms=int(WALL_MS + self._skew + self.clock(now)), boot_ms=int(boot))

    def rebooted(self, now: float) -> None:
        """Another kernel boot: its clock begins anew."""
        self._booted = now

    def told(self, now: float) -> list[Arrival]:
        """What goes first in every turn."""
        read = Received(Address(self.site.host.node, NODE), self.reads(now))
        return [Arrival(part, read) for part in (AGENT, CLAIMANT, MANAGER)]

    def from_connection(self, connection: str, message: Message) -> Arrival:
        """What reaches the agent over a connection."""
        return Arrival(AGENT, Received(Address(self.site.host.node, SESSION + connection), message))

    def fallen(self) -> list[tuple[str, WholeClient]]:
        """The node's process is gone, and what its driver had in memory. Returns its connections, which break."""
        self.is_open = False
        gone = list(self.connections.items())
        self.connections.clear()
        self.watched.clear()
        self.broken.clear()
        self.inbox.clear()
        self.due.clear()
        return gone


def hook_result(order: RunHook, chance: random.Random, *, fails: float) -> tuple[float, HookDone]:
    """How long a command takes (ms), and how it ends."""
    ok = chance.random() >= fails
    return chance.uniform(5, 150), HookDone(order.run, ok, "" if ok else "exit status 1")

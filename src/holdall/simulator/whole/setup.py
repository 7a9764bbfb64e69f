"""What one run of whole nodes consists of, as plain values: enough to do it again, frame by frame.

Times are milliseconds of true time; every computer, with its node and its clients, has a clock of its own that runs a
little faster or slower.
"""

from collections import Counter
from collections.abc import Callable
from typing import ClassVar

import msgspec

from holdall.machine.host import Host
from holdall.parties.directory.messages import DirectorySettings, Member
from holdall.parties.messages import AgentSettings, PoolSpec
from holdall.parties.whole import WholeNode, whole_node
from holdall.simulator.faults import Blows

CALM = 0.7
"""Faults begin before this share of the duration,"""
QUIET = 0.85
"""and have ended by this one."""
COMMON = "gpu"
"""A pool of this name is on every node (`WholeSetup.common`)."""
UID = 1000
"""User of all nodes and clients."""

_NODE_FAULTS = ("crash", "restart", "reboot", "unsynced", "wipe", "pause")
_BUS_FAULTS = ("split", "oneway", "bridge", "bus", "slow")
_CLIENT_FAULTS = ("kill", "nap")


class WholeFaults(Blows, frozen=True, kw_only=True):
    """Numbers of blows during a run, and shares of frames that are struck."""

    kinds: ClassVar[tuple[str, ...]] = (*_NODE_FAULTS, *_BUS_FAULTS, *_CLIENT_FAULTS)
    shares: ClassVar[tuple[str, ...]] = ("loss", "duplicate", "reorder")

    crash: int = 0
    """A node dies within a turn, after its save and before some of its sends, and comes up with its records."""
    restart: int = 0
    """A node dies between two turns and comes up with its records."""
    reboot: int = 0
    """A node's machine goes down, its clients with it, and comes up with another boot id and the whole journal."""
    unsynced: int = 0
    """As reboot, but the journal lacks its last turns."""
    wipe: int = 0
    """A node comes up with nothing kept; its clients live on."""
    pause: int = 0
    """A node stands still, and goes on where it was."""
    split: int = 0
    """The nodes fall into two groups that hear nothing of each other."""
    oneway: int = 0
    """One group hears nothing of the other, which hears all."""
    bridge: int = 0
    """Two groups hear nothing of each other, but one node hears both."""
    bus: int = 0
    """Nobody hears anybody."""
    slow: int = 0
    """Every frame takes up to a whole ttl."""
    kill: int = 0
    """A client is killed."""
    nap: int = 0
    """A client stands still for up to two leases."""
    loss: float = 0.0
    """Share of frames that never arrive."""
    duplicate: float = 0.0
    """Share of frames that arrive twice, the second time later."""
    reorder: float = 0.0
    """Share of frames that later ones of the same node overtake. All others keep their order, as on a connection."""


class Wants(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pools there are, and what clients want of them."""

    pools: int = 2
    """Pools that only one node has, on each node: `p000-0`, `p000-1`, …"""
    units: int = 2
    """Units of each of them."""
    common: int = 1
    """Units of the pool `gpu` on every node; 0: there is none."""
    clients: int = 2
    """On each node."""
    reach: int = 3
    """A client's claims go to the pools of so many nodes: its own and those after it."""
    k: int = 3
    """At most so many pools in a claim."""
    hold_ms: int = 1_500
    """Mean time of use; at most three times as long."""
    think_ms: int = 2_500
    """Mean pause before the next claim."""
    now_share: float = 0.1
    """Of claims that do not wait."""
    give_up_share: float = 0.1
    """Of claims that wait for a bounded time, or are cancelled."""
    or_share: float = 0.15
    """Of needs with an alternative."""
    common_share: float = 0.3
    """Of claims that want a unit of the common pool, wherever it is."""
    end_share: float = 0.1
    """Of claims with a hard end."""
    wide: int = 0
    """The first client wants all units of all pools of so many nodes; 0: it is like the others."""
    hooks: bool = False
    """The last pool of each node has commands before and after each lease."""


class WholeSetup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run."""

    protocol: str = "chain"
    nodes: int = 3
    wants: Wants = Wants()
    faults: WholeFaults = WholeFaults()
    seed: int = 1
    duration_ms: int = 120_000
    """Clients begin no claim after it; then everybody who waits must still be served."""
    ttl_ms: int = 6_000
    ttl_max_ms: int = 10_000
    margin_ms: int = 100
    rho_ppm: int = 20_000
    drift: float = 0.02
    """Rates of clocks are spread over 1 - drift to 1 + drift."""
    delay_ms: float = 5.0
    """Mean time of a frame on the bus."""
    jitter: bool = True
    """False: every frame takes exactly as long, and a turn no time, so that delays can be counted."""
    passes: int = 8
    passes_per_ahead: int = 1
    try_from: int = 1000

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= 1000 or self.wants.pools < 1 or self.wants.clients < 0:
            raise ValueError("a run has 1 to 1000 nodes with 1 pool or more each")
        if not 10_000 <= self.duration_ms <= 10**9:
            raise ValueError("duration is 10 s to 10^6 s")
        if not 1_000 <= self.ttl_ms <= self.ttl_max_ms:
            raise ValueError("ttl is at least 1 s and at most ttl_max")
        if not 0 <= self.drift * 1e6 <= self.rho_ppm:
            raise ValueError("clocks drift by more than the rate that nodes allow for")

    @property
    def quarantine_ms(self) -> int:
        """ttl_max (1 + rho): no lease granted before can be alive after it."""
        return -(-self.ttl_max_ms * (1_000_000 + self.rho_ppm) // 1_000_000)

    @property
    def drain_ms(self) -> int:
        """Once clients claim no more, everything is over within this: three of the longest leases, and all holds in a row."""
        clients = self.nodes * self.wants.clients
        return 3 * self.quarantine_ms + 3 * clients * self.wants.hold_ms + 30_000

    def pools_on(self, number: int) -> tuple[PoolSpec, ...]:
        """The pools of a node."""
        wants = self.wants
        units = tuple(f"u{unit}" for unit in range(wants.units))
        own = [
            PoolSpec(pool=pool_of(number, pool), name=pool_of(number, pool), units=units)
            for pool in range(wants.pools)
        ]
        if wants.hooks:
            own[-1] = msgspec.structs.replace(own[-1], on_grant="prepare {unit}", on_release="clean {unit}")
        if wants.common:
            units = tuple(f"g{unit}" for unit in range(wants.common))
            own.append(PoolSpec(pool=COMMON, name=COMMON, units=units))
        return tuple(own)

    def whole_node(self, node: str, start: int) -> WholeNode:
        """What the machines of the node with this id are built from, when its process starts for the `start`th time."""
        number = number_of(node)
        first = Member(node_id(0), node_name(0))
        directory = DirectorySettings(
            node=node,
            name=node_name(number),
            instance=f"{node} {start}",
            # all but the first node have joined at it; one that has lost its disk joins anew, see `WholeFalls`
            members=(first,) if node == node_id(number) and number else (),
            ttl_max_ms=self.ttl_max_ms,
            rho_ppm=self.rho_ppm,
        )
        return WholeNode(
            agent=AgentSettings(
                node=node,
                name=node_name(number),
                uid=UID,
                ttl_ms=self.ttl_ms,
                ttl_max_ms=self.ttl_max_ms,
                margin_ms=self.margin_ms,
                rho_ppm=self.rho_ppm,
            ),
            protocol=self.protocol,
            pools=self.pools_on(number),
            passes=self.passes,
            passes_per_ahead=self.passes_per_ahead,
            try_from=self.try_from,
            sweep_ms=self.quarantine_ms,
            instance=1000 * number + start,
            directory=directory,
            gated=True,
        )


def builder(setup: WholeSetup) -> Callable[[str], Host]:
    """Builds any node of a run; each time it does, it is another process start."""
    starts: Counter[str] = Counter()

    def build(node: str) -> Host:
        starts[node] += 1
        return whole_node(setup.whole_node(node, starts[node]))

    return build


def node_id(number: int, life: int = 1) -> str:
    """`n000`, and `n000-2` when it has lost its disk, and with that its key. Ids ascend with the numbers."""
    return f"n{number:03d}" if life == 1 else f"n{number:03d}-{life}"


def number_of(node: str) -> int:
    """The number of the computer that has this node. Raises ValueError."""
    return int(node[1:].partition("-")[0])


def node_name(number: int) -> str:
    """`lab-0`: what people and SPECs call the node."""
    return f"lab-{number}"


def pool_of(node: int, pool: int) -> str:
    """`p000-0`."""
    return f"p{node:03d}-{pool}"


def to_plain(setup: WholeSetup) -> dict[str, object]:
    """For the header of a trace."""
    plain: dict[str, object] = msgspec.to_builtins(setup)
    return plain


def from_plain(plain: object) -> WholeSetup:
    """The setup of a trace's header. Raises msgspec.ValidationError."""
    return msgspec.convert(plain, WholeSetup)

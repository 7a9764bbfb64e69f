"""What a node is configured to be: typed values, their defaults and their bounds. The reader is `settings`."""

from pathlib import Path

import msgspec

from holdall.leases.messages import PoolSpec
from holdall.model.names import pool_id
from holdall.node import paths
from holdall.node.http_settings import HttpSettings
from holdall.node.location.configured import (
    CapacitySettings,
    FunctionSettings,
    NegotiationSettings,
    PolicySettings,
)
from holdall.parties.location.turns import turn_pool

RHO_PPM = 20_000
"""Clocks' rates may differ by 2 %; the same in a whole system."""

TTL_MAX_MS_MAX = 24 * 3600 * 1000
POOLS_PER_NODE_MAX = 100_000
UNITS_PER_NODE_MAX = 1_000_000
PASSES_MAX = 1_000_000

ACCOUNT_DAYS_MIN, ACCOUNT_DAYS_MAX = 366, 36_600
"""Rows of the last year are kept one by one, as `--since` may cut through them; it goes back no further."""


class NodeSettings(msgspec.Struct, frozen=True):
    """`[node]`. `listen` is (host, port), None without HTTP; port 0 lets the system choose."""

    name: str
    state: Path
    listen: tuple[str, int] | None = ("127.0.0.1", 7420)
    location: str = ""
    system: bool = False
    """The host's system node: its socket lies in the run folder, open to all users."""
    run_from: tuple[str, ...] = ()
    """Who of other nodes may start commands here: `NODE` or `USER@NODE`, as `parties.run_permission` reads them."""
    run_as: str = ""
    """The user whose commands they are; empty: the one that the node runs as, which must not be root then."""
    account_days: int = 400
    """So long what was held stands in the account row by row; older rows are sums."""


class BusSettings(msgspec.Struct, frozen=True):
    """`[bus]`: how the node reaches the others of its system.

    `listen` (host, port): others can join here; it, port + 1 (among servers) and port + 2 (joining) are used.
    `servers` with `creds`: a NATS cluster that somebody else runs, in place of servers of its own.
    """

    listen: tuple[str, int] | None = None
    advertise: tuple[str, ...] = ()
    """Addresses of this host to tell others; empty: those that it finds."""
    servers: tuple[str, ...] = ()
    creds: Path | None = None
    system: str = "holdall"
    """How the system is called in that cluster's subjects."""
    server: Path | None = None
    """The program `nats-server`; None: the one in PATH, else the one that was installed with holdall."""


class Defaults(msgspec.Struct, frozen=True):
    """`[defaults]`; durations in milliseconds. `wait_ms` None: without limit."""

    ttl_ms: int = 30_000
    wait_ms: int | None = None
    protocol: str = "chain"
    ttl_max_ms: int = 300_000
    margin_ms: int = 500
    passes: int = 8
    passes_per_ahead: int = 1
    durability: str = "process"

    @property
    def quarantine_ms(self) -> int:
        """ttl_max (1 + rho), rounded up: no lease granted before can be alive after it."""
        return -(-self.ttl_max_ms * (1_000_000 + RHO_PPM) // 1_000_000)


class PoolSettings(msgspec.Struct, frozen=True):
    """One `[[pool]]`; durations in milliseconds."""

    name: str
    units: tuple[str, ...]
    labels: dict[str, str] = {}
    reach: str = "system"
    max_for_ms: int | None = None
    cooldown_ms: int = 0
    on_grant: str = ""
    on_release: str = ""
    check: str = ""
    hook_limit_ms: int = 60_000
    """How long each of the three commands may take; it is killed and has failed then."""

    def spec(self) -> PoolSpec:
        """The pool as the lease book knows it."""
        return PoolSpec(
            pool=pool_id(self.name, self.labels),
            name=self.name,
            labels=tuple(sorted(self.labels.items())),
            units=self.units,
            reach="host" if self.reach == "host" else "system",
            max_for_ms=self.max_for_ms,
            cooldown_ms=self.cooldown_ms,
            on_grant=self.on_grant,
            on_release=self.on_release,
            check=self.check,
            hook_limit_ms=self.hook_limit_ms,
        )


class Settings(msgspec.Struct, frozen=True):
    """A whole configuration file."""

    node: NodeSettings
    defaults: Defaults
    pools: tuple[PoolSettings, ...]
    path: Path | None = None
    """The file; None: no file, only defaults."""
    bus: BusSettings | None = None
    """None: the file has no `[bus]`; the node stands alone unless it has joined a system."""
    capacities: tuple[CapacitySettings, ...] = ()
    functions: tuple[FunctionSettings, ...] = ()
    negotiation: NegotiationSettings = NegotiationSettings()
    policy: PolicySettings = PolicySettings()
    http: HttpSettings = HttpSettings()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.node.state

    @property
    def source(self) -> str:
        """The file for people; empty without one."""
        return str(self.path or "")

    @property
    def file(self) -> str:
        """The same for people elsewhere: with the folder that it lies in."""
        return "" if self.path is None else str(self.path.absolute())

    @property
    def socket(self) -> Path:
        """Where clients reach the node."""
        return (paths.run_folder() if self.node.system else self.state) / paths.SOCKET_NAME

    def pool_specs(self) -> tuple[PoolSpec, ...]:
        """The pools as the lease book knows them, with the one of a node that is in a location."""
        own = (turn_pool(),) if self.node.location else ()
        return (*(pool.spec() for pool in self.pools), *own)

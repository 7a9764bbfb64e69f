"""What the parts of one node tell each other beside the protocol: driver, agent, manager, runner of hooks.

Addresses on a node: parts of the host `agent`, `claimant`, `manager`; outside the host, played by the driver:

`session/<id>`
    One client connection. The driver draws `<id>` (128 random bits as text) when it accepts the connection and
    never uses it again. Everything of the connection reaches the agent as `Received(Address(node, "session/<id>"),
    message)` with `SessionOpened` first, then one `Asked` a frame, `SessionClosed` last. The agent sends frames of
    `model.frames` to it; the driver drops what it sends to a connection that is gone.
    A *session* outlives its connections: a Hello without `session` begins one whose id is this connection's; a Hello
    with `session` and `secret` binds this connection to an earlier one, whatever the connection is called. The
    driver need not know which session a connection belongs to.
`hooks`
    Receives `RunHook`, answers `HookDone` to the part that sent it.
`processes`
    Receives `WatchProcess` after a restart, answers `ProcessGone` when that process does not exist any more
    (at once, or when it ends). Sent to `agent`.
`node`
    The driver as sender of `Reload` and `DrainNode` to `agent`.

`machine.contract.ClockRead` goes to `agent`, `claimant` and `manager`, first in each turn that has other events, and once
directly after `start` or `recover`.

**Request numbers.** `n` of a client's frames is unique in its *session*, also over reconnects. A Claim that comes again
with the number of a claim of this session that waits or is held is the same claim: it is answered again (Queued or
Granted). So a client that reconnects repeats the Claims that have no final answer yet, and nothing else is lost.
"""

from typing import TypeAlias

import msgspec

from holdall.leases.messages import (
    AGENT,
    CLAIMANT,
    HOOKS,
    MANAGER,
    ClearUnit,
    DrainUnits,
    EndsAs,
    Hook,
    HookDone,
    PoolSpec,
    Prepared,
    RaiseFence,
    Reload,
    RunHook,
    UnitsBack,
    UnitTrouble,
)
from holdall.model import frames

__all__ = [
    "AGENT",
    "CLAIMANT",
    "HOOKS",
    "MANAGER",
    "NODE",
    "PROCESSES",
    "SESSION",
    "AgentSettings",
    "Asked",
    "ClearUnit",
    "DrainNode",
    "DrainUnits",
    "EndsAs",
    "FromDriver",
    "Hook",
    "HookDone",
    "PoolSpec",
    "Prepared",
    "ProcessGone",
    "RaiseFence",
    "Reload",
    "RunHook",
    "SessionClosed",
    "SessionOpened",
    "UnitTrouble",
    "UnitsBack",
    "WatchProcess",
]

SESSION = "session/"
"""Before the id of a connection in its part name."""
PROCESSES = "processes"
NODE = "node"


class SessionOpened(msgspec.Struct, frozen=True, tag="session_opened"):
    """A connection was accepted. All fields from the peer's credentials, none from the peer's words."""

    uid: int
    user: str
    """Name of that uid, or the number as text."""
    pid: int
    started: int = 0
    """Start time of the process as in field 22 of /proc/PID/stat (with the pid it names a process for ever); 0: unknown."""


class Asked(msgspec.Struct, frozen=True, tag="asked"):
    """One frame of a client, with what the node itself knows or draws.

    `lot`: 128 fresh random bits as text (26 to 40 letters of any alphabet), drawn by the driver for every frame: it
    becomes the secret of a new session or the key of a new lease.
    """

    frame: frames.ToNode
    uid: int
    user: str
    lot: str


class SessionClosed(msgspec.Struct, frozen=True, tag="session_closed"):
    """The connection is gone. `process_gone` tells that its process is, too.

    When it is not, the driver goes on watching the process (pidfd) and sends this again, with True, from the same
    address when it ends.
    """

    process_gone: bool


class WatchProcess(msgspec.Struct, frozen=True, tag="watch_process"):
    """Agent to `processes`, after a restart: tell me when this process is gone. A missing start time: judge by pid."""

    session: str
    pid: int
    started: int


class ProcessGone(msgspec.Struct, frozen=True, tag="process_gone"):
    """`processes` to the agent."""

    session: str


class DrainNode(msgspec.Struct, frozen=True, tag="drain_node"):
    """The driver to the agent: stop giving units (SIGTERM), as a client's Drain does. Nothing is saved about it."""

    on: bool
    reason: str = ""


FromDriver: TypeAlias = SessionOpened | Asked | SessionClosed | ProcessGone | DrainNode | Reload
"""What an agent hears from its driver, beside ClockRead."""


class AgentSettings(msgspec.Struct, frozen=True):
    """What an agent is told at construction: the node's settings that it needs, none of them changes at run time."""

    node: str
    """The node's id, in every message."""
    uid: int
    """The user that the node runs as: may kick, drain and clear; so may uid 0."""
    ttl_ms: int = 30_000
    """Default life without renewal."""
    ttl_max_ms: int = 300_000
    ttl_min_ms: int = 1_000
    wait_ms: int | None = None
    """Default wait that Welcome tells; None: without limit."""
    margin_ms: int = 500
    rho_ppm: int = 20_000
    """Bound of the difference in rate between any two clocks: 2 %."""
    open_claims_max: int = 16
    """Claims of one client that may wait in the queue of one pool; further ones are parked here."""
    protocol: str = "chain"
    """How claims are served; for texts."""
    one_placement: bool = False
    """The protocol knows one placement of a claim, the first, and of alternatives the first."""
    pools_max: int | None = None
    """Pools that one claim may want under the protocol; None: any number."""
    bounded: bool = True
    """The protocol states how many younger claims can get ahead of a waiting one."""
    log_rows_max: int = 10_000
    utc_offset_s: int = 0
    """Local time minus UTC, for the times of day in error texts."""
    version: str = ""
    pid: int = 0
    config: str = ""
    state_folder: str = ""
    address: str = ""
    """Of its part of the bus, as other nodes are told it; like the location for listings only."""
    location: str = ""
    name: str = ""
    """What people call the node; empty: its id."""
    offers: bool = False
    """It has a part `host`, which takes no new leases either while the node is drained."""

"""Rows of listings, as frames and messages between nodes carry them."""

import msgspec


class UnitRow(msgspec.Struct, frozen=True):
    """One unit as `holdall pools` shows it."""

    unit: str
    state: str
    """free, booked, held, preparing, cleaning, cooldown, moving, quarantined or draining.

    `booked`: set aside for a claim over several nodes that still waits at another one (or is told there this moment).
    `moving`: its pool has other labels now, and who got it under the old ones is not done with it.
    """
    fence: int
    lease: str = ""
    holder: str = ""
    note: str = ""
    party: str = ""
    """Id between nodes of the claim that has it, as long as its own node has not told what people call it."""


class PoolRow(msgspec.Struct, frozen=True):
    """One pool with its units."""

    pool: str
    node: str
    labels: dict[str, str]
    reach: str
    total: int
    free: int
    held: int
    unusable: int
    waiting: int
    units: tuple[UnitRow, ...]
    state: str = "serving"
    """Of its node: serving, quarantine or draining."""


class NodeRow(msgspec.Struct, frozen=True):
    """The node itself."""

    node: str
    pid: int
    version: str
    since_ms: int
    state: str
    """serving, quarantine or draining"""
    quarantine_ms: int
    pools: int
    units: int
    leases: int
    waiting: int
    config: str = ""
    state_folder: str = ""
    address: str = ""
    location: str = ""


class LogRow(msgspec.Struct, frozen=True):
    """One line of the node's history.

    `kind`: granted, released, expired, lost, kicked, cancelled, refused, timed-out, quarantined, cleared,
    started, restarted, drained, reloaded, forgotten; in a Watch also `node-` and what has become of another node (serving, silent, stopped, …).
    """

    seq: int
    """Counts the lines of its node; 0 for what is in no node's history."""
    at_ms: int
    kind: str
    lease: str
    holder: str
    units: tuple[str, ...]
    """`pool/unit` with fence: `psu/psu-1#61`."""
    text: str
    node: str = ""
    """Whose history it is from."""
    waited_ms: int | None = None
    """Of a grant: how long its claim waited."""


class KnownNode(msgspec.Struct, frozen=True):
    """Another node, as the one that was asked knows it from announcements."""

    node: str
    id: str
    state: str
    """serving, quarantine, draining, silent or stopped"""
    address: str = ""
    location: str = ""
    silent_ms: int = 0
    pools: int = 0
    version: str = ""


class NotAsked(msgspec.Struct, frozen=True, order=True):
    """A node that has no part in a listing, or not its whole part."""

    node: str
    why: str
    """e.g. `silent for 40 s`"""

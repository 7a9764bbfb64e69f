"""How a host takes part in negotiation."""

import msgspec

from holdall.machine.contract import Address
from holdall.model.terms import Template


class HostSettings(msgspec.Struct, frozen=True):
    """What a host offers, and to whom."""

    host: str
    location: str
    managers: tuple[Address, ...]
    """Of the location; all are told of this host."""
    template: Template
    rho_ppm: int = 20_000
    heartbeat_ms: int = 1000
    linger_ms: int = 30_000
    """Work of a lease that is over may go on so long, and no longer than the lease's duration."""
    keep_ms: int = 86_400_000
    """What is over is known for so long."""
    gate: Address | None = None
    """Where uses are admitted; None: nothing lingers."""
    units: Address | None = None
    """Where units are claimed."""
    fence_block: int = 1000

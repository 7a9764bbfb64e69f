"""What an agent keeps in memory of one client and of one claim, beside their records."""

import hashlib

from holdall.model.why import Why
from holdall.parties.planning.ways import vectors_of
from holdall.parties.records import ClaimRecord, SessionRecord
from holdall.protocols.vocabulary import ClaimId, Vector


def secret_hash(secret: str) -> str:
    """What is kept of a session's secret or a lease's key."""
    return hashlib.blake2b(secret.encode(), digest_size=20).hexdigest()


class Session:
    """One client, over all its connections."""

    __slots__ = (
        "claims",
        "connected",
        "connection",
        "heard_boot_ms",
        "heard_wall_ms",
        "numbers",
        "record",
        "ttls",
        "views",
    )

    def __init__(self, record: SessionRecord, connection: str) -> None:
        self.record = record
        self.connection = connection
        """The latest connection's id."""
        self.connected = True
        self.heard_wall_ms = 0
        self.heard_boot_ms = 0
        self.claims: dict[ClaimId, None] = {}
        """In the order in which they came."""
        self.numbers: dict[int, ClaimId] = {}
        """Request number -> claim, of claims that wait or are held."""
        self.ttls: dict[int, int] = {}
        """ttl -> how many claims have it: one silence timer for each."""
        self.views: dict[ClaimId, None] = {}
        """Leases of others under which it works."""


class Claim:
    """A claim from its arrival to its end, with what need not survive a crash."""

    __slots__ = (
        "checked_ms",
        "key",
        "kicked_boot_ms",
        "moves",
        "record",
        "retry_text",
        "shown",
        "stays_ms",
        "stays_until_ms",
        "to_widen",
        "told_to",
        "viewers",
        "widened",
    )

    def __init__(self, record: ClaimRecord, key: str) -> None:
        self.record = record
        self.key = key
        """Empty after a restart, when only its hash is known."""
        self.told_to: list[tuple[str, int, str]] = []
        """(connection, request, what): kicks that wait for the end of the lease."""
        self.kicked_boot_ms = 0
        self.shown: Why | None = None
        """What the client was told last about the wait."""
        self.checked_ms = 0
        """Pause before the next look whether that has changed."""
        self.widened = False
        """It has waited at the one place that seemed free: plan all its places from now on."""
        self.to_widen = False
        """And this has not been done yet."""
        self.moves = 0
        """How often it has gone to other nodes only because units seemed free there."""
        self.stays_ms = 0
        self.stays_until_ms = 0
        """Until when (boot clock) it does not change its places again for that, and for how long that was."""
        self.retry_text = ""
        """Why the pools don't queue it yet."""
        self.viewers: dict[str, None] = {}
        """Sessions that work under this lease (nested claims that it covers)."""

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """What its ways ask of pools, node by node, preferred first."""
        return tuple(vector for way in self.record.shares for _, vector in vectors_of(way))


def silence_timer(session: str, ttl_ms: int) -> str:
    """Fires when the session has been silent for `ttl (1 + rho)`."""
    return f"silent/{session}/{ttl_ms}"

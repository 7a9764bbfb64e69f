"""What a run showed, in numbers that a seed reproduces."""

from collections import Counter

import msgspec


class WholeFigures(msgspec.Struct, kw_only=True):
    """Counts are of the whole run; waits in ms of true time."""

    claims: int = 0
    grants: int = 0
    contended: int = 0
    """Grants to claims that had to wait in line."""
    wide: int = 0
    """Grants over more than one node."""
    denied: dict[str, int] = {}
    """Final refusals by code; `cancelled` by the client itself."""
    lost: dict[str, int] = {}
    """Leases that ended before they were given back, by how the holder learned it."""
    renewals: int = 0
    killed: int = 0
    """Clients."""
    wait_mean_ms: float = 0.0
    wait_longest_ms: float = 0.0
    faults: dict[str, int] = {}
    """Faults that struck, by kind; frames that were lost or came twice among them."""
    refused: int = 0
    """Messages that a node refused: only where journals were lost."""
    turns: int = 0
    frames: int = 0
    """Frames on the bus, copies and lost ones not counted."""
    bytes: int = 0
    link: dict[str, int] = {}
    """All links together: frames with parcels, parcels, pure acknowledgements, frames sent again."""
    messages: dict[str, int] = {}
    """Messages between nodes by kind; those sent again not counted."""
    drained_ms: float = 0.0
    """How long after the last claims could begin everything was over."""


class Tally:
    """Counts while a run goes on."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.denied: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.link: Counter[str] = Counter()
        self.messages: Counter[str] = Counter()
        self.waits: list[float] = []
        self.bytes = 0

    def figures(self, drained_ms: float) -> WholeFigures:
        """The end of the run."""
        counts = self.counts
        return WholeFigures(
            claims=counts["claims"],
            grants=counts["grants"],
            contended=counts["contended"],
            wide=counts["wide"],
            denied=dict(sorted(self.denied.items())),
            lost=dict(sorted(self.lost.items())),
            renewals=counts["renewals"],
            killed=counts["killed"],
            wait_mean_ms=round(sum(self.waits) / max(1, len(self.waits)), 3),
            wait_longest_ms=round(max(self.waits, default=0.0), 3),
            faults=dict(sorted(self.faults.items())),
            refused=counts["refused"],
            turns=counts["turns"],
            frames=counts["frames"],
            bytes=self.bytes,
            link=dict(sorted(self.link.items())),
            messages=dict(sorted(self.messages.items())),
            drained_ms=round(drained_ms, 3),
        )

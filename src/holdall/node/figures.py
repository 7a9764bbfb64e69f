"""Figures of a node at work, counted where they arise: told to its HTTP server, which makes metrics of them."""

from bisect import bisect_left

import msgspec

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Spread(msgspec.Struct):
    """How often something took how long: one count for each bound (seconds, upper), and one for what took longer."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        """It took so long once more."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds


class Figures(msgspec.Struct):
    """Since this start of the node."""

    commits: Spread = msgspec.field(default_factory=Spread)
    """Transactions of the journal, as turns wait for them."""
    turns: int = 0
    refused: int = 0
    """Events that no correct neighbour sends."""
    posted: int = 0
    """Frames to other nodes."""
    heard: int = 0
    overtakes: dict[str, int] = msgspec.field(default_factory=dict)
    """Name of a pool of this node -> how often a younger claim got ahead of a waiting one."""
    location_waiting: dict[str, int] = msgspec.field(default_factory=dict)
    """Location that this node leads -> requests that wait in its line now."""
    bus_s: float | None = None
    """Question and answer between the node and its server of the bus, last measured."""

"""How long and how rough a run is, and what it found."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chaos.reclaim import Reclaims

Between = tuple[float, float]
"""Seconds, drawn evenly."""

TTL_S = 2.5
RUN_TTL_S = 10.5
"""Shorter than this a command's lease cannot be: it must have time to end."""

TTL_MAX_S = 11.0
"""And so long, and 2 %, a node without its journal waits."""

OFTEN: Mapping[str, Between] = {
    "kill-client": (4.0, 6.0),
    "kill-below-run": (12.0, 20.0),
    "kill-node": (22.0, 34.0),
    "kill-server": (20.0, 30.0),
    "lose-host": (60.0, 80.0),
    "lose-journal": (90.0, 120.0),
    "pause-client": (8.0, 12.0),
    "pause-node": (36.0, 54.0),
    "pause-server": (36.0, 54.0),
    "cut": (9.0, 12.0),
    "loss": (40.0, 60.0),
}
"""How long it is from one fault of a kind to the next."""

NO_NETWORK = frozenset({"cut", "loss"})
"""What needs a network of its own."""


@dataclass(frozen=True, slots=True)
class Floors:
    """So much must have happened at least, or a run proves too little."""

    kills: int = 0
    pauses: int = 0
    cuts: int = 0
    grants: int = 0
    contended: int = 0
    reclaims: int = 0
    """Units of which it was measured when they were back."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. It lasts `seconds`, and longer until the floors are reached; or, with `claims`, until those are made."""

    seed: int
    pools: tuple[Mapping[str, int], ...]
    """Size of each pool of each host; a name on several hosts is one pool over them."""
    protocol: str = "chain"
    two_pools: bool = False
    """No claim wants units of more than two pools, wherever they are."""
    seconds: float = 180.0
    seconds_most: float = 900.0
    claims: int | None = None
    floors: Floors = field(default_factory=Floors)
    processes: int = 16
    commands: int = 2
    """So many of the processes are rows of `holdall run`, the others use the Python client."""
    claims_of_command: int = 8
    """With `claims`: so many of them each row makes."""
    hold_ms: int = 60
    often: Mapping[str, Between] = field(default_factory=lambda: dict(OFTEN))
    first_after: float = 1.0
    """In parts of the time between two faults of a kind."""
    for_s: Between = (0.5 * TTL_S, 3 * TTL_S)
    """Pauses, cuts and losses."""
    away_s: Between = (0.0, 2.0)
    """From the death of a node to its next start."""
    loss_percent: tuple[int, int] = (5, 30)
    ended_within_s: float = 120.0
    """From the last fault: until every claim that was made is served, and every unit is free."""

    def sizes(self) -> dict[str, int]:
        """Of each pool, over all hosts."""
        total: Counter[str] = Counter()
        for pools in self.pools:
            total.update(pools)
        return dict(total)

    def units(self) -> dict[str, list[str]]:
        """Of each pool, as histories name them."""
        named: dict[str, list[str]] = {}
        for number, pools in enumerate(self.pools):
            for pool, size in pools.items():
                named.setdefault(pool, []).extend(f"{pool}-{unit}@h{number}" for unit in range(1, size + 1))
        return named

    def shared(self) -> frozenset[str]:
        hosts = Counter(pool for pools in self.pools for pool in pools)
        return frozenset(pool for pool, number in hosts.items() if number > 1)


def pools_of_hosts(hosts: int) -> tuple[Mapping[str, int], ...]:
    """On each host two pools of its own, and a part of one over all of them."""
    return tuple({f"rig{number}": 2, f"cell{number}": 3, "meter": 1} for number in range(hosts))


@dataclass(slots=True)
class Outcome:
    """What the driver saw; `problems` is empty after a run that went as promised."""

    histories: list[Path] = field(default_factory=list[Path])
    counts: Counter[str] = field(default_factory=Counter[str])
    problems: list[str] = field(default_factory=list[str])
    reclaims: Reclaims = field(default_factory=Reclaims)
    of_host: dict[str, str] = field(default_factory=dict[str, str])
    readings: int = 0
    lasted_s: float = 0.0
    drained_s: float = 0.0
    """From the last fault until all was free."""

    def sum_of(self, *beginnings: str) -> int:
        return sum(number for kind, number in self.counts.items() if kind.startswith(beginnings))

    @property
    def kills(self) -> int:
        return self.sum_of("kill-", "lose-")

    @property
    def pauses(self) -> int:
        return self.sum_of("pause-")

    @property
    def cuts(self) -> int:
        return self.sum_of("cut-")

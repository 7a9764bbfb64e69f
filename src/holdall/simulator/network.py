"""The network of a run: how long a message takes, and who does not hear whom for a while. All drawn from the seed.

Messages are told apart by nothing but chance, so one overtakes another wherever delays differ.
"""

import random
from collections.abc import Callable
from math import exp, log
from typing import Literal, TypeAlias

import msgspec

DelayKind: TypeAlias = Literal["constant", "uniform", "exponential", "lognormal", "regions"]

REORDERED = 10.0
"""A message that is held up (fault `reorder`) takes up to so many mean delays longer."""
AROUND = 0.1
"""Messages between two regions take their distance, give or take this share."""


class Delays(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long messages take, in mean message delays; the mean is 1 but for regions.

    `constant` 1; `uniform` 0.5 to 1.5; `exponential` 0.5 + Exp(0.5); `lognormal` with a heavy tail (`sigma`); `regions`:
    every host lies in one of `regions`, `near` is the time within a region, and the distances between them are drawn
    from `near` to `far`, as often small as large by ratio: with the defaults 1 to 150 ms where a mean delay is 50 ms.
    """

    kind: DelayKind = "exponential"
    sigma: float = 1.0
    """Lognormal: standard deviation of the logarithm; at 1 one message in a hundred takes more than 6 delays."""
    regions: int = 5
    near: float = 0.02
    far: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < self.sigma <= 3 or not 1 <= self.regions <= 1000:
            raise ValueError("delays need 0 < sigma ≤ 3 and 1 ≤ regions ≤ 1000")
        if not 0 < self.near <= self.far <= 1000:
            raise ValueError("delays need 0 < near ≤ far ≤ 1000 mean message delays")


class _Wall(msgspec.Struct):
    """Hosts on side 0 and on side 1 until a time (ms): who of them is not heard by the other."""

    until: float
    place: float
    both: bool
    side: dict[str, int] = {}

    def side_of(self, host: str) -> int:
        """Drawn for each host when it is asked for first, so that hosts that come later have a side, too."""
        side = self.side.get(host)
        if side is None:
            side = self.side[host] = int(random.Random(f"holdall side {self.place} {host}").random() < 0.5)
        return side


class Network:
    """Delays (ms) and walls of one run."""

    def __init__(self, delays: Delays, *, seed: int, mean_ms: float) -> None:
        self._rng = random.Random(f"holdall network {seed}")
        self._mean = mean_ms
        self._delays = delays
        self._seed = seed
        self._region: dict[str, int] = {}
        self._distance: dict[tuple[int, int], float] = {}
        self.walls: list[_Wall] = []
        """Those that stand, and perhaps some that are over."""
        self.draw: Callable[[], float] | None = self._drawer()
        """Draws one delay; None where it depends on who speaks to whom, see `between`."""

    def between(self, sender: str, receiver: str) -> float:
        """One delay between two hosts (nodes' names)."""
        if self.draw is not None:
            return self.draw()
        here, there = self._region_of(sender), self._region_of(receiver)
        pair = (here, there) if here <= there else (there, here)
        distance = self._distance.get(pair)
        if distance is None:
            distance = self._distance[pair] = self._distance_of(*pair)
        return distance * (1.0 - AROUND + 2 * AROUND * self._rng.random())

    def held_up(self) -> float:
        """How much longer a message takes that others are to overtake."""
        return self._rng.random() * REORDERED * self._mean

    def wall(self, place: float, until: float, *, both: bool) -> None:
        """Two groups of hosts, drawn by `place` (0 to 1): neither hears the other until then, or one does not."""
        self.walls.append(_Wall(until, place, both, {}))

    def hears(self, receiver: str, sender: str, now: float) -> bool:
        """Whether a message that is sent now can arrive at all."""
        if not self.walls:
            return True
        if any(wall.until <= now for wall in self.walls):
            self.walls = [wall for wall in self.walls if wall.until > now]
        for wall in self.walls:
            here, there = wall.side_of(sender), wall.side_of(receiver)
            if here != there and (wall.both or here == 0):
                return False
        return True

    def _drawer(self) -> Callable[[], float] | None:
        mean, draw = self._mean, self._rng.random
        match self._delays.kind:
            case "constant":
                return lambda: mean
            case "uniform":
                return lambda: mean * (0.5 + draw())
            case "exponential":
                return lambda: mean * (0.5 - 0.5 * log(1.0 - draw()))
            case "lognormal":
                sigma, gauss = self._delays.sigma, self._rng.gauss
                return lambda: mean * exp(gauss(-sigma * sigma / 2, sigma))
            case "regions":
                return None

    def _region_of(self, host: str) -> int:
        region = self._region.get(host)
        if region is None:
            drawn = random.Random(f"holdall region {self._seed} {host}")
            region = self._region[host] = drawn.randrange(self._delays.regions)
        return region

    def _distance_of(self, here: int, there: int) -> float:
        near, far = self._delays.near, self._delays.far
        if here == there:
            return near * self._mean
        share = random.Random(f"holdall distance {self._seed} {here} {there}").random()
        return float(near * (far / near) ** share) * self._mean

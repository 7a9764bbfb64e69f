"""What `lab compare` runs: the loads, by name, and how long and how often each runs, quick or full."""

from typing import Literal, NamedTuple, TypeAlias

from holdall.lab.compare.alone import SIZES, AloneCase
from holdall.lab.compare.contestants import Contestant
from holdall.lab.compare.extent import ExtentCase
from holdall.lab.compare.measure import Case
from holdall.simulator.systems import FAULTLESS
from holdall.simulator.workload import Workload, load_workload

Suite: TypeAlias = Literal["loads", "extent", "alone", "published"]
SUITES: tuple[Suite, ...] = ("loads", "extent", "alone", "published")

QUICK_LOADS: dict[str, float] = {
    "ring-50-low": 400, "ring-50-saturated": 400, "random-8-low": 1000, "random-8-medium": 1000,
    "random-8-saturated": 1000, "random-8-k3-saturated": 1000, "random-8-u2-saturated": 800, "random-8-n1-saturated": 1000,
    "random-40-medium": 250,
    "star-12-medium": 1500, "hot-8-medium": 1000,
}  # fmt: skip
"""Name -> duration in mean message delays: some hundreds of grants each."""

FULL_LOADS: dict[str, float] = {
    "ring-50-low": 3000, "ring-50-medium": 3000, "ring-50-saturated": 3000, "ring-200-saturated": 1500,
    "line-20-saturated": 3000, "star-12-low": 4000, "star-12-saturated": 4000,
    "hot-8-low": 4000, "hot-8-medium": 4000, "hot-8-saturated": 4000,
    "random-8-low": 4000, "random-8-medium": 4000, "random-8-saturated": 4000,
    "random-8-k3-low": 4000, "random-8-k3-medium": 4000, "random-8-k3-saturated": 4000,
    "random-8-u2-low": 4000, "random-8-u2-medium": 4000, "random-8-u2-saturated": 4000,
    "random-8-k5-saturated": 4000, "random-40-low": 1500, "random-40-medium": 1500, "random-40-saturated": 1500,
    "random-40-k3-medium": 1500, "random-40-k3-saturated": 1500, "random-40-n4-medium": 1500,
    "random-40-n4-saturated": 1500, "random-40-n4-local80-saturated": 1500, "random-8-n1-saturated": 4000,
    "wide-8-n1-medium": 4000,
}  # fmt: skip


class Effort(NamedTuple):
    """How much is run."""

    name: str
    loads: dict[str, float]
    seeds: int
    victims: tuple[int, ...]
    """Holders that die, by their number on the ring of 50."""
    share: float
    """Of the published durations."""
    suites: tuple[Suite, ...]
    """Unless others are asked for."""


QUICK = Effort("quick", QUICK_LOADS, 1, (10, 40), 0.1, ("loads", "extent", "alone"))
FULL = Effort("full", FULL_LOADS, 5, (0, 10, 25, 40), 1.0, SUITES)

CUSTOM_DURATION = 2000.0
"""For a workload that is named on the command line and not in the list."""
RING = 50


def load_cases(
    who: list[Contestant], loads: dict[str, float], *, seeds: int, thorough: bool, first_seed: int = 1
) -> list[Case]:
    """Everybody on every load that it serves. Raises ValueError for an unknown workload.

    The first seed of each load is looked at strictly: that takes five times as long, and changes no figure. Unless it is
    to be `thorough`, this is done only where all pools are on one node, and passing is counted.
    """
    return [
        Case(
            contestant=contestant, title=title, workload=workload, seed=seed, duration=duration,
            strict=workload.units == 1 and seed == first_seed and (thorough or workload.nodes == 1),
        )
        for title, duration in loads.items()
        for workload in (load_workload(title),)
        for contestant in who
        if contestant.can(workload)
        for seed in range(first_seed, first_seed + seeds)
    ]  # fmt: skip


def extent_cases(who: list[Contestant], victims: tuple[int, ...]) -> list[ExtentCase]:
    """Deaths without leases, and with leases for all that have them."""
    return [
        ExtentCase(contestant=contestant, pools=RING, victim=victim, leases=leases)
        for contestant in who
        for leases in (False, True)
        if not leases or contestant.protocol not in FAULTLESS
        for victim in victims
    ]


def alone_cases(who: list[Contestant]) -> list[AloneCase]:
    """One client, claims of 1 to 16 pools."""
    return [
        AloneCase(contestant, k)
        for contestant in who
        for k in SIZES
        if contestant.can(Workload(pools=k, k=k, nodes=k))
    ]

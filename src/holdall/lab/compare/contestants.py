"""Who is compared: every protocol that the simulator has, and settings of it that the specifications measured, too.

The list is taken from the simulator's table when it is asked for, so a protocol that joins there is compared.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from holdall.simulator.setup import Setup
from holdall.simulator.systems import CENTRAL, SYSTEMS, serves
from holdall.simulator.workload import Workload

BASELINE = "ordered"
"""The protocol that the others are set against: locks in the order of the pools' names."""

ORDER = (
    CENTRAL, BASELINE, "chain", "chain-try", "strong-weak", "strong-weak-named", "strong-weak-probe", "strong-weak-probe-aged",
    "strong-weak-probe-token", "token", "token-tickets", "lanes",
    "lanes-lending", "game", "game-complete", "skeen", "ballot",
)  # fmt: skip
"""How tables and legends list them; what is not named here comes last, by name."""

BOUNDS: dict[str, str] = {
    CENTRAL: "none: whoever fits goes first",
    BASELINE: "none over several pools; at each pool first come, first served",
    "chain": "at each node `passes`, and `passes_per_ahead` more for each claim ahead",
    "strong-weak": "none is passed by a younger one that starts after it has arrived at its pools",
    "strong-weak-named": "as strong-weak",
    "strong-weak-probe": "by age once it is in both pools' queues; a probe that finds a circle kills the youngest",
    "strong-weak-probe-aged": "as strong-weak-probe, and queues are ordered by age",
    "strong-weak-probe-token": "as strong-weak-probe, with the rounds of a token in place of age",
    "token": "none that the token has numbered is passed",
    "token-tickets": "none that the token has numbered is passed",
    "lanes": "at each pool by smaller indices that are there already; none once the index is final",
    "lanes-lending": "as lanes, and loans: once at each pool and claim",
    "game": "the doorway: none that is admitted after it, once it is in",
    "game-complete": "the doorway: none that is admitted after it, once it is in",
    "skeen": "at each pool by smaller indices that are there already",
    "ballot": "none: a claim may start over again and again",
}
"""What each promises about being passed, in a few words; the protocols' pages say it exactly."""


class Contestant(msgspec.Struct, frozen=True):
    """A protocol with settings; `name` stands in tables and legends."""

    name: str
    protocol: str
    settings: tuple[tuple[str, int | float], ...] = ()
    """Fields of Setup that differ from their defaults."""

    def setup(
        self, workload: Workload, *, seed: int, duration: float, jitter: bool = True, strict: bool = False
    ) -> Setup:
        """One run of it; times in mean message delays."""
        values: dict[str, Any] = dict(self.settings)
        return Setup(
            protocol=self.protocol, workload=workload, seed=seed, duration=duration, jitter=jitter, strict=strict,
            **values,
        )  # fmt: skip

    def can(self, workload: Workload) -> bool:
        """Whether it serves claims of so many pools, and pools of so many units placed like this."""
        return serves(self.protocol, workload)

    @property
    def bound(self) -> str:
        """What it promises about being passed."""
        return BOUNDS.get(self.protocol, "see its page")


def plain(name: str) -> Contestant:
    """A protocol with its own settings."""
    return Contestant(name, name)


VARIANTS = {"chain-try": Contestant("chain-try", "chain", (("try_from", 1),))}
"""Beside the protocols themselves: the chain that asks all nodes of a claim at once first."""


def in_order(names: Iterable[str]) -> list[str]:
    """As tables and legends list them."""
    return sorted(set(names), key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def contestants(names: str | None = None) -> list[Contestant]:
    """Those with these names (with commas between them), in the order of tables; None: every protocol.

    Raises ValueError with the known names.
    """
    known = {name: plain(name) for name in SYSTEMS} | {
        name: variant for name, variant in VARIANTS.items() if variant.protocol in SYSTEMS
    }
    if names is None:
        return [known[name] for name in in_order(SYSTEMS)]
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        raise ValueError(
            f"no protocol {', '.join(unknown) or names!r} to compare; there are: {', '.join(in_order(known))}"
        )
    return [known[name] for name in in_order(wanted)]

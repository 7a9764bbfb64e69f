"""What a history proves: violations, what is wrong with it, and what was counted."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

Rule: TypeAlias = Literal[
    "double-hold",
    "over-capacity",
    "fence-reuse",
    "fence-order",
    "no-fence",
    "all-or-nothing",
    "same-unit-twice",
    "unknown-unit",
    "double-grant",
    "duplicate-lease",
    "duplicate-claim",
    "unasked-grant",
    "grant-and-fail",
    "bad-need",
    "stale-use",
    "overlapping-use",
    "foreign-op",
    "renewed-after-release",
    "unsafe-deadline",
    "not-conserved",
    "leak",
    "fence-regress",
    "starvation",
    "overtaken",
    "slow-reclaim",
]
"""The rules, by the names of the history format."""

CLEAN: Final = 0
VIOLATED: Final = 1
UNPROVEN: Final = 3


class Violation(msgspec.Struct, frozen=True):
    """One broken rule. `at`: nanoseconds, when it was broken; `lines`: where to look, as `file:line`."""

    rule: Rule
    at: int
    text: str
    lines: tuple[str, ...]


class Floors(msgspec.Struct, frozen=True):
    """The least that must have happened for a clean history to prove something."""

    grants: int = 0
    contended: int = 0
    faults: int = 0
    """Crashes count as faults."""


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """What happened. Times in nanoseconds; None where nothing was measured."""

    files: int
    lines: int
    torn_lines: int
    claims: int
    grants: int
    contended: int
    """Granted claims that were asked while a unit's last holder still held it."""
    refused: int
    unknown: int
    """Claims of which nobody recorded whether they were granted."""
    crashes: int
    faults: Mapping[str, int]
    """By kind."""
    wait_p50: int | None
    wait_p99: int | None
    wait_max: int | None
    idle_with_demand: int | None
    """Longest time that a unit lay idle while one claim for one unit of its pool waited throughout."""
    overtakes: int
    """Most later claims of the same need and group that were granted before one claim."""
    peak_use: Mapping[str, int]
    """Most units of each pool believed held at once."""
    uses: int
    refused_uses: int
    deadlines_unproven: int
    """Ends of validity that came without the call, or the ttl, that would show them to be safe."""
    unrecorded_leases: int
    """Leases renewed or released whose grant nobody lived to record."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`damage`: lines that could not be used; `shortfalls`: what keeps an undamaged history from proving enough."""

    violations: Sequence[Violation]
    damage: Sequence[str]
    shortfalls: Sequence[str]
    statistics: Statistics

    @property
    def exit_status(self) -> int:
        """3 for a damaged history, since a missing line can make a violation or hide one.

        Else 1 for violations, else 3 for a history that proves too little, else 0.
        """
        if self.damage:
            return UNPROVEN
        if self.violations:
            return VIOLATED
        return UNPROVEN if self.shortfalls else CLEAN

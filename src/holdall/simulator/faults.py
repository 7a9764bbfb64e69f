"""Which faults strike a run, and when: everything drawn from the seed before the run begins."""

import random
from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias, TypeVar

import msgspec

FaultKind: TypeAlias = Literal[
    "crash", "restart", "reboot", "unsynced", "wipe", "pause", "stall", "split", "oneway"
]

KINDS: tuple[FaultKind, ...] = (
    "crash", "restart", "reboot", "unsynced", "wipe", "pause", "stall", "split", "oneway",
)  # fmt: skip
"""Blows against a host or the network, in the order in which they are drawn."""

WALLS = frozenset({"split", "oneway"})
"""Those that strike the network."""


class Blows(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of blows during a run, by kind, and shares of messages and holders that are struck."""

    kinds: ClassVar[tuple[str, ...]] = ()
    """Fields that are numbers, in the order in which they are drawn."""
    shares: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self.shares:
            if not 0 <= getattr(self, name) <= 0.5:
                raise ValueError(f"fault {name} is a share of 0 to 0.5, e.g. {name}=0.02")
        for name in self.kinds:
            if not 0 <= getattr(self, name) <= 100_000:
                raise ValueError(f"fault {name} is a number of blows, e.g. {name}=3")

    def any(self) -> bool:
        """Whether this run has faults at all."""
        return self != type(self)()


AnyBlows = TypeVar("AnyBlows", bound=Blows)


class Faults(Blows, frozen=True, kw_only=True):
    """What strikes hosts of managers and of claimants."""

    kinds: ClassVar[tuple[str, ...]] = KINDS
    shares: ClassVar[tuple[str, ...]] = ("loss", "duplicate", "departure", "reorder")

    crash: int = 0
    """A host dies within a turn, after its save and before some of its sends, and comes up with its records."""
    restart: int = 0
    """A host dies between two turns and comes up with its records."""
    reboot: int = 0
    """A node with pools comes up under another kernel boot; its journal is complete."""
    unsynced: int = 0
    """As reboot, but the journal lacks its last turns."""
    wipe: int = 0
    """A node with pools comes up with nothing kept."""
    pause: int = 0
    """A claimant's host stands still for up to two leases; then it goes on where it was."""
    stall: int = 0
    """A node with pools stands still for up to two leases; then it goes on where it was."""
    split: int = 0
    """Two groups of hosts don't hear each other for up to two leases."""
    oneway: int = 0
    """One group of hosts is not heard by the others for up to two leases."""
    loss: float = 0.0
    """Share of messages that never arrive."""
    duplicate: float = 0.0
    """Share of messages that arrive twice, each with a delay of its own."""
    departure: float = 0.0
    """Share of grants whose holder's host falls silent for ever, so that the lease runs out."""
    reorder: float = 0.0
    """Share of messages that take up to ten mean delays longer, so that others overtake them."""


class Strike(msgspec.Struct, frozen=True):
    """One blow: when, of which kind, who, and for how long. Times in mean message delays."""

    at: float
    kind: str
    victim: float
    """0 to 1, a place in the list of hosts that this kind can strike."""
    down: float


def strikes(
    faults: Blows, *, seed: int, duration: float, last: float = 0.9, down: float = 10.0
) -> list[Strike]:
    """All blows of a run, by time (in mean message delays); none after `last` of the duration.

    `down` is the mean of how long a blow lasts, beyond 1.
    """
    rng = random.Random(f"holdall faults {seed}")
    drawn = [
        Strike(
            at=rng.uniform(0.05, last) * duration,
            kind=kind,
            victim=rng.random(),
            down=1.0 + rng.expovariate(1 / down),
        )
        for kind in faults.kinds
        for _ in range(getattr(faults, kind))
    ]
    return sorted(drawn, key=lambda strike: strike.at)


def parse(text: str) -> Faults:
    """`restart=3,loss=0.01` as typed on the command line. Raises ValueError with the known names."""
    return parse_as(Faults, text)


def parse_as(wanted: type[AnyBlows], text: str) -> AnyBlows:
    """The same for any set of faults."""
    values: dict[str, float] = {}
    known: Sequence[str] = wanted.__struct_fields__
    for part in filter(None, text.split(",")):
        name, sign, number = part.partition("=")
        name = name.strip()
        if name not in known or not sign:
            raise ValueError(
                f"unknown fault {part!r}; write NAME=NUMBER with NAME one of: {', '.join(known)}"
            )
        try:
            values[name] = float(number)
        except ValueError:
            raise ValueError(f"fault {name}: {number!r} is no number") from None
        if name in wanted.kinds and values[name] != int(values[name]):
            raise ValueError(f"fault {name} is a whole number of blows, e.g. {name}=3")
    return wanted(**{name: int(value) if name in wanted.kinds else value for name, value in values.items()})

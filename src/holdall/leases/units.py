"""The units of one pool: who has which, which are free, and how many the protocol may count with."""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator
from typing import Literal, TypeAlias

from holdall.leases.messages import PoolSpec
from holdall.protocols.vocabulary import ClaimId

Stage: TypeAlias = Literal["", "on_release", "check", "cooldown", "quarantined", "moving"]
UnitState: TypeAlias = Literal[
    "free", "held", "preparing", "cleaning", "cooldown", "moving", "quarantined", "draining"
]


class Unit:
    """One unit. It is *counted* while a claim has it or while it is free to be given."""

    __slots__ = ("claim", "fence", "index", "leaving", "name", "note", "run", "stage", "unclean")

    def __init__(self, name: str, index: int, fence: int) -> None:
        self.name = name
        self.index = index
        """Place in the order in which units are given."""
        self.fence = fence
        """Only grows: the last one given, or one below which none will be given."""
        self.claim: tuple[ClaimId, int] | None = None
        self.stage: Stage = ""
        """What keeps it out of service, apart from draining."""
        self.leaving = False
        """Not in the configuration any more."""
        self.run = 0
        """The hook that is under way for it; 0: none."""
        self.unclean = False
        self.note = ""

    def state(self, *, draining: bool) -> UnitState:
        """The one word for people; `draining` tells whether the whole node is."""
        if self.stage == "quarantined":
            return "quarantined"
        if self.claim is not None:
            return "preparing" if self.run else "held"
        if self.stage == "cooldown" or self.stage == "moving":  # noqa: PLR1714 - a set would not narrow the type
            return self.stage
        if self.stage or self.run:
            return "cleaning"
        return "draining" if draining or self.leaving else "free"

    def copy(self) -> "Unit":
        """An independent twin."""
        twin = Unit(self.name, self.index, self.fence)
        for slot in ("claim", "stage", "leaving", "run", "unclean", "note"):
            setattr(twin, slot, getattr(self, slot))
        return twin

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (self.fence, self.claim, self.stage, self.leaving, self.run, self.unclean)


class PoolUnits:
    """A pool of the book. `capacity` and the free units are kept up to date, so nothing walks all units."""

    def __init__(self, spec: PoolSpec, fence: int) -> None:
        self.spec = spec
        self.units = {name: Unit(name, index, fence) for index, name in enumerate(spec.units)}
        self.capacity = len(self.units)
        self.held = 0
        self._free: list[tuple[int, str]] = [(unit.index, unit.name) for unit in self.units.values()]

    def free_count(self) -> int:
        """Units that can be given now."""
        return len(self._free)

    def take(self, claim: tuple[ClaimId, int], fence: int) -> Unit:
        """The first free unit, for this claim. The caller knows that there is one."""
        _, name = self._free.pop(0)
        unit = self.units[name]
        unit.claim, unit.fence = claim, fence
        self.held += 1
        return unit

    def leave(self, unit: Unit) -> None:
        """The claim has it no more; it is not free yet and not counted."""
        unit.claim = None
        self.held -= 1
        self.capacity -= 1

    def enter(self, unit: Unit) -> None:
        """Out of service -> free."""
        insort(self._free, (unit.index, unit.name))
        self.capacity += 1

    def withdraw(self, unit: Unit) -> bool:
        """Free -> out of service. False when it was not free."""
        place = bisect_left(self._free, (unit.index, unit.name))
        if place == len(self._free) or self._free[place] != (unit.index, unit.name):
            return False
        del self._free[place]
        self.capacity -= 1
        return True

    def hold(self, unit: Unit, claim: tuple[ClaimId, int], fence: int) -> None:
        """After a restart: this unit is the claim's."""
        if self.withdraw(unit):
            self.capacity += 1
        unit.claim, unit.fence = claim, fence
        self.held += 1

    def drop(self, unit: Unit) -> None:
        """Forget a unit that has left the configuration and is out of service."""
        del self.units[unit.name]

    def add(self, name: str, fence: int) -> Unit:
        """A unit that is new in the configuration, out of service as yet."""
        index = 1 + max((unit.index for unit in self.units.values()), default=-1)
        unit = Unit(name, index, fence)
        self.units[name] = unit
        return unit

    def in_order(self) -> Iterator[Unit]:
        """All units, in the order in which they are given."""
        return iter(sorted(self.units.values(), key=lambda unit: unit.index))

    def copy(self) -> "PoolUnits":
        """An independent twin."""
        twin = object.__new__(PoolUnits)
        twin.spec = self.spec
        twin.units = {name: unit.copy() for name, unit in self.units.items()}
        twin.capacity, twin.held = self.capacity, self.held
        twin._free = list(self._free)
        return twin

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return tuple((name, unit.key()) for name, unit in self.units.items())

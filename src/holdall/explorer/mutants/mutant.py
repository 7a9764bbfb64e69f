"""A rule taken away, and where that must be found.

How to add mutants of a protocol: write `explorer/mutants/NAME.py` with the shipped machines changed by one method
each, and a tuple of `Mutant` values:

    MUTANTS = (
        Mutant(
            name="no-doorway", protocol="game", rule="a newcomer waits for those that came before it",
            system=lambda world: GameSystem(world, manager=NoDoorway), world=lambda: named("ring3"),
            found_as=("starved",), faults="crash=1",
        ),
    )

and add that tuple to `_GROUPS` in `explorer/mutants/registry.py`. `faults` is what `--faults` takes. A mutant that no
closed world shows, because it needs clocks or long runs, gives `seeded` in place of `system` and `world`: methods that
are replaced, and the setup of the runs; `found_as` is how the violation's text begins. `holdall lab mutants` runs all and fails when one is not found as `found_as` says.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from holdall.explorer.links import Order
from holdall.explorer.moves import Timers
from holdall.explorer.options import Options, read_reduce
from holdall.world.faults import Budget, read_faults
from holdall.world.link import CountedPeer, LinkWorld
from holdall.world.plan import World
from holdall.world.system import System


class Change(msgspec.Struct, frozen=True):
    """A method of a shipped class, or a function of a module, replaced for the length of a run."""

    owner: Any
    name: str
    value: Any

    def __post_init__(self) -> None:
        if self.name not in vars(self.owner):
            raise ValueError(f"{self.owner.__name__} has no {self.name} of its own to change")


class Seeded(msgspec.Struct, frozen=True, kw_only=True):
    """Where seeded runs find a mutant: with `changes` made, the seeds from `first` on, until one shows a violation.

    `driver`: `bare` for protocols alone (`setup` as `holdall.simulator.setup.Setup`), `whole` for whole nodes
    (`holdall.simulator.whole.setup.WholeSetup`); what is not said is as there.
    """

    changes: tuple[Change, ...]
    setup: Mapping[str, Any] = {}
    driver: Literal["bare", "whole"] = "whole"
    first: int = 1
    seeds: int = 20
    """So many at most."""


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of a protocol with claims taken away."""

    name: str
    """Unique within its protocol; `World.mutant` carries it into traces."""
    protocol: str
    rule: str
    """What holds in the shipped machines and not here."""
    found_as: tuple[str, ...]
    """The property that is violated; several where more than one breaks on paths of the same length."""
    system: Callable[[World], System] | None = None
    """The machines of a world with the rule taken away."""
    world: Callable[[], World] | None = None
    """Where the search finds it."""
    faults: str = ""
    timers: Timers | None = None
    links: Order = "any"
    reduce: str = ""
    """As `--reduce` takes it."""
    states_max: int | None = None
    """The search gives up there; None: the world is small."""
    seeded: Seeded | None = None

    def budget(self) -> Budget:
        """The faults it takes to see it."""
        return read_faults(self.faults)

    def options(self) -> Options:
        """How its world is explored. Raises BadWorld."""
        return Options(timers=self.timers, order=self.links, reduce=read_reduce(self.reduce))


class LinkMutant(msgspec.Struct, frozen=True):
    """A rule of the link between two hosts taken away."""

    name: str
    rule: str
    """What holds in the shipped link and not here."""
    make: type[CountedPeer]
    world: str
    """Name of one of `holdall.world.link.LINK_WORLDS`."""
    found_as: tuple[str, ...]
    """The property that is violated."""
    faults: str = ""
    timers: Timers = "quiet"
    protocol: str = "link"

    def budget(self) -> Budget:
        """The faults it takes to see it."""
        return read_faults(self.faults)

    def world_of(self, world: LinkWorld) -> LinkWorld:
        """The same world without the rule."""
        return msgspec.structs.replace(world, mutant=self.name)

"""Which protocols can be explored, and the closed system of each."""

from holdall.explorer.mutants import MUTANTS
from holdall.world.chain import ChainSystem
from holdall.world.plan import BadWorld, World
from holdall.world.system import System

PROTOCOLS = ("chain", "link")
"""What `lab explore` takes; the link has worlds of its own, see `link_moves`."""


def system_of(protocol: str, world: World) -> System:
    """The machines of a world; those of its mutant where it names one. Raises BadWorld."""
    if protocol != "chain":
        raise BadWorld(f"no protocol {protocol!r} with claims to explore; there is chain")
    if not world.mutant:
        return ChainSystem(world)
    mutant = MUTANTS.get(world.mutant)
    if mutant is None:
        raise BadWorld(f"no mutant {world.mutant!r}; there are {', '.join(MUTANTS)}")
    return ChainSystem(world, manager=mutant.make, quarantine=mutant.quarantine, settled=False)

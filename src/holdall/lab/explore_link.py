"""What `holdall lab explore --protocol link` explores: two linked hosts that say words to each other."""

import msgspec

from holdall.explorer.link_moves import LinkSpace
from holdall.explorer.moves import Timers
from holdall.explorer.mutants.link import LINK_MUTANTS, link_mutant, link_system, mutant_world
from holdall.world.faults import NONE, Budget, read_faults
from holdall.world.link import LINK_WORLDS, LinkWorld, link_world
from holdall.world.plan import BadWorld


def link_space(
    *, world: str | None, mutant: str | None, faults: str | None, timers: Timers | None
) -> tuple[LinkSpace, Budget]:
    """The moves of a named world, or of a mutant's, and the faults. Raises BadWorld."""
    left = NONE if faults is None else read_faults(faults)
    found = None if mutant is None else link_mutant(mutant)
    if found is not None:
        made = mutant_world(found)
        if world is not None:
            made = msgspec.structs.replace(link_world(world), mutant=found.name)
        left = found.budget() if faults is None and world is None else left
        timers = timers or found.timers
    elif world is None:
        raise BadWorld(f"no world; give --world NAME, one of {', '.join(LINK_WORLDS)}")
    else:
        made = link_world(world)
    if timers == "off":
        raise BadWorld("the link acknowledges and repeats by timers; write --timers quiet or any")
    return LinkSpace(link_system(made), left, timers=timers or "quiet"), left


def world_rows() -> list[tuple[str, str]]:
    """(name, what is said and how) of each world of the link."""
    return [(name, said(world)) for name, world in LINK_WORLDS.items()]


def said(world: LinkWorld) -> str:
    """A world for people."""
    turns = " · ".join(
        f"{host} says {' then '.join(str(words) for words in says)}"
        for host, says in zip("ab", world.says, strict=True)
        if says
    )
    notes = [
        *([f"window of {world.window}"] if world.window < 64 else []),
        *([f"given up after {world.give_up} repetition"] if world.give_up else []),
        *(["b hears and speaks late"] if world.late else []),
        *(["process numbers go down"] if world.falling else []),
    ]
    return turns + (f" ({', '.join(notes)})" if notes else "")


def mutant_rows() -> list[tuple[str, str, str]]:
    """(name, rule, where it is found) of each mutant of the link."""
    return [
        (mutant.name, mutant.rule, mutant.world + (f", {mutant.faults}" if mutant.faults else ""))
        for mutant in LINK_MUTANTS.values()
    ]

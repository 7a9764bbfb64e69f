"""Which protocols can be explored: the closed system of each, its named worlds and its usual runs.

Another protocol is one more entry of PROTOCOLS. The link between two hosts has worlds of its own, see `link_moves`.
"""

from collections.abc import Callable, Mapping

import msgspec

from holdall.explorer.endless import EndlessByPool
from holdall.explorer.mutants.registry import mutant_of
from holdall.explorer.runs import chain, game, lanes, ordered, steps, strong_weak, token
from holdall.explorer.runs.run import Run
from holdall.explorer.strong_weak import StrongWeakSystem, named_strong
from holdall.machine.contract import Address, Machine
from holdall.protocols.lanes.lending_claimant import LendingClaimant
from holdall.protocols.registry import DEFAULT_TUNING, Tuning
from holdall.world.by_pool import MakeClaimant
from holdall.world.by_pool_worlds import by_pool_worlds
from holdall.world.chain import ChainSystem
from holdall.world.literal.game import ROWS as GAME_ROWS
from holdall.world.literal.game import game_system, game_worlds
from holdall.world.literal.lanes import ROWS as LANE_ROWS
from holdall.world.literal.lanes import combined_system, lane_system, lane_worlds
from holdall.world.literal.rows import Row
from holdall.world.literal.steps import BallotSystem, SkeenSystem, step_worlds
from holdall.world.literal.strong_weak import ROWS as STRONG_WEAK_ROWS
from holdall.world.literal.strong_weak import strong_weak_system, strong_weak_worlds
from holdall.world.named import stamped, worlds
from holdall.world.plan import BadWorld, World
from holdall.world.system import System

LINK = "link"
"""The protocol between hosts, explored with words instead of claims."""


class Explored(msgspec.Struct, frozen=True):
    """A protocol as the explorer sees it."""

    make: Callable[[World], System]
    """The shipped machines of a world."""
    worlds: Callable[[int | None], dict[str, World]]
    """All named worlds; the number is how often claims come that would come for ever, None for the usual number."""
    runs: tuple[Run, ...]
    """What `--world all` explores: some minutes at most."""
    long_runs: tuple[Run, ...] = ()
    """What `--world long` explores."""
    literal: Mapping[str, Row] = {}
    """Named worlds of a printed algorithm: when their alarms ring, and the guided scripts of the long ones."""


def _by_pool(
    name: str,
    runs: tuple[Run, ...] = (),
    long_runs: tuple[Run, ...] = (),
    *,
    patience_ms: int = DEFAULT_TUNING.patience_ms,
    claimant: MakeClaimant | None = None,
) -> Explored:
    """A protocol of the registry that asks each pool apart; `claimant`: in place of the entry's."""
    return Explored(
        lambda world: EndlessByPool(world, name, patience_ms=patience_ms, claimant=claimant),
        by_pool_worlds,
        runs,
        long_runs,
    )


def lends_twice(node: str, agent: Address, tuning: Tuning) -> Machine:
    """A claimant of lanes that lends at once, and once more while timers fire: more often has no end."""
    again_ms = tuning.repeat_most_ms or tuning.repeat_ms
    return LendingClaimant(node, agent, again_ms=again_ms, patience_ms=tuning.patience_ms, rounds_most=2)


def _strong_weak(name: str, *, low: bool = False) -> Explored:
    """`low`: the pool with the lower id is strong; else the one that the claim names first."""
    claimant = None if low else named_strong
    return Explored(
        lambda world: StrongWeakSystem(world, name, claimant=claimant),
        by_pool_worlds,
        *strong_weak.VARIANTS[name],
    )


PROTOCOLS: dict[str, Explored] = {
    "chain": Explored(ChainSystem, worlds, chain.RUNS, chain.LONG),
    "ordered": _by_pool("ordered", ordered.RUNS, ordered.LONG),
    "lanes": _by_pool("lanes", lanes.RUNS, lanes.LONG),
    "lanes-lending": _by_pool(
        "lanes-lending", lanes.LENDING, lanes.LENDING_LONG, patience_ms=0, claimant=lends_twice
    ),
    "strong-weak": _strong_weak("strong-weak", low=True),
    "strong-weak-named": _strong_weak("strong-weak-named"),
    "strong-weak-probe": _strong_weak("strong-weak-probe"),
    "strong-weak-probe-aged": _strong_weak("strong-weak-probe-aged", low=True),
    "strong-weak-probe-token": _strong_weak("strong-weak-probe-token"),
    "token": _by_pool("token", token.RUNS, token.LONG),
    "token-tickets": _by_pool("token-tickets", token.TICKETS, token.TICKETS_LONG),
    "game": _by_pool("game", game.RUNS, game.LONG),
    "game-complete": _by_pool("game-complete", game.COMPLETE, game.COMPLETE_LONG, patience_ms=0),
    "literal-game": Explored(game_system, game_worlds, (), literal=GAME_ROWS),
    "literal-lanes": Explored(lane_system, lane_worlds, (), literal=LANE_ROWS),
    "literal-lanes-combined": Explored(combined_system, lane_worlds, (), literal=LANE_ROWS),
    "literal-strong-weak": Explored(strong_weak_system, strong_weak_worlds, (), literal=STRONG_WEAK_ROWS),
    "ballot": Explored(BallotSystem, step_worlds, steps.BALLOT),
    "skeen": Explored(SkeenSystem, step_worlds, steps.SKEEN),
}
"""Protocols with claims, by name."""


def names() -> tuple[str, ...]:
    """What `lab explore --protocol` takes."""
    return (*PROTOCOLS, LINK)


def explored(protocol: str) -> Explored:
    """The entry of a protocol with claims. Raises BadWorld."""
    found = PROTOCOLS.get(protocol)
    if found is None:
        raise BadWorld(f"no protocol {protocol!r} to explore; there is {', '.join(sorted(names()))}")
    return found


def system_of(protocol: str, world: World) -> System:
    """The machines of a world; those of its mutant where it names one. Raises BadWorld."""
    entry = explored(protocol)
    if not world.mutant:
        return entry.make(world)
    mutant = mutant_of(protocol, world.mutant)
    if mutant.system is None:
        raise BadWorld(f"mutant {world.mutant!r} is found by seeded runs; see holdall lab mutants")
    return mutant.system(world)


def world_of(
    protocol: str, name: str, *, repeat: int | None = None, passes: int = 1, passes_per_ahead: int = 0
) -> World:
    """A named world of a protocol, `@oldest` or `@reversed` after it for stamps that come with the claims.

    Raises BadWorld.
    """
    known = explored(protocol).worlds(repeat)
    base, _, order = name.partition("@")
    if base not in known:
        raise BadWorld(
            f"no world {base!r} of {protocol}; see holdall lab explore --protocol {protocol} --world list"
        )
    if order not in {"", "oldest", "reversed"}:
        raise BadWorld(f"no order of stamps {order!r}; write {base}@oldest or {base}@reversed")
    made = msgspec.structs.replace(known[base], passes=passes, passes_per_ahead=passes_per_ahead)
    return stamped(made, order) if order else made

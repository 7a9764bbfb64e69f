"""Which world is explored, and how: from what the command line asks for to the moves of a closed world."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from holdall.explorer.link_moves import LinkSpace
from holdall.explorer.moves import Timers
from holdall.explorer.mutants.registry import mutant_of, mutants_of
from holdall.explorer.options import Options, read_order, read_reduce
from holdall.explorer.space import Space
from holdall.explorer.systems import LINK, explored, names, system_of, world_of
from holdall.lab.explore_link import link_space
from holdall.world.faults import NONE, Budget, read_faults
from holdall.world.literal.rows import Row
from holdall.world.literal.scripts import Script, read_script
from holdall.world.plan import BadWorld, World, read_world


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for; texts as they were typed."""

    protocol: str = "chain"
    world: str | None = None
    """A name, `all`, `long`, `list`, or a TOML file."""
    pools: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    repeat: int | None = None
    faults: str | None = None
    passes: int | None = None
    passes_per_ahead: int | None = None
    mutant: str | None = None
    max_states: int | None = None
    trace: str | None = None
    json: bool = False
    timers: str | None = None
    """off, quiet (only when nothing is in flight) or any; None: quiet when the faults can lose something."""
    claimants_crash: bool = True
    """Crashes and restarts hit claimants' hosts, not only nodes that own pools."""
    falls_at: str = ""
    """The only host that falls; empty: each may."""
    links: str = "any"
    reduce: str = ""
    compact: bool = False
    fair: bool = True
    jobs: int = 1
    min_states: int = 0
    """With `--world all`: each protocol must have so many states in all."""


class Task(msgspec.Struct, frozen=True):
    """One world to explore. `said`: what is assumed or left out, for people."""

    space: Space | LinkSpace
    left: Budget
    script: Script | None = None
    """A guided script that is replayed instead of a search."""
    said: tuple[str, ...] = ()
    reductions: tuple[str, ...] = ()


def task_of(asked: Asked) -> Task:
    """The world that is asked for. Raises BadWorld."""
    if asked.protocol not in names():
        raise BadWorld(f"no protocol {asked.protocol!r} to explore; there is {', '.join(sorted(names()))}")
    if asked.protocol == LINK:
        return _link_task(asked)
    world, left = _world(asked)
    system = system_of(asked.protocol, world)
    row = _row(asked)
    default = None if row is None else row.timers
    reduce = read_reduce(asked.reduce)
    if row is not None and row.reduced and "late" not in reduce:
        reduce = ("late", *reduce)
    if asked.mutant is not None:
        default = mutant_of(asked.protocol, asked.mutant).timers
    if asked.falls_at and asked.falls_at not in system.hosts():
        raise BadWorld(f"no host {asked.falls_at} in this world: {', '.join(system.hosts())}")
    options = Options(
        timers=_timers(asked, default),
        claimants_crash=asked.claimants_crash,
        falling=asked.falls_at,
        order=read_order(asked.links),
        reduce=reduce,
    )
    return Task(options.space(system, left), left, _script(asked), tuple(options.said()), reduce)


def _link_task(asked: Asked) -> Task:
    if asked.pools or asked.claims or asked.repeat or asked.passes or asked.passes_per_ahead:
        raise BadWorld("the link knows no pools and claims; give --world, --faults, --mutant or --timers")
    if asked.reduce or asked.links != "any":
        raise BadWorld("the link is what keeps order; leave --links and --reduce out")
    timers = _timers(asked, None)
    return Task(*link_space(world=asked.world, mutant=asked.mutant, faults=asked.faults, timers=timers))


def _row(asked: Asked) -> Row | None:
    """What is known of a named world of a printed algorithm."""
    return explored(asked.protocol).literal.get(asked.world or "")


def _script(asked: Asked) -> Script | None:
    row = _row(asked)
    return None if row is None or not row.script or asked.faults else read_script(row.script)


def _timers(asked: Asked, default: Timers | None) -> Timers | None:
    match asked.timers:
        case None:
            return default
        case "off" | "quiet" | "any":
            return asked.timers
        case text:
            raise BadWorld(f"no rule for timers {text!r}; write off, quiet or any")


def _world(asked: Asked) -> tuple[World, Budget]:
    for name, number, least in (
        ("--repeat", asked.repeat, 1),
        ("--passes", asked.passes, 0),
        ("--passes-per-ahead", asked.passes_per_ahead, 0),
        ("--max-states", asked.max_states, 1),
    ):
        if number is not None and number < least:
            raise BadWorld(f"{name} {number}: at least {least}")
    if asked.mutant is not None:
        return _mutated(asked)
    left = NONE if asked.faults is None else read_faults(asked.faults)
    return _plain_world(asked), left


def _mutated(asked: Asked) -> tuple[World, Budget]:
    mutant = mutants_of(asked.protocol).get(asked.mutant or "")
    if mutant is None:
        raise BadWorld(
            f"no mutant {asked.mutant!r} of {asked.protocol}; see holdall lab explore --mutant list"
        )
    if asked.world is None and not asked.pools:
        if mutant.world is None:
            raise BadWorld(f"mutant {mutant.name!r} is found by seeded runs; see holdall lab mutants")
        world, left = mutant.world(), mutant.budget()
    else:
        world, left = _plain_world(asked), NONE
    if asked.faults is not None:
        left = read_faults(asked.faults)
    return msgspec.structs.replace(world, mutant=mutant.name), left


def _plain_world(asked: Asked) -> World:
    numbers: dict[str, Any] = {"passes": 1 if asked.passes is None else asked.passes}
    numbers["passes_per_ahead"] = asked.passes_per_ahead or 0
    if asked.world is None:
        if not asked.pools:
            raise BadWorld("no world; give --world NAME (--world list shows them), or --pool and --claim")
        return read_world(list(asked.pools), list(asked.claims), repeat=asked.repeat or 1, **numbers)
    if asked.pools or asked.claims:
        raise BadWorld("--world and --pool or --claim exclude each other; leave one out")
    known = explored(asked.protocol).worlds(asked.repeat)
    if asked.world.partition("@")[0] in known or not Path(asked.world).exists():
        return world_of(asked.protocol, asked.world, repeat=asked.repeat, **numbers)
    return _world_of_file(Path(asked.world), asked, numbers)


def _world_of_file(path: Path, asked: Asked, numbers: dict[str, Any]) -> World:
    """TOML: `pools = ["gpu@n1=2"]`, `claims = ["gpu@n1:1"]`, and if wanted repeat, passes, passes_per_ahead."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadWorld(f"can't read world {path}: {error}") from error
    known = {"pools", "claims", "repeat", "passes", "passes_per_ahead"}
    if unknown := sorted(set(table) - known):
        raise BadWorld(f"{path}: unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")
    try:
        pools = msgspec.convert(table.get("pools", []), list[str])
        claims = msgspec.convert(table.get("claims", []), list[str])
        whole = {
            name: msgspec.convert(table[name], int) for name in known - {"pools", "claims"} if name in table
        }
    except msgspec.ValidationError as error:
        raise BadWorld(f"{path}: {error}") from error
    repeat = asked.repeat or whole.pop("repeat", 1)
    if asked.passes is not None:
        whole.pop("passes", None)
    if asked.passes_per_ahead is not None:
        whole.pop("passes_per_ahead", None)
    world = read_world(pools, claims, repeat=repeat, **{**numbers, **whole})
    return msgspec.structs.replace(world, name=path.stem)

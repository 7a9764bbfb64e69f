"""`holdall lab explore`: search a closed world exhaustively and say what was found.

Exit status: 0 clean, 1 a property is violated, 3 cut before the end, 64 a world or fault that can't be read.
"""

import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdall.explorer.link_moves import LinkSpace
from holdall.explorer.moves import Space, Timers
from holdall.explorer.mutants import MUTANTS
from holdall.explorer.search import Result
from holdall.explorer.search import explore as search
from holdall.explorer.systems import PROTOCOLS, system_of
from holdall.explorer.trace import claim_text, lines_of, told
from holdall.lab.explore_link import link_space, mutant_rows, world_rows
from holdall.machine.codec import CODEC
from holdall.world.faults import NONE, Budget, read_faults, text_of
from holdall.world.link import LinkWorld
from holdall.world.named import named, worlds
from holdall.world.plan import BadWorld, PoolSize, World, read_world

CLEAN, VIOLATED, CUT, USAGE = 0, 1, 3, 64
JSON_VERSION = 1
LINK = "link"
"""The protocol between hosts, explored with words instead of claims."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for; texts as they were typed."""

    protocol: str = "chain"
    world: str | None = None
    """A name, `list`, or a TOML file."""
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


class _Found(msgspec.Struct, omit_defaults=False):
    property: str
    steps: int
    trace: str | None
    text: str


class _Report(msgspec.Struct):
    v: int
    protocol: str
    world: str
    faults: str
    mutant: str | None
    states: int
    transitions: int
    complete: bool
    violations: list[_Found]
    seconds: float


def run_explore(asked: Asked) -> int:
    """Explore, print, write the trace of a violation; the exit status."""
    if asked.world == "list":
        (_list_link_worlds if asked.protocol == LINK else _list_worlds)(as_json=asked.json)
        return CLEAN
    if asked.mutant == "list":
        _list_mutants(asked)
        return CLEAN
    try:
        space, left = _space(asked)
    except BadWorld as error:
        print(f"holdall: {error}", file=sys.stderr)
        return USAGE
    begun = time.monotonic()
    progress = _Progress(begun) if sys.stderr.isatty() else None
    result = search(space, states_max=asked.max_states, progress=progress)
    seconds = time.monotonic() - begun
    if progress is not None:
        progress.clear()
    traces = [_write_trace(asked, space, number, result) for number in range(len(result.violations))]
    if asked.json:
        _print_json(asked, space.system.world, left, result, traces, seconds)
    else:
        _print_text(space, left, result, traces, seconds)
    return _status(result)


def _status(result: Result) -> int:
    if result.violations:
        return VIOLATED
    return CLEAN if result.complete else CUT


def _space(asked: Asked) -> tuple[Space | LinkSpace, Budget]:
    if asked.protocol not in PROTOCOLS:
        raise BadWorld(f"no protocol {asked.protocol!r} to explore; there is {', '.join(sorted(PROTOCOLS))}")
    if asked.protocol == LINK:
        if asked.pools or asked.claims or asked.repeat or asked.passes or asked.passes_per_ahead:
            raise BadWorld("the link knows no pools and claims; give --world, --faults, --mutant or --timers")
        return link_space(
            world=asked.world, mutant=asked.mutant, faults=asked.faults, timers=_timers(asked, None)
        )
    world, left = _world(asked)
    system = system_of(asked.protocol, world)
    timers = _timers(asked, None if asked.mutant is None else MUTANTS[asked.mutant].timers)
    if asked.falls_at and asked.falls_at not in system.hosts():
        raise BadWorld(f"no host {asked.falls_at} in this world: {', '.join(system.hosts())}")
    crash, falls_at = asked.claimants_crash, asked.falls_at
    return Space(system, left, timers=timers, claimants_crash=crash, falling=falls_at), left


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
    mutant = MUTANTS.get(asked.mutant or "")
    if mutant is None:
        raise BadWorld(f"no mutant {asked.mutant!r}; see holdall lab explore --mutant list")
    if asked.world is None and not asked.pools:
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
    if asked.world.partition("@")[0] in worlds() or not Path(asked.world).exists():
        return named(asked.world, repeat=asked.repeat, **numbers)
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


def _write_trace(asked: Asked, space: Space | LinkSpace, number: int, result: Result) -> str | None:
    if asked.trace is None:
        return None
    lines = lines_of(space, result.violations[number], asked.protocol, codec=CODEC)
    Path(asked.trace).write_bytes(b"".join(lines))
    return asked.trace


def _list_worlds(*, as_json: bool) -> None:
    found = worlds()
    if as_json:
        rows = [
            {"name": name, "pools": [_pool(pool) for pool in made.pools], "claims": _claims(made)}
            for name, made in found.items()
        ]
        print(msgspec.json.encode({"v": JSON_VERSION, "worlds": rows}).decode())
        return
    for name, made in found.items():
        print(f"{name:8} {' '.join(_pool(pool) for pool in made.pools)}")
        for claim in _claims(made):
            print(f"         {claim}")


def _list_link_worlds(*, as_json: bool) -> None:
    rows = world_rows()
    if as_json:
        plain = [{"name": name, "says": text} for name, text in rows]
        print(msgspec.json.encode({"v": JSON_VERSION, "worlds": plain}).decode())
        return
    for name, text in rows:
        print(f"{name:12} {text}")


def _list_mutants(asked: Asked) -> None:
    rows = mutant_rows() if asked.protocol == LINK else _mutant_rows()
    if asked.json:
        plain = [{"name": name, "rule": rule} for name, rule, _ in rows]
        print(msgspec.json.encode({"v": JSON_VERSION, "mutants": plain}).decode())
        return
    for name, rule, where in rows:
        print(f"{name:18} {rule} ({where})")


def _mutant_rows() -> list[tuple[str, str, str]]:
    return [
        (
            mutant.name,
            mutant.rule,
            ", ".join(filter(None, (mutant.world().name, text_of(mutant.budget())))),
        )
        for mutant in MUTANTS.values()
    ]


def _pool(pool: PoolSize) -> str:
    return f"{pool.pool}@{pool.node}={pool.units}"


def _claims(made: World) -> list[str]:
    return [claim_text(claim) for claim in made.claims]


def _print_json(
    asked: Asked,
    world: World | LinkWorld,
    left: Budget,
    result: Result,
    traces: Sequence[str | None],
    seconds: float,
) -> None:
    report = _Report(
        v=JSON_VERSION,
        protocol=asked.protocol,
        world=world.name,
        faults=text_of(left),
        mutant=world.mutant or None,
        states=result.states,
        transitions=result.transitions,
        complete=result.complete,
        violations=[
            _Found(violation.name, violation.steps, trace, violation.text)
            for violation, trace in zip(result.violations, traces, strict=True)
        ],
        seconds=round(seconds, 3),
    )
    print(msgspec.json.encode(report).decode())


def _print_text(
    space: Space | LinkSpace, left: Budget, result: Result, traces: Sequence[str | None], seconds: float
) -> None:
    world = space.system.world
    rate = result.states / seconds if seconds else 0
    faults = text_of(left) or "no faults"
    mutant = f", without the rule {world.mutant!r}" if world.mutant else ""
    print(f"world {world.name}, {faults}{mutant}: {result.states:,} states, {result.transitions:,} moves")
    for violation, trace in zip(result.violations, traces, strict=True):
        print(f"violated: {violation.name} in {violation.steps} steps: {violation.text}")
        for line in told(space, violation.moves):
            print(f"  {line}")
        if trace is not None:
            print(f"trace: {trace}; see it again with: holdall lab replay {trace}", file=sys.stderr)
    if not result.violations:
        print(
            "complete: no violation, from every state everybody can be served"
            if result.complete
            else f"cut at {result.states:,} states: nothing found so far; a larger --max-states goes on"
        )
    print(f"{seconds:.1f} s, {rate:,.0f} states/s", file=sys.stderr)


class _Progress:
    """One live line on a terminal."""

    def __init__(self, begun: float) -> None:
        self._begun = begun
        self._shown = begun

    def __call__(self, states: int, waiting: int) -> None:
        now = time.monotonic()
        if now - self._shown < 0.5:
            return
        self._shown = now
        rate = states / (now - self._begun)
        text = f"\r{states:,} states, {waiting:,} to look at, {rate:,.0f} states/s\x1b[K"
        print(text, end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)

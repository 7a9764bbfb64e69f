"""`holdall lab explore --world list` and `--mutant list`."""

import sys

import msgspec

from holdall.explorer.mutants.registry import mutants_of
from holdall.explorer.systems import LINK, explored
from holdall.explorer.trace import claim_text
from holdall.lab.explore_link import mutant_rows, world_rows
from holdall.lab.explore_worlds import Asked
from holdall.world.faults import text_of
from holdall.world.plan import BadWorld, PoolSize, World

CLEAN, USAGE = 0, 64
JSON_VERSION = 1


def list_worlds(asked: Asked) -> int:
    """The worlds of a protocol; the exit status."""
    if asked.protocol == LINK:
        _list_link_worlds(as_json=asked.json)
        return CLEAN
    try:
        found = explored(asked.protocol).worlds(asked.repeat)
    except BadWorld as error:
        print(f"holdall: {error}", file=sys.stderr)
        return USAGE
    if asked.json:
        rows = [
            {"name": name, "pools": [_pool(pool) for pool in made.pools], "claims": _claims(made)}
            for name, made in found.items()
        ]
        print(msgspec.json.encode({"v": JSON_VERSION, "worlds": rows}).decode())
        return CLEAN
    for name, made in found.items():
        print(f"{name:8} {' '.join(_pool(pool) for pool in made.pools)}")
        for claim in _claims(made):
            print(f"         {claim}")
    return CLEAN


def _list_link_worlds(*, as_json: bool) -> None:
    rows = world_rows()
    if as_json:
        plain = [{"name": name, "says": text} for name, text in rows]
        print(msgspec.json.encode({"v": JSON_VERSION, "worlds": plain}).decode())
        return
    for name, text in rows:
        print(f"{name:12} {text}")


def list_mutants(asked: Asked) -> None:
    """The mutants of a protocol."""
    rows = mutant_rows() if asked.protocol == LINK else _mutant_rows(asked.protocol)
    if asked.json:
        plain = [{"name": name, "rule": rule} for name, rule, _ in rows]
        print(msgspec.json.encode({"v": JSON_VERSION, "mutants": plain}).decode())
        return
    for name, rule, where in rows:
        print(f"{name:18} {rule} ({where})")


def _mutant_rows(protocol: str) -> list[tuple[str, str, str]]:
    return [
        (
            mutant.name,
            mutant.rule,
            ", ".join(filter(None, (mutant.world().name, text_of(mutant.budget()))))
            if mutant.world is not None
            else "seeded runs",
        )
        for mutant in mutants_of(protocol).values()
    ]


def _pool(pool: PoolSize) -> str:
    return f"{pool.pool}@{pool.node}={pool.units}"


def _claims(made: World) -> list[str]:
    return [claim_text(claim) for claim in made.claims]

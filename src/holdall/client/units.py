"""The units of a lease, as users see them: `lease.units["psu"][0].fence`."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from holdall.model.errors import BadSpec
from holdall.model.frames import HeldUnit, Need, Selector
from holdall.model.spec import ALL_COUNT, parse_spec


class Unit(msgspec.Struct, frozen=True):
    """One unit. Pass `fence` on to whatever the unit is, so that it can refuse an older holder."""

    name: str
    node: str
    fence: int

    def __str__(self) -> str:
        return f"{self.name}@{self.node}"


def by_pool(units: tuple[HeldUnit, ...]) -> Mapping[str, list[Unit]]:
    """The units by the name of their pool, in the order in which the node lists them."""
    pools: dict[str, list[Unit]] = {}
    for unit in units:
        pools.setdefault(unit.pool, []).append(Unit(unit.name, unit.node, unit.fence))
    return MappingProxyType(pools)


def drop_names(units: tuple[HeldUnit, ...], given: tuple[object, ...]) -> tuple[str, ...]:
    """`pool/unit` of what shall be given back: Units, `pool/unit`, a pool's name (all its units), or a SPEC.

    A SPEC with a number gives so many units of its pools back, the last ones first: `psu:1`.
    """
    names: list[str] = []
    for item in given:
        matches = [unit for unit in units if _is_meant(unit, item)] or _of_spec(units, item)
        if not matches:
            held = ", ".join(f"{unit.pool}/{unit.name}" for unit in units) or "nothing"
            raise BadSpec(f"the lease holds no {item}. It holds: {held}")
        names += [f"{unit.pool}/{unit.name}" for unit in matches]
    return tuple(dict.fromkeys(names))


def needs_without(units: tuple[HeldUnit, ...], dropped: tuple[str, ...]) -> tuple[Need, ...]:
    """What the units that are left amount to, as needs: so many of each pool, on the nodes where they are."""
    kept: dict[tuple[str, str], int] = {}
    for unit in units:
        if f"{unit.pool}/{unit.name}" not in dropped:
            kept[unit.pool, unit.node] = kept.get((unit.pool, unit.node), 0) + 1
    return tuple(
        Need(options=(Selector(pools=(pool,), node=node, count=count),))
        for (pool, node), count in sorted(kept.items())
    )


def _is_meant(unit: HeldUnit, item: object) -> bool:
    if isinstance(item, Unit):
        return (unit.name, unit.node, unit.fence) == (item.name, item.node, item.fence)
    return str(item) in {
        unit.pool,
        unit.name,
        f"{unit.pool}/{unit.name}",
        f"{unit.pool}/{unit.name}@{unit.node}",
    }


def _of_spec(units: tuple[HeldUnit, ...], item: object) -> list[HeldUnit]:
    """What `POOL[+POOL…][,@NODE][:COUNT|:all]` means among these units; labels are not known of units."""
    if not isinstance(item, str) or "," in item.replace(",@", ""):
        return []
    try:
        selector = parse_spec(item)
    except BadSpec:
        return []
    found = [unit for unit in units if unit.pool in selector.pools and selector.node in {"", unit.node}]
    if selector.count == ALL_COUNT:
        return found
    return found[-selector.count :] if len(found) >= selector.count else []

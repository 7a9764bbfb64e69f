"""Reads `[[capacity]]`, `[[function]]`, `[location]` and `[policy]`, with file, line and key in each refusal."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdall.model.errors import BadConfig
from holdall.model.names import is_name
from holdall.model.quantities import parse_quantity
from holdall.model.refusals import Refusal
from holdall.model.terms import DURATION, STAY, VALUES_MAX, Sharing, Value
from holdall.node.location.configured import (
    CAPACITIES_MAX,
    CapacitySettings,
    CapacityUnit,
    FunctionSettings,
    NegotiationSettings,
    PolicySettings,
)
from holdall.node.toml_table import Source, Table

_UNITS: tuple[CapacityUnit, ...] = ("B/s", "B", "mcpu")
_UNIT_OF_COMMANDS: Mapping[str, CapacityUnit] = {"cpu": "mcpu", "mem": "B"}
_DURATION_MS_MAX = 30 * 86_400_000
_OFFER_MS_MIN, _OFFER_MS_MAX = 1000, 60_000


def read_terms(
    source: Source, values: Mapping[str, object], *, taken: frozenset[str]
) -> tuple[tuple[CapacitySettings, ...], tuple[FunctionSettings, ...]]:
    """All capacities and functions. `taken`: names of pools, which are terms, too. Raises BadConfig."""
    names = {*taken, STAY, DURATION}
    capacities: list[CapacitySettings] = []
    functions: list[FunctionSettings] = []
    for index, item in enumerate(_listed(source, values, "capacity")):
        known = ("name", "amount", "sharing", "step", "min")
        table = Table(source, item, "[[capacity]]", known=known, index=index)
        capacities.append(_capacity(table, _term_name(table, names)))
    for index, item in enumerate(_listed(source, values, "function")):
        table = Table(source, item, "[[function]]", known=("name", "values"), index=index)
        functions.append(FunctionSettings(_term_name(table, names), _values(table, item)))
    if len(capacities) + len(functions) > CAPACITIES_MAX:
        count = len(capacities) + len(functions)
        raise BadConfig(f"{source.name}: {count} capacities and functions; at most {CAPACITIES_MAX}")
    return tuple(capacities), tuple(functions)


def read_negotiation(source: Source, values: Mapping[str, object]) -> NegotiationSettings:
    """`[location]`. Raises BadConfig."""
    known = ("duration", "duration_min", "duration_max", "stay_max", "offer", "propose")
    table, base = Table(source, values, "[location]", known=known), NegotiationSettings()
    longest = table.duration("duration_max", base.duration_max_ms, least=1, most=_DURATION_MS_MAX)
    shortest = table.duration("duration_min", min(base.duration_min_ms, longest), least=1, most=longest)
    usual = min(max(base.duration_ms, shortest), longest)
    stay = table.has("stay_max")
    return NegotiationSettings(
        duration_ms=table.duration("duration", usual, least=shortest, most=longest),
        duration_min_ms=shortest,
        duration_max_ms=longest,
        stay_max_ms=table.duration("stay_max", None, least=1, most=_DURATION_MS_MAX) if stay else None,
        offer_ms=table.duration("offer", base.offer_ms, least=_OFFER_MS_MIN, most=_OFFER_MS_MAX),
        propose_ms=table.duration("propose", base.propose_ms, least=10, most=10_000),
    )


def read_policy_files(source: Source, values: Mapping[str, object], path: Path | None) -> PolicySettings:
    """`[policy]`; files are named relative to the configuration. Raises BadConfig."""
    table = Table(source, values, "[policy]", known=("file", "location", "revoke_grace", "limits"))
    grace_ms = table.duration(
        "revoke_grace", PolicySettings().revoke_grace_ms, least=0, most=_DURATION_MS_MAX
    )
    strict = table.choice("limits", PolicySettings().limits, {"reported": "", "strict": ""}) == "strict"
    if strict and not table.has("location"):
        raise table.bad(
            "limits", 'limits = "strict" is about those of the location. Name their file: location = "FILE"'
        )
    return PolicySettings(
        table.file("file", path), table.file("location", path), grace_ms, "strict" if strict else "reported"
    )


def _listed(source: Source, values: Mapping[str, object], name: str) -> list[dict[str, object]]:
    try:
        return msgspec.convert(values.get(name, []), list[dict[str, object]])
    except msgspec.ValidationError:
        raise BadConfig(
            f"{source.name}: {name} must be written as [[{name}]], once for each {name}"
        ) from None


def _term_name(table: Table, names: set[str]) -> str:
    name = table.text("name", "")
    if not is_name(name):
        raise table.bad(
            "name", f'name = "{name[:80]}" names no term (a-z, 0-9, ".", "_", "-"; at most 63; not empty)'
        )
    if name in names:
        raise table.bad(
            "name", f'name = "{name}" is taken: pools, capacities and functions share their names'
        )
    names.add(name)
    return name


def _capacity(table: Table, name: str) -> CapacitySettings:
    text = table.text("amount", "")
    amount, unit = _read_amount(table, text)
    if unit != _UNIT_OF_COMMANDS.get(name, unit):
        example = "4GiB" if name == "mem" else "8cpu"
        raise table.bad(
            "amount", f'amount = "{text[:40]}": commands are held to {name}, so write e.g. "{example}"'
        )
    choices = {"fair": "", "first": ""}
    sharing: Sharing = "first" if table.choice("sharing", "fair", choices) == "first" else "fair"
    step, least = _amount(table, "step", unit), _amount(table, "min", unit)
    if max(step, least) > amount:
        raise table.bad("amount", f'amount = "{text[:40]}" is less than step or min')
    return CapacitySettings(name, amount, unit, sharing, step, least)


def _read_amount(table: Table, text: str) -> tuple[int, CapacityUnit]:
    """In the base unit that its own unit counts."""
    why = ""
    for unit in _UNITS:
        try:
            amount = parse_quantity(text, unit, what="amount")
        except Refusal as refusal:
            if refusal.reason != "quantity.wrong_unit":
                why = f" ({refusal.text})"
        else:
            if not text.isdigit():
                return amount, unit
    raise table.bad(
        "amount", f'amount = "{text[:40]}" must have its unit, e.g. "100kB/s", "4GiB" or "8cpu"{why}'
    )


def _amount(table: Table, key: str, unit: CapacityUnit) -> int:
    if not table.has(key):
        return 1
    try:
        return parse_quantity(table.text(key, ""), unit, what=key)
    except Refusal as refusal:
        raise table.bad(key, f"{key}: {refusal.text}") from None


def _values(table: Table, item: Mapping[str, object]) -> tuple[Value, ...]:
    if not table.has("values"):
        return (True,)
    problem = table.bad("values", f"values must be a list of 1 to {VALUES_MAX} words, or [true]")
    try:
        found = msgspec.convert(item["values"], list[bool | int | str])
    except msgspec.ValidationError:
        raise problem from None
    if not 1 <= len(found) <= VALUES_MAX:
        raise problem
    for one in found:
        if one is not True and not (isinstance(one, str) and is_name(one)):
            raise table.bad("values", f"values holds {str(one)[:40]!r}: write true or words (a-z, 0-9, …)")
    return tuple(found)

"""Amounts as people write them, read strictly into whole base units: `50KiB/s`, `400 kbit/s`, `2 cpu`, `60 s`.

Base units: `B/s`, `B`, `mcpu` (1000 are one core), `ms`, `unit`. An amount is a whole number from 1 to 2^53 - 1; nothing
is rounded, and no float is ever made. Source: lease negotiation, section 3.1.

| code | what was sent |
|---|---|
| `quantity.boolean`, `quantity.float`, `quantity.not_a_number` | `true`; `1.5`, `5.0`, `1e400`; `NaN`, infinity |
| `quantity.type` | anything that is neither number nor text |
| `quantity.empty`, `quantity.blank`, `quantity.underscore` | ``; ` 5`, `5 `, `5` and a new line; `1_000` |
| `quantity.sign`, `quantity.negative`, `quantity.zero` | `+5`; `-1`; `0` |
| `quantity.digits` | digits that are not ASCII (Arabic, full width) |
| `quantity.ambiguous_unit` | `KB/s`, `Kb/s`, `mb`: which could be bits or bytes, powers of 1000 or of 1024 |
| `quantity.unknown_unit`, `quantity.wrong_unit` | a unit nobody knows; one of another kind than the term's |
| `quantity.not_whole` | `1bit/s`: no whole number of base units |
| `quantity.too_large`, `quantity.malformed` | beyond 2^53 - 1; all else |
"""

import re
from typing import Literal, NoReturn, TypeAlias

from holdall.model.refusals import Refusal

AMOUNT_MAX = 2**53 - 1

BaseUnit: TypeAlias = Literal["B/s", "B", "mcpu", "ms", "unit"]

_SHAPE_RE = re.compile(
    r"([0-9]{1,16})(?: ?((?:k|M|G|T|Ki|Mi|Gi|Ti)?(?:B/s|bit/s|B)|cpu|mcpu|ms|s|min|h|d))?", re.ASCII
)
_LOOSE_RE = re.compile(r"([0-9]+) ?([^0-9 ].*)", re.ASCII | re.DOTALL)
_AMBIGUOUS_RE = re.compile(r"([kKmMgGtT])[bB](it)?(/s|ps)?", re.ASCII)

_PREFIX = {
    "": 1,
    "k": 1000,
    "M": 1000**2,
    "G": 1000**3,
    "T": 1000**4,
    "Ki": 1024,
    "Mi": 1024**2,
    "Gi": 1024**3,
    "Ti": 1024**4,
}
_PLAIN: dict[str, tuple[BaseUnit, int]] = {
    "cpu": ("mcpu", 1000),
    "mcpu": ("mcpu", 1),
    "ms": ("ms", 1),
    "s": ("ms", 1000),
    "min": ("ms", 60_000),
    "h": ("ms", 3_600_000),
    "d": ("ms", 86_400_000),
}
_SIZED: tuple[tuple[str, BaseUnit, int], ...] = (("bit/s", "B/s", 8), ("B/s", "B/s", 1), ("B", "B", 1))
"""Suffix, base unit, and how many of the suffix's unit are one base unit."""


def parse_quantity(value: object, unit: BaseUnit, *, what: str = "amount") -> int:
    """`value` in the base unit `unit`. A number, or text without a unit, counts base units already.

    Raises Refusal with one of the codes above; `what` names the field for people.
    """
    if isinstance(value, bool):
        _refuse("boolean", f"{value} is no amount; write a whole number of {unit}", what)
    if isinstance(value, int):
        return _bounded(value, what)
    if isinstance(value, float):
        finite = value - value == 0
        code = "float" if finite else "not_a_number"
        _refuse(code, f"{value!r} is no whole number; write a whole number of {unit}", what)
    if not isinstance(value, str):
        _refuse("type", f"{type(value).__name__} is no amount; write a whole number of {unit}", what)
    return _bounded(_parse_text(value, unit, what), what)


def _parse_text(text: str, unit: BaseUnit, what: str) -> int:
    shape = _SHAPE_RE.fullmatch(text)
    if shape is None:
        _explain(text, unit, what)
    number = int(shape[1])
    if shape[2] is None:
        return number
    base, times, parts = _unit(shape[2])
    if base != unit:
        _refuse("wrong_unit", f"{text!r} is in {base}, but this is counted in {unit}", what)
    if number * times % parts:
        _refuse("not_whole", f"{text!r} is no whole number of {unit}", what)
    return number * times // parts


def _unit(text: str) -> tuple[BaseUnit, int, int]:
    """Base unit, and the multiple and the divisor that lead to it."""
    plain = _PLAIN.get(text)
    if plain is not None:
        return plain[0], plain[1], 1
    for suffix, base, parts in _SIZED:
        if text.endswith(suffix):
            return base, _PREFIX[text.removesuffix(suffix)], parts
    raise AssertionError(text)


def _explain(text: str, unit: BaseUnit, what: str) -> NoReturn:
    """Why `text` has not the shape of an amount."""
    shown = repr(text[:40])
    if not text:
        _refuse("empty", f"nothing is no amount; write a whole number of {unit}", what)
    if text != text.strip() or (len(text) > 1 and "  " in text):
        _refuse("blank", f"{shown} has blanks where none may be", what)
    if "_" in text:
        _refuse("underscore", f"{shown} has an underscore; write the digits without", what)
    if text[0] == "-":
        _refuse("negative", f"{shown} is below 1", what)
    if text[0] == "+":
        _refuse("sign", f"{shown} has a sign; leave it out", what)
    if any(letter.isnumeric() and not letter.isascii() for letter in text):
        _refuse("digits", f"{shown} has digits other than 0 to 9", what)
    if text.lower() in {"nan", "inf", "infinity"}:
        _refuse("not_a_number", f"{shown} is no number", what)
    if re.fullmatch(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?", text) and not text.isdigit():
        _refuse("float", f"{shown} is no whole number; write a smaller unit", what)
    if re.match(r"[0-9]{17}", text):
        _refuse("too_large", f"{shown} is beyond 2^53 - 1", what)
    loose = _LOOSE_RE.fullmatch(text)
    if loose is None:
        _refuse("malformed", f"{shown} is no amount; write for instance 51200 or 50KiB/s", what)
    _explain_unit(loose[1], loose[2], unit, what)


def _explain_unit(number: str, name: str, unit: BaseUnit, what: str) -> NoReturn:
    found = _AMBIGUOUS_RE.fullmatch(name)
    if found is not None:
        letter = found[1].upper()
        thousand = "k" if letter == "K" else letter
        rate = "/s" if found[3] else ""
        _refuse(
            "ambiguous_unit",
            f"{number}{name} can be read in more than one way: write {number}{thousand}B{rate} (bytes, powers of 1000)"
            f" or {number}{letter}iB{rate} (bytes, powers of 1024)"
            + (f", or {number}{thousand}bit/s (bits)" if rate else ""),
            what,
        )
    if re.match(r"\.[0-9]", name):
        _refuse("float", f"{number}{name[:24]} is no whole number; write a smaller unit", what)
    _refuse("unknown_unit", f"{name[:24]!r} is no unit; this is counted in {unit}", what)


def _bounded(amount: int, what: str) -> int:
    if amount < 0:
        _refuse("negative", f"{amount if amount > -AMOUNT_MAX else '…'} is below 1", what)
    if amount == 0:
        _refuse("zero", "0 is no amount; leave the term out to ask for none of it", what)
    if amount > AMOUNT_MAX:
        _refuse("too_large", "it is beyond 2^53 - 1", what)
    return amount


def _refuse(code: str, text: str, what: str) -> NoReturn:
    raise Refusal(f"quantity.{code}", text, where=what)

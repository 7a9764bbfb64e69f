"""JSON from outside, read strictly: what two readers could understand in two ways is refused, each with its own code.

msgspec refuses unknown fields and wrong types, but takes the last of two equal keys, ends deep nesting with a
RecursionError and calls half a surrogate pair "truncated". So the text is read by the standard library first, whose hooks
see each key and number, and msgspec then fits the value to a type. Source: lease negotiation, section 3.1.

| code | what was sent |
|---|---|
| `json.too_long` | more than 64 KiB |
| `json.encoding` | not UTF-8, or with a byte order mark |
| `json.too_deep` | more than 32 arrays and objects inside each other |
| `json.malformed` | no JSON, or something after it |
| `json.duplicate_key` | an object with one key twice |
| `json.float` | a number with a point or an exponent, also `5.0` and `1e400` |
| `json.not_a_number` | `NaN`, `Infinity`, `-Infinity` |
| `json.number_too_large` | a whole number beyond ±(2^53 - 1) |
| `json.lone_surrogate` | half of a surrogate pair, in a key or a value |
| `PREFIX.unknown_field`, `PREFIX.wrong_type` | it does not fit the type; the prefix is the caller's |
"""

import json
import re
from typing import Any, NoReturn, TypeVar, cast

import msgspec

from holdall.model.refusals import Refusal

BYTES_MAX = 64 * 1024
DEPTH_MAX = 32
NUMBER_MAX = 2**53 - 1
"""The largest whole number that every JSON reader keeps exactly."""

T = TypeVar("T")

_STRINGS_OR_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""Also a string without end, so that no letter is looked at twice."""
_DIGITS_MAX = len(str(NUMBER_MAX))


def parse(text: bytes | str) -> Any:
    """The plain value: dict, list, str, int, bool or None. Raises Refusal with one of the `json.` codes."""
    body = _decoded(text)
    _check_depth(body)
    try:
        value = json.loads(
            body,
            object_pairs_hook=_object,
            parse_float=_refuse_float,
            parse_int=_integer,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise Refusal(
            "json.malformed", f"no JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from None
    _check_strings(value)
    return value


def read(text: bytes | str, kind: type[T], *, prefix: str) -> T:
    """The value as a `kind`. Raises Refusal: as `parse`, or `PREFIX.unknown_field` or `PREFIX.wrong_type`."""
    return fit(parse(text), kind, prefix=prefix)


def fit(value: Any, kind: type[T], *, prefix: str) -> T:
    """A plain value as a `kind`. Raises Refusal, `PREFIX.unknown_field` or `PREFIX.wrong_type`."""
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        message = str(error)
        what = "unknown_field" if "unknown field" in message else "wrong_type"
        raise Refusal(f"{prefix}.{what}", f"{message}. See the reference of terms for the fields.") from None


def _decoded(text: bytes | str) -> str:
    if isinstance(text, str):
        try:
            text = text.encode()
        except UnicodeEncodeError:
            raise Refusal("json.lone_surrogate", "half of a surrogate pair is no character") from None
    if len(text) > BYTES_MAX:
        raise Refusal("json.too_long", f"{len(text)} bytes; at most {BYTES_MAX} are read")
    try:
        body = text.decode()
    except UnicodeDecodeError as error:
        raise Refusal("json.encoding", f"not UTF-8 at byte {error.start}; send UTF-8") from None
    if body.startswith("\ufeff"):
        raise Refusal("json.encoding", "begins with a byte order mark; leave it out")
    return body


def _check_depth(body: str) -> None:
    """Before the parser, which would run out of stack. Brackets in strings don't count."""
    depth = 0
    for found in _STRINGS_OR_BRACKETS.finditer(body):
        mark = found[0]
        if mark in "[{":
            depth += 1
            if depth > DEPTH_MAX:
                raise Refusal("json.too_deep", f"more than {DEPTH_MAX} arrays and objects inside each other")
        elif mark in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise Refusal("json.duplicate_key", f"the key {key[:64]!r} stands twice in one object")
        made[key] = value
    return made


def _integer(digits: str) -> int:
    # Its length first: the conversion of thousands of digits is slow, or fails.
    if len(digits.lstrip("-")) > _DIGITS_MAX or abs(int(digits)) > NUMBER_MAX:
        raise Refusal("json.number_too_large", f"{digits[:24]} is beyond 2^53 - 1")
    return int(digits)


def _refuse_float(text: str) -> NoReturn:
    raise Refusal("json.float", f"{text[:24]} is no whole number; write amounts in whole base units")


def _refuse_constant(text: str) -> NoReturn:
    raise Refusal("json.not_a_number", f"{text} is no number")


def _check_strings(value: object) -> None:
    """Each string must be text that UTF-8 can carry. The depth is bounded by now."""
    if isinstance(value, str):
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise Refusal("json.lone_surrogate", "half of a surrogate pair is no character")
    elif isinstance(value, dict):
        for key, member in cast("dict[str, object]", value).items():
            _check_strings(key)
            _check_strings(member)
    elif isinstance(value, list):
        for element in cast("list[object]", value):
            _check_strings(element)

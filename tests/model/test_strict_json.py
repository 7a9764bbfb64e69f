"""JSON from outside: nothing that two readers could understand in two ways."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.model import strict_json
from holdall.model.refusals import Refusal


class Point(msgspec.Struct, forbid_unknown_fields=True):
    x: int
    y: int = 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"x":1,"x":2}', "json.duplicate_key"),
        (b'{"a":{"x":1,"\\u0078":1}}', "json.duplicate_key"),
        (b'{"x":1.0}', "json.float"),
        (b'{"x":1e400}', "json.float"),
        (b'{"x":1E2}', "json.float"),
        (b'{"x":NaN}', "json.not_a_number"),
        (b'{"x":Infinity}', "json.not_a_number"),
        (b'{"x":-Infinity}', "json.not_a_number"),
        (b'{"x":9007199254740992}', "json.number_too_large"),
        (b'{"x":' + b"9" * 5000 + b"}", "json.number_too_large"),
        (b'{"x":-9007199254740992}', "json.number_too_large"),
        (b"[" * 10_000, "json.too_deep"),
        (b"[" * 33 + b"]" * 33, "json.too_deep"),
        (b'{"x":' * 33 + b"1" + b"}" * 33, "json.too_deep"),
        (b'{"x":"\\ud800"}', "json.lone_surrogate"),
        (b'{"\\udfff":1}', "json.lone_surrogate"),
        ('{"x":"\ud800"}', "json.lone_surrogate"),
        (b'{"x":"\xff"}', "json.encoding"),
        (b'\xef\xbb\xbf{"x":1}', "json.encoding"),
        (b'{"x":1}{"x":1}', "json.malformed"),
        (b"", "json.malformed"),
        (b'{"x":1_000}', "json.malformed"),
        (b'{"x":01}', "json.malformed"),
        (b'{"x":"' + b"y" * 70_000 + b'"}', "json.too_long"),
        (b'{"x":1,"z":2}', "point.unknown_field"),
        (b'{"x":"1"}', "point.wrong_type"),
        (b'{"x":true}', "point.wrong_type"),
        (b'{"y":1}', "point.wrong_type"),
        (b"[1,2]", "point.wrong_type"),
    ],
)
def test_each_is_refused_with_its_own_code(text: bytes | str, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        strict_json.read(text, Point, prefix="point")
    assert refused.value.reason == reason


def test_what_is_plain_is_read() -> None:
    assert strict_json.read(b'{"x": 9007199254740991, "y": -3}', Point, prefix="point") == Point(
        2**53 - 1, -3
    )
    assert strict_json.parse('{"a":"[[{\\"\\ud83d\\ude00", "b":[]}') == {"a": '[[{"\U0001f600', "b": []}
    assert strict_json.parse(b"[" * 32 + b"]" * 32)


def test_brackets_in_strings_are_not_deep_and_strings_without_end_take_no_longer() -> None:
    assert strict_json.parse(json.dumps(["[" * 1000])) == ["[" * 1000]
    with pytest.raises(Refusal) as refused:
        strict_json.parse('"' + '\\"' * 32_000)
    assert refused.value.reason == "json.malformed"


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(PLAIN)
def test_what_is_written_is_read_the_same(value: Any) -> None:
    assert strict_json.parse(json.dumps(value)) == value
    assert strict_json.parse(json.dumps(value, ensure_ascii=False)) == value


def outcome(text: bytes | str) -> tuple[Any, str]:
    """The value, and the code of the refusal."""
    try:
        return strict_json.parse(text), ""
    except Refusal as refused:
        return None, refused.reason


@given(st.binary(max_size=200) | st.text(st.sampled_from('{}[]:,"\\ux0123eE.-+ aNd'), max_size=60))
def test_anything_is_read_or_refused(text: bytes | str) -> None:
    value, reason = outcome(text)
    assert reason.startswith("json.") or value == json.loads(text)

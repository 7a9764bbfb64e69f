"""Terms of templates and requests: what is read, and what is refused."""

import json
from collections.abc import Callable
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.model.refusals import Refusal
from holdall.model.terms import (
    BeforeEnd,
    RequestedTerm,
    fraction_text,
    read_request,
    read_template,
    weight_of,
)

REQUEST = b"""{"request":"01J","template":"t-9f3a","duration":2000,"terms":{
  "ttl":{"amount":2000000}, "net.tx":{"amount":51200,"floor":10000,"weight":2},
  "service.postgres":{"amount":true}, "cpu.arch":{"amount":"arm64"}},
 "wait_ms":0,"before_end":{"lead_ms":500,"signal":"TERM"}}"""
TEMPLATE = b"""{"template":"t-9f3a","hosts":2,"valid_for_ms":30000,"terms":{
  "ttl":{"kind":"time","max":5000000},
  "net.tx":{"kind":"capacity","unit":"B/s","min":1,"max":100000,"step":1,"sharing":"fair"},
  "gpu":{"kind":"pool","max":4},"service.postgres":{"kind":"function","values":[true]},
  "db":{"kind":"function"}},
 "duration":{"min":500,"max":3600000,"default":60000},"policy_hint":"affiliation in vu, uni-a"}"""


def test_a_request_is_read() -> None:
    request = read_request(REQUEST)
    assert request.terms["net.tx"] == RequestedTerm(51200, floor=10000, weight=2)
    assert request.terms["service.postgres"].amount is True
    assert request.terms["cpu.arch"].amount == "arm64"
    assert request.before_end == BeforeEnd(500, "TERM")
    assert request.replaces is None


def test_a_template_is_read() -> None:
    template = read_template(TEMPLATE)
    assert template.terms["net.tx"].base_unit == "B/s"
    assert template.terms["gpu"].base_unit == "unit"
    assert template.terms["ttl"].base_unit == "ms"
    assert template.terms["db"].values == ()


def one_request(**fields: object) -> bytes:
    return msgspec.json.encode({"request": "r", "terms": {"gpu": {"amount": 1}}, **fields})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (one_request(holder="root"), "request.unknown_field"),
        (one_request(terms={"gpu": {"amount": 1, "colour": 2}}), "request.unknown_field"),
        (one_request(terms={"gpu": {"amount": None}}), "request.wrong_type"),
        (one_request(terms={"gpu": {"amount": 1.5}}), "json.float"),
        (one_request(terms={"gpu": {"amount": 1, "floor": 0}}), "request.wrong_type"),
        (one_request(terms={}), "request.no_terms"),
        (one_request(terms={f"t{n}": {"amount": 1} for n in range(33)}), "request.too_many_terms"),
        (one_request(terms={"GPU": {"amount": 1}}), "term.name"),
        (one_request(terms={"g" * 64: {"amount": 1}}), "term.name"),
        (one_request(terms={"duration": {"amount": 1}}), "term.name"),
        (one_request(terms={"gpu\n": {"amount": 1}}), "term.name"),
        (one_request(terms={"gpu": {"amount": 1, "weight": 0}}), "request.weight"),
        (one_request(terms={"gpu": {"amount": 1, "weight": 101}}), "request.weight"),
        (one_request(terms={"gpu": {"amount": 1, "weight": "1/2"}}), "request.weight"),
        (one_request(terms={"gpu": {"amount": 1, "weight": "1/0"}}), "request.weight"),
        (one_request(terms={"gpu": {"amount": 1, "weight": "2"}}), "request.weight"),
        (one_request(terms={"gpu": {"amount": 1, "weight": "\u0663/2"}}), "request.weight"),
        (one_request(request=""), "request.id"),
        (one_request(request="r" * 65), "request.id"),
        (one_request(duration=0), "request.wrong_type"),
        (one_request(before_end={"lead_ms": 1, "signal": "KILL"}), "request.wrong_type"),
    ],
)
def test_requests_that_are_refused(text: bytes, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_request(text)
    assert refused.value.reason == reason


def one_template(term: dict[str, object], **fields: object) -> bytes:
    duration = {"min": 1, "max": 9, "default": 5}
    return msgspec.json.encode({"template": "t-1", "terms": {"x": term}, "duration": duration, **fields})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (one_template({"kind": "pool", "min": 3, "max": 2}), "template.range"),
        (one_template({"kind": "capacity", "max": 2}), "template.unit"),
        (one_template({"kind": "pool", "unit": "B"}), "template.unit"),
        (one_template({"kind": "time", "sharing": "fair"}), "template.unit"),
        (one_template({"kind": "function", "max": 2}), "template.range"),
        (one_template({"kind": "function", "values": [5]}), "template.values"),
        (one_template({"kind": "function", "values": [False]}), "template.values"),
        (one_template({"kind": "pool", "values": [True]}), "template.values"),
        (one_template({"kind": "pool", "values": list(range(1, 12))}), "template.values"),
        (one_template({"kind": "magic"}), "template.wrong_type"),
        (one_template({"kind": "pool", "most": 1}), "template.unknown_field"),
        (one_template({"kind": "pool"}, duration={"min": 5, "max": 9, "default": 1}), "template.duration"),
    ],
)
def test_templates_that_are_refused(text: bytes, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_template(text)
    assert refused.value.reason == reason


def test_weights_and_fractions_are_exact() -> None:
    assert weight_of(RequestedTerm(1, weight="3/2")) == Fraction(3, 2)
    assert weight_of(RequestedTerm(1, weight=100)) == 100
    assert fraction_text(30720, 51200) == "3/5"
    assert fraction_text(2, 2) == "1"
    assert fraction_text(True, True) == ""


FIELD = st.sampled_from(
    [
        "request",
        "template",
        "terms",
        "amount",
        "floor",
        "weight",
        "duration",
        "kind",
        "unit",
        "min",
        "max",
        "values",
    ]
)
LEAF = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=6)
    | st.sampled_from(["capacity", "3/2", "B/s"])
)
BODY = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELD, inner, max_size=4), max_leaves=16
)


def outcome(reader: Callable[[bytes], object], text: bytes) -> str:
    """The code of the refusal; "" when there is none."""
    try:
        reader(text)
    except Refusal as refused:
        return refused.reason
    return ""


@given(st.dictionaries(FIELD, BODY, max_size=5))
def test_any_object_is_read_or_refused(body: dict[str, object]) -> None:
    whole = {"request": "r", "template": "t-1", "duration": {"min": 1, "max": 2, "default": 1}, **body}
    for text in (json.dumps(body).encode(), json.dumps(whole).encode()):
        for reader in (read_request, read_template):
            assert outcome(reader, text).partition(".")[0] in {"", "json", "request", "template", "term"}

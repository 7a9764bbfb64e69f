"""Durations as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.model.durations import finite_duration, parse_duration, show_duration
from holdall.model.errors import BadSpec


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        ("30s", 30_000),
        ("500ms", 500),
        ("1h30m", 5_400_000),
        ("1h30min", 5_400_000),
        ("2d", 172_800_000),
        ("0.5s", 500),
        (0.25, 250),
        (10, 10_000),
        ("10", 10_000),
        ("0s", 0),
    ],
)
def test_a_duration_becomes_milliseconds(value: str | float, milliseconds: int) -> None:
    assert parse_duration(value) == milliseconds


def test_without_end_is_none_where_that_is_allowed() -> None:
    assert parse_duration("inf") is None
    assert parse_duration(float("inf")) is None
    with pytest.raises(BadSpec, match="without end"):
        finite_duration("inf", what="--ttl")


@pytest.mark.parametrize("value", ["", "s", "-1s", "1x", "1s 2", "two", "1e9", True, float("nan"), -1, "٣s"])
def test_what_is_no_duration_is_refused_with_an_example(value: str | float) -> None:
    with pytest.raises(BadSpec, match="for instance"):
        parse_duration(value)


def test_more_than_a_year_is_refused() -> None:
    with pytest.raises(BadSpec, match="longer than a year"):
        parse_duration("367d")


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (350, "350 ms"),
        (41_000, "41 s"),
        (300_000, "5 min"),
        (7_500_000, "2 h 5 min"),
        (200_000_000, "2 d 7 h"),
    ],
)
def test_people_read_two_units_at_most(milliseconds: int, text: str) -> None:
    assert show_duration(milliseconds) == text


@given(st.text(max_size=60))
def test_any_text_is_a_duration_or_a_clear_error(text: str) -> None:
    try:
        milliseconds = parse_duration(text)
    except BadSpec:
        return
    assert milliseconds is None or milliseconds >= 0

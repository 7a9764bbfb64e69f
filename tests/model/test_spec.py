"""What people may write after --need, and what they are told when it is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.model.errors import BadSpec
from holdall.model.frames import Need, Selector
from holdall.model.spec import parse_need, parse_needs, parse_spec, show_need, show_spec


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("gpu", Selector(("gpu",))),
        ("gpu:2", Selector(("gpu",), count=2)),
        ("gpu:all", Selector(("gpu",), count=0)),
        ("board,arch=arm64", Selector(("board",), (("arch", "arm64"),))),
        ("board,b=2,a=1:3", Selector(("board",), (("a", "1"), ("b", "2")), count=3)),
        ("bench,@lab-3", Selector(("bench",), node="lab-3")),
        ("bench-1+bench-2+bench-3:2", Selector(("bench-1", "bench-2", "bench-3"), count=2)),
    ],
)
def test_each_form_of_a_spec_is_read(text: str, selector: Selector) -> None:
    assert parse_spec(text) == selector


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not a pool name"),
        ("GPU", "is not a pool name"),
        ("x" * 300, "is not a pool name"),
        ("gpu:0", "between 1 and 1,000,000"),
        ("gpu:-1", "between 1 and 1,000,000"),
        ("gpu:" + "1" + "0" * 20, "between 1 and 1,000,000"),
        ("gpu:two", "whole number"),
        ("gpu:", "whole number"),
        ("gpu:٣", "whole number"),
        ("gpu,arch", "KEY=VALUE"),
        ("gpu,a=1,a=2", "each key once"),
        ("gpu,@a,@b", "one @NODE"),
        ("gpu+gpu", "named twice"),
    ],
)
def test_a_bad_spec_says_which_part_is_wrong(text: str, told: str) -> None:
    with pytest.raises(BadSpec, match=told) as caught:
        parse_spec(text)
    assert len(str(caught.value)) < 400, "the text stays readable whatever was typed"


def test_needs_have_alternatives_and_bounds() -> None:
    assert (
        show_need(parse_need(["gpu,model=h100", "gpu,model=a100:2"]))
        == "gpu,model=h100:1 or gpu,model=a100:2"
    )
    assert parse_needs(["a", Need((Selector(("b",)),))]) == (
        Need((Selector(("a",)),)),
        Need((Selector(("b",)),)),
    )
    with pytest.raises(BadSpec, match="nothing is asked for"):
        parse_needs([])
    with pytest.raises(BadSpec, match="at most 32"):
        parse_needs(["gpu"] * 33)


_name = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True)


@given(
    st.builds(
        Selector,
        pools=st.lists(_name, min_size=1, max_size=4, unique=True).map(tuple),
        labels=st.dictionaries(
            _name, st.from_regex(r"[A-Za-z0-9._+/-]{1,20}", fullmatch=True), max_size=3
        ).map(lambda labels: tuple(sorted(labels.items()))),
        node=st.one_of(st.just(""), _name),
        count=st.integers(0, 1_000_000),
    )
)
def test_what_is_shown_is_read_back(selector: Selector) -> None:
    assert parse_spec(show_spec(selector)) == selector


@given(st.text(max_size=400))
def test_any_text_is_a_spec_or_a_clear_error(text: str) -> None:
    try:
        selector = parse_spec(text)
    except BadSpec:
        return
    assert parse_spec(show_spec(selector)) == selector

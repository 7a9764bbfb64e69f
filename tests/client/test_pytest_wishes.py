"""Marks of tests as the pytest plugin reads them."""

import re

import pytest

import holdall
from holdall.client.pytest_plugin.wishes import Wish, joined, read_mark, session_wish
from holdall.model.spec import parse_needs


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (pytest.mark.needs("BOARD"), "is not a pool name"),
        (pytest.mark.needs(), "says nothing that is needed"),
        (pytest.mark.needs(3), "has 3 among its needs"),
        (pytest.mark.needs("psu", pools="psu"), "has no pools="),
        (pytest.mark.needs("psu", scope="module"), "has scope='module'"),
        (pytest.mark.needs("psu", wait="soon"), "soon"),
        (pytest.mark.needs("psu", ttl="inf"), "ttl can't be without end"),
        (pytest.mark.needs("psu", reason=7), "is no text"),
    ],
)
def test_what_can_not_be_read_says_why(mark: pytest.MarkDecorator, text: str) -> None:
    with pytest.raises(holdall.BadSpec, match=re.escape(text)):
        read_mark(mark.mark)


def wish_of(mark: pytest.MarkDecorator) -> Wish:
    return read_mark(mark.mark).wish


def test_marks_of_a_test_and_its_class_add_up_and_the_nearest_says_the_rest() -> None:
    near = wish_of(pytest.mark.needs("psu:2", wait="1m"))
    far = wish_of(pytest.mark.needs(holdall.any_of("gpu", "tpu"), "psu", wait="1h", reason="all"))
    whole = joined([near, far])
    assert whole == Wish(
        needs=parse_needs(["psu:2", holdall.any_of("gpu", "tpu"), "psu"]), wait="1m", reason="all"
    )
    assert joined([]) is None


def test_the_same_wish_of_many_tests_is_one_of_the_session() -> None:
    bench, psu = (wish_of(pytest.mark.needs(spec, scope="session")) for spec in ("bench", "psu"))
    whole = session_wish([bench, psu, bench, bench])
    assert whole is not None
    assert whole.needs == parse_needs(["bench", "psu"])
    assert session_wish([]) is None

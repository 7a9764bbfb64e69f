"""`when`: what it says, what is refused and where, and that no text breaks the reader."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs.judge import truth

from holdall.jobs.conditions import BadCondition, Fate, can_hold, holds, names_in, parse_condition

FATES = [Fate("ok", 0), Fate("failed", 3), Fate("failed"), Fate("skipped"), Fate("cancelled")]


@pytest.mark.parametrize(
    "text",
    [
        "a.ok",
        "not a.ok",
        "a.ok and b.failed",
        "a.ok or b.ok and a.failed",
        "(a.ok or b.ok) and not b.skipped",
        "a.status == 3",
        "not a.status == 3 or a.cancelled and b.status == 0",
        "always",
        "not a.cancelled or b . ok",
    ],
)
def test_it_means_what_python_says_of_the_same_words(text: str) -> None:
    condition = parse_condition(text)
    for a, b in itertools.product(FATES, FATES):
        verdicts: dict[str, str] = {"a": a.verdict, "b": b.verdict}
        said = truth(text, verdicts, {"a": a.status, "b": b.status})
        assert holds(condition, {"a": a, "b": b}) == said


def test_an_unequal_status_is_one_that_there_is() -> None:
    condition = parse_condition("a.status != 3")
    assert [holds(condition, {"a": fate}) for fate in FATES] == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("", 0, "it ends where the name of a task"),
        ("a", 1, "it ends where '.' is expected"),
        ("a.", 2, "it ends where one of ok"),
        ("a.okay", 2, "'okay' is none of ok"),
        ("a.ok b.ok", 5, "'b' is too much here"),
        ("(a.ok", 5, "it ends where ')' is expected"),
        ("a.ok and", 8, "it ends where"),
        ("a.status == 300", 12, "'300' is no exit status"),
        ("a.status 3", 9, "'3' where '==' or '!='"),
        ("a.ok & b.ok", 5, "'&' has no meaning"),
        ("and.ok", 0, "'and' where the name"),
        ("not " * 60 + "a.ok", 200, "more than 50"),
    ],
)
def test_what_is_no_condition_is_told_with_its_place(text: str, at: int, says: str) -> None:
    with pytest.raises(BadCondition) as raised:
        parse_condition(text)
    assert says in raised.value.text
    assert raised.value.at == at


def test_what_can_never_be_true_is_known() -> None:
    assert not can_hold(parse_condition("a.ok and a.failed"))
    assert not can_hold(parse_condition("a.status == 3 and a.ok"))
    assert not can_hold(parse_condition("not always"))
    assert can_hold(parse_condition("a.status == 3 and not a.ok"))
    assert can_hold(parse_condition("a.status != 0 and b.skipped"))


@given(st.text(alphabet="ab.()=! \tnotandorstatus019-_é\n", max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        condition = parse_condition(text)
    except BadCondition as problem:
        place = problem.at
    else:
        place = 0
        names = dict(names_in(condition))
        assert holds(condition, dict.fromkeys(names, Fate("ok", 0))) in {True, False}
        assert all(text[at:].startswith(name) for name, at in names.items())
    assert 0 <= place <= len(text)

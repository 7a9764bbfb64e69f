"""Alternatives on the command line belong to the need before them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.cli.needs import join_alternatives, read_needs
from holdall.model.errors import BadSpec
from holdall.model.frames import Need
from holdall.model.spec import parse_spec


def needs_of(line: str) -> tuple[Need, ...]:
    words = join_alternatives(line.split())
    return read_needs([words[place + 1] for place, word in enumerate(words) if word == "--need"])


def test_an_alternative_belongs_to_the_need_before_it() -> None:
    assert needs_of("run --need gpu,model=h100 --or gpu,model=a100:2 --need psu") == (
        Need((parse_spec("gpu,model=h100"), parse_spec("gpu,model=a100:2"))),
        Need((parse_spec("psu"),)),
    )


def test_an_equals_sign_reads_the_same() -> None:
    assert needs_of("run --need=a --or=b:2 --need=c") == needs_of("run --need a --or b:2 --need c")


def test_what_is_run_is_not_read() -> None:
    line = ["run", "--need", "a", "--", "tool", "--or", "b", "--need"]
    assert join_alternatives(line) == line


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("run --or a", "put it after one"),
        ("run --need", "needs a SPEC"),
        ("run --need a --or --now", "needs a SPEC"),
    ],
)
def test_a_lonely_option_is_told_where_it_belongs(line: str, told: str) -> None:
    with pytest.raises(BadSpec, match=told):
        join_alternatives(line.split())


@given(st.lists(st.text(max_size=12), max_size=8))
def test_other_words_pass_unchanged(words: list[str]) -> None:
    words = [word for word in words if word.partition("=")[0] not in {"--need", "--or"}]
    assert join_alternatives(words) == words

"""Places in TOML texts: each key of whatever `tomllib` reads is found where it stands."""

import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from holdall.jobs.places import Path, place_near, places_of

TEXT = '''# a comment with = and [x]
name = "n"   # other
[task.build]
run = ["make", # first
  'a"]b', """x
y""" ]
env = { A = "1", "b c" = 'd' }
a.b = 1979-05-27 07:32:00
[[row]]
x = 1
[[row]]
"x\\u0041" = [[1], [2, 3]]
  [row.below]
y = """a""""
'''


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, below in cast("dict[str, Any]", value).items():
            yield from paths(below, (*path, key))
    elif isinstance(value, list):
        for number, below in enumerate(cast("Sequence[Any]", value)):
            yield from paths(below, (*path, number))


def test_keys_elements_and_headers_are_where_they_stand() -> None:
    places = places_of(TEXT)
    assert places["name",] == (2, 1)
    assert places["task", "build"] == (3, 1)
    assert places["task", "build", "run"] == (4, 1)
    assert places["task", "build", "run", 1] == (5, 3)
    assert places["task", "build", "run", 2] == (5, 11)
    assert places["task", "build", "env", "b c"] == (7, 18)
    assert places["task", "build", "a", "b"] == (8, 3)
    assert places["row", 1] == (11, 1)
    assert places["row", 1, "xA", 1, 1] == (12, 23)
    assert places["row", 1, "below", "y"] == (14, 1)
    assert set(paths(tomllib.loads(TEXT))) - set(places) == {("task",)}
    assert place_near(places, ("task", "build", "run", 7, "z")) == (4, 1)
    assert place_near(places, ("none",)) == (1, 1)


KEYS = st.sampled_from(["a", "b-1", '"q u"', "'s.t'", '"\\n\\u00e9"'])
SCALARS = st.sampled_from(
    ["1", "true", '"x]"', "'}'", "0x1F", "1.5e3", '"""m\n"q"\n"""', "'''\n'''", "07:32:00", "-inf"]
)


def values(depth: int = 2) -> st.SearchStrategy[str]:
    if depth == 0:
        return SCALARS
    below = values(depth - 1)
    arrays = st.lists(below, max_size=3).map(lambda items: "[" + " ,\n # c\n".join(items) + "]")
    tables = st.lists(st.tuples(KEYS, below.filter(lambda text: "\n" not in text)), max_size=2, unique_by=lambda one: one[0]).map(
        lambda pairs: "{ " + ", ".join(f"{key} = {value}" for key, value in pairs) + " }"
    )  # fmt: skip
    return SCALARS | arrays | tables


PAIRS = st.tuples(KEYS, values()).map(lambda pair: f"{pair[0]} = {pair[1]}")
HEADERS = st.sampled_from(["[t]", "[t.u]", "[[r]]", "[[r]]", "[r.s]", '["x y"."z"]'])


@given(st.lists(PAIRS | HEADERS, max_size=8).map("\n".join))
def test_whatever_is_toml_has_all_its_places(text: str) -> None:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        places_of(text)
        return
    places = places_of(text)
    lines = text.split("\n")
    for path in paths(table):
        line, column = place_near(places, path) or (0, 0)
        assert path in places or any(
            len(other) > len(path) and other[: len(path)] == path for other in places
        )
        if path in places:
            assert lines[line - 1][column - 1 : column] != " "


@given(st.text(max_size=80))
def test_no_text_breaks_it(text: str) -> None:
    places_of(text)

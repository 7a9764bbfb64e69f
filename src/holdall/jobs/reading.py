"""One table of a job file, read strictly: each key of its type and within its bounds, unknown ones refused.

Mistakes are collected, so that one look shows them all; a value that can't be read stands as its default meanwhile.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from holdall.jobs.places import Path, Place, place_near
from holdall.jobs.problems import PROBLEMS_MAX, Enough, Problem, nearest
from holdall.model.durations import parse_duration
from holdall.model.errors import BadSpec
from holdall.model.names import is_name

TEXT_MAX = 8 * 1024
_SHOWN_MAX = 60


class Reader:
    """A table at `path` of the file. All readers of one file share `problems`."""

    def __init__(
        self,
        values: Mapping[str, object],
        places: Mapping[Path, Place],
        path: Path = (),
        problems: list[Problem] | None = None,
    ) -> None:
        self.problems: list[Problem] = [] if problems is None else problems
        self._values = values
        self.places = places
        self._path = path

    def problem(self, text: str, *below: str | int, shift: int = 0) -> None:
        """Note a mistake at a key of this table, or in it; `shift` letters to the right of the value's begin.

        Raises Enough with the last one that is told.
        """
        place = place_near(self.places, (*self._path, *below)) or (0, 0)
        self.problems.append(Problem(text, place[0], place[1] + shift))
        if len(self.problems) >= PROBLEMS_MAX:
            raise Enough

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return key in self._values

    def only(self, known: Sequence[str]) -> None:
        """Refuse all keys but these."""
        for key in self._values:
            if key not in known:
                self.problem(f"unknown key {_shown(key)}.{nearest(str(key), known)}", key)

    def text(self, key: str, default: str) -> str:
        """A text of one or more letters."""
        value = self._values.get(key, default)
        if not _is_text(value):
            self._wrong(key, value, "a text")
            return default
        return str(value)

    def name(self, key: str, default: str) -> str:
        """A name such as those of pools."""
        value = self.text(key, default)
        if not is_name(value):
            self._wrong(key, value, "a name (a-z, 0-9, '.', '_', '-'; at most 63 letters)")
            return default
        return value

    def flag(self, key: str) -> bool:
        """True or false; false where it is not there."""
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            self._wrong(key, value, "true or false")
            return False
        return value

    def number(self, key: str, default: int, *, least: int, most: int) -> int:
        """A whole number."""
        value = self._values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self._wrong(key, value, f"a whole number from {least} to {most}")
            return default
        return value

    def duration_ms(self, key: str, default: int | None, *, least_ms: int = 0) -> int | None:
        """Milliseconds; None for `inf`."""
        value = self._values.get(key)
        if value is None:
            return default
        if not isinstance(value, (str, int, float)) or (isinstance(value, float) and math.isnan(value)):
            self._wrong(key, value, 'a duration, e.g. "30s", "10m" or "inf"')
            return default
        try:
            found = parse_duration(value, what=key)
        except (BadSpec, OverflowError) as error:
            self.problem(str(error), key)
            return default
        if found is not None and found < least_ms:
            self._wrong(key, value, f"at least {least_ms} ms")
            return default
        return found

    def texts(self, key: str, what: str) -> tuple[str, ...]:
        """A list of texts; empty where it is not there. One text alone stands for a list of it."""
        value = self._values.get(key, [])
        if _is_text(value):
            return (str(value),)
        items = _items_of(value)
        if items is None:
            self._wrong(key, value, what)
            return ()
        return tuple(str(one) for one in self._checked(key, items, what))

    def alternatives(self, key: str, what: str) -> tuple[tuple[str, ...], ...]:
        """A list of texts or lists of texts."""
        value = self._values.get(key, [])
        if _is_text(value):
            return ((str(value),),)
        items = _items_of(value)
        if items is None:
            self._wrong(key, value, what)
            return ()
        found: list[tuple[str, ...]] = []
        for number, one in enumerate(items):
            below = _items_of(one)
            if below and all(_is_text(text) for text in below):
                found.append(tuple(str(text) for text in below))
            elif _is_text(one):
                found.append((str(one),))
            else:
                self._wrong(key, one, what, number)
        return tuple(found)

    def texts_by_name(self, key: str) -> dict[str, str]:
        """A table of texts, such as an environment."""
        found: dict[str, str] = {}
        value = self._values.get(key, {})
        pairs = _pairs_of(value)
        if pairs is None:
            self._wrong(key, value, 'a table of texts, e.g. { MODE = "fast" }')
            return found
        for name, one in pairs.items():
            if not name or "=" in name or "\0" in name:
                self.problem(f"{_shown(name)} is no name of an environment variable", key, name)
            elif not isinstance(one, str) or "\0" in one or len(one) > TEXT_MAX:
                self._wrong(key, one, f"a text of at most {TEXT_MAX} letters", name)
            else:
                found[name] = one
        return found

    def tables(self, key: str) -> list[tuple[str, "Reader"]]:
        """The tables below a key, in the order of the file."""
        value = self._values.get(key, {})
        pairs = _pairs_of(value)
        if pairs is None:
            self._wrong(key, value, f"tables, e.g. [{key}.NAME]")
            return []
        found: list[tuple[str, Reader]] = []
        for name, one in pairs.items():
            below = _pairs_of(one)
            if below is None:
                self._wrong(key, one, f"a table, e.g. [{key}.{name}]", name)
            else:
                found.append((name, self._below(below, key, name)))
        return found

    def table(self, key: str, what: str) -> "Reader | None":
        """A table of this one; None where it is not there, or is none."""
        value = self._values.get(key)
        pairs = _pairs_of(value)
        if pairs is not None:
            return self._below(pairs, key)
        if value is not None:
            self._wrong(key, value, what)
        return None

    def is_number(self, key: str) -> bool:
        """Whether a whole number stands there."""
        value = self._values.get(key)
        return isinstance(value, int) and not isinstance(value, bool)

    def is_text(self, key: str) -> bool:
        """Whether a text stands there."""
        return isinstance(self._values.get(key), str)

    def _below(self, values: Mapping[str, object], *path: str) -> "Reader":
        return Reader(values, self.places, (*self._path, *path), self.problems)

    def _checked(self, key: str, values: Iterable[object], what: str) -> Iterable[object]:
        for number, one in enumerate(values):
            if _is_text(one):
                yield one
            else:
                self._wrong(key, one, what, number)

    def _wrong(self, key: str, value: object, wanted: str, *below: str | int) -> None:
        self.problem(f"{key}: {_shown(value)} where {wanted} is expected", key, *below)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= TEXT_MAX and "\0" not in value


def _items_of(value: object) -> "Sequence[object] | None":
    return cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else None


def _pairs_of(value: object) -> "Mapping[str, object] | None":
    """A table; keys that are no texts can come from mappings only, and count as their texts."""
    if not isinstance(value, Mapping):
        return None
    return {str(key): one for key, one in cast("Mapping[object, object]", value).items()}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"

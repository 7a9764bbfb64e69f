"""Where in a TOML text each key and value stands: what `tomllib` does not tell, and errors need.

It follows texts that `tomllib` has accepted (TOML 1.0); of others it gives as many places as it can make out.
"""

import contextlib
import re
from collections.abc import Mapping
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""`("task", "build", "needs", 1)`: keys, and places in arrays."""
Place: TypeAlias = tuple[int, int]
"""Line and column, from 1; a column counts letters."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^\s,\]}#]+(?: [0-9][^\s,\]}#]*)?")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
DEPTH_MAX = 100


class _Lost(Exception):
    """Not TOML, or deeper than anybody writes."""


def places_of(text: str) -> Mapping[Path, Place]:
    """Place of each table header, key and array element, by its path. A key stands where its last word begins."""
    scanner = _Scanner(text)
    with contextlib.suppress(_Lost):
        scanner.document()
    starts = [0]
    starts += [match.end() for match in re.finditer("\n", text)]
    found: dict[Path, Place] = {(): (1, 1)}
    line = 0
    for path, at in sorted(scanner.found.items(), key=lambda one: one[1]):
        while line + 1 < len(starts) and starts[line + 1] <= at:
            line += 1
        found[path] = (line + 1, at - starts[line] + 1)
    return found


def place_near(places: Mapping[Path, Place], path: Path) -> Place | None:
    """The place of `path`, or of the nearest thing around it that has one."""
    for length in range(len(path), -1, -1):
        if path[:length] in places:
            return places[path[:length]]
    return None


class _Scanner:
    """One pass over a text."""

    def __init__(self, text: str) -> None:
        self.found: dict[Path, int] = {}
        self._text = text
        self._at = 0
        self._arrays: dict[Path, int] = {}
        """Arrays of tables: how many tables each has so far."""

    def document(self) -> None:
        table: Path = ()
        while self._skip(lines=True):
            if self._text.startswith("[[", self._at):
                table = self._header(2)
            elif self._text[self._at] == "[":
                table = self._header(1)
            else:
                self._pair(table, 0)

    def _header(self, brackets: int) -> Path:
        start = self._at
        self._at += brackets
        path: Path = ()
        for word, _ in self._keys():
            path = (*path, word)
            if path in self._arrays:
                path = (*path, self._arrays[path] - 1)
        if brackets == 2:
            array = path[:-1] if path and isinstance(path[-1], int) else path
            self._arrays[array] = self._arrays.get(array, 0) + 1
            path = (*array, self._arrays[array] - 1)
            self.found.setdefault(array, start)
        self.found.setdefault(path, start)
        self._expect("]" * brackets)
        return path

    def _pair(self, table: Path, depth: int) -> None:
        path = table
        for word, at in self._keys():
            path = (*path, word)
            self.found.setdefault(path, at)
        self._expect("=")
        self._skip(lines=False)
        self._value(path, depth)

    def _keys(self) -> list[tuple[str, int]]:
        keys: list[tuple[str, int]] = []
        while True:
            self._skip(lines=False)
            at = self._at
            if self._here() in {'"', "'"}:
                keys.append((self._string(), at))
            else:
                bare = _BARE.match(self._text, self._at)
                if bare is None:
                    raise _Lost
                self._at = bare.end()
                keys.append((bare[0], at))
            self._skip(lines=False)
            if self._here() != ".":
                return keys
            self._at += 1

    def _value(self, path: Path, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise _Lost
        match self._here():
            case '"' | "'":
                self._string()
            case "[":
                self._array(path, depth)
            case "{":
                self._table(path, depth)
            case _:
                scalar = _SCALAR.match(self._text, self._at)
                if scalar is None:
                    raise _Lost
                self._at = scalar.end()

    def _array(self, path: Path, depth: int) -> None:
        self._at += 1
        number = 0
        while True:
            if not self._skip(lines=True):
                raise _Lost
            if self._here() == "]":
                self._at += 1
                return
            self.found.setdefault((*path, number), self._at)
            self._value((*path, number), depth + 1)
            number += 1
            self._skip(lines=True)
            if self._here() == ",":
                self._at += 1
            elif self._here() != "]":
                raise _Lost

    def _table(self, path: Path, depth: int) -> None:
        self._at += 1
        while True:
            if not self._skip(lines=True):
                raise _Lost
            if self._here() == "}":
                self._at += 1
                return
            self._pair(path, depth + 1)
            self._skip(lines=True)
            if self._here() == ",":
                self._at += 1
            elif self._here() != "}":
                raise _Lost

    def _string(self) -> str:
        quote = self._here()
        fence = quote * 3 if self._text.startswith(quote * 3, self._at) else quote
        start = self._at = self._at + len(fence)
        while True:
            if self._at >= len(self._text):
                raise _Lost
            if quote == '"' and self._here() == "\\":
                self._at += 2
            elif self._text.startswith(fence, self._at):
                break
            else:
                self._at += 1
        body = self._text[start : self._at]
        self._at += len(fence)
        # Up to two quotes may stand before the three that end a long string.
        while len(fence) == 3 and self._here() == quote:
            self._at += 1
        return body if quote == "'" else _unescaped(body)

    def _here(self) -> str:
        return self._text[self._at : self._at + 1]

    def _expect(self, word: str) -> None:
        self._skip(lines=False)
        if not self._text.startswith(word, self._at):
            raise _Lost
        self._at += len(word)

    def _skip(self, *, lines: bool) -> bool:
        """Over blanks, with `lines` also ends of lines and comments; whether something is left."""
        blanks = " \t\r\n" if lines else " \t"
        while self._at < len(self._text):
            if self._text[self._at] in blanks:
                self._at += 1
            elif lines and self._text[self._at] == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            else:
                return True
        return False


def _unescaped(body: str) -> str:
    def letter(found: "re.Match[str]") -> str:
        if found[1]:
            number = int(found[1][1:], 16)
            return chr(number) if number < 0x110000 else ""
        return _ESCAPES.get(found[2], found[2])

    return re.sub(r"\\(?:(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})|(.))", letter, body)

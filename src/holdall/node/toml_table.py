"""One table of a TOML file, read strictly: each key once asked for, of its type, within its bounds, and no others.

Every refusal is a `BadConfig` that names file, line where it can be found, key, and what may stand there.
"""

import difflib
import ipaddress
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from holdall.model.durations import parse_duration
from holdall.model.errors import BadConfig, BadSpec

PORT_MAX = 65_535
_SHOWN_MAX = 60


class Source:
    """The file's name and text, to find the line of a key; TOML readers don't keep it."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._lines = text.splitlines()

    def line_of(self, header: str, index: int, key: str = "") -> int:
        """Line number from 1 of `key` below the `index`-th `header`, or of the header itself; 0 when not found."""
        start = self._header_line(header, index) if header else 0
        if start < 0:
            return 0
        if not key:
            return start
        wanted = re.compile(rf'\s*["\']?{re.escape(key)}["\']?\s*[.=]')
        for number in range(start, len(self._lines)):
            line = self._lines[number]
            if line.lstrip().startswith("["):
                break
            if wanted.match(line):
                return number + 1
        return start

    def _header_line(self, header: str, index: int) -> int:
        wanted = re.sub(r"\s", "", header)
        seen = -1
        for number, line in enumerate(self._lines, start=1):
            if re.sub(r"\s", "", line.partition("#")[0]) == wanted:
                seen += 1
                if seen == index:
                    return number
        return -1


class Table:
    """A table under `header` (`[node]`, or the `index`-th `[[pool]]`; empty: the file's top)."""

    def __init__(
        self,
        source: Source,
        values: Mapping[str, object],
        header: str,
        *,
        known: Iterable[str],
        later: Mapping[str, str] | None = None,
        index: int = 0,
    ) -> None:
        self._source = source
        self._values = values
        self._header = header
        self._index = index
        known = tuple(known)
        for key in values:
            if later and key in later:
                raise self.bad(key, f"{_shown(key)} is not available in this version: {later[key]}")
            if key not in known:
                raise self._unknown(key, known)

    def bad(self, key: str, what: str) -> BadConfig:
        """An error about `key` (empty: about the table), with its place in front."""
        line = self._source.line_of(self._header, self._index, key)
        if not self._header:
            line = line or self._source.line_of(f"[[{key}]]", 0) or self._source.line_of(f"[{key}]", 0)
        place = f"{self._source.name}:{line}" if line else self._source.name
        table = f"{self._header} " if self._header else ""
        return BadConfig(f"{place}: {table}{what}")

    def has(self, key: str) -> bool:
        """Whether the file gives `key`."""
        return key in self._values

    def text(self, key: str, default: str, *, length_max: int = 4096) -> str:
        """A string without control characters."""
        value = self._values.get(key, default)
        if not isinstance(value, str):
            raise self._type(key, value, 'text in quotes, e.g. "lab-1"')
        if len(value) > length_max or any(ord(char) < 32 for char in value):
            raise self.bad(key, f"{key} must be one line of at most {length_max} characters")
        return value

    def choice(self, key: str, default: str, choices: Mapping[str, str]) -> str:
        """One of `choices`; those with a text stand for later versions and are refused with it."""
        value = self.text(key, default)
        if value not in choices:
            near = difflib.get_close_matches(value, list(choices), n=1)
            hint = f' Did you mean "{near[0]}"?' if near else ""
            usable = ", ".join(f'"{name}"' for name, later in choices.items() if not later)
            raise self.bad(key, f"{key} = {_shown(value)} is none of {usable}.{hint}")
        if choices[value]:
            raise self.bad(key, f'{key} = "{value}" is not available in this version: {choices[value]}')
        return value

    def count(self, key: str, default: int, *, least: int, most: int) -> int:
        """A whole number within bounds."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._type(key, value, f"a whole number from {least} to {most:,}")
        if not least <= value <= most:
            raise self.bad(key, f"{key} = {value} must lie between {least} and {most:,}")
        return value

    def duration(self, key: str, default: int | None, *, least: int = 0, most: int | None = None) -> int:
        """Milliseconds; refuses `inf`."""
        value = self.duration_or_inf(key, default)
        if value is None or value < least or (most is not None and value > most):
            upper = f" and {most / 1000:g}s" if most is not None else ""
            bounds = f"between {least / 1000:g}s{upper}" if upper else f"at least {least / 1000:g}s"
            raise self.bad(key, f"{key} = {_shown(self._values.get(key))} must be {bounds}")
        return value

    def duration_or_inf(self, key: str, default: int | None) -> int | None:
        """Milliseconds, None for `inf`."""
        if key not in self._values:
            return default
        value = self._values[key]
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise self._type(key, value, 'a duration, e.g. "30s"')
        try:
            return parse_duration(value, what=key)
        except BadSpec as error:
            raise self.bad(key, error.text) from None

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; empty when the key is missing."""
        value = self._values.get(key, [])
        try:
            return tuple(msgspec.convert(value, list[str]))
        except msgspec.ValidationError:
            raise self._type(key, value, 'a list of texts, e.g. ["0", "1"]') from None

    def file(self, key: str, config: Path | None) -> Path | None:
        """A file by its name, which counts from the folder of the configuration; None when the key is not there."""
        if not self.has(key):
            return None
        text = self.text(key, "")
        if not text.strip():
            raise self.bad(key, f"{key} is empty: name a file, or leave it out")
        named = Path(text).expanduser()
        return named if named.is_absolute() or config is None else (config.parent / named).absolute()

    def text_map(self, key: str) -> dict[str, str]:
        """A table of strings; empty when the key is missing."""
        value = self._values.get(key, {})
        try:
            return msgspec.convert(value, dict[str, str])
        except msgspec.ValidationError:
            raise self._type(key, value, 'a table of texts, e.g. { model = "a100" }') from None

    def address(self, key: str, value: str, *, example: str) -> tuple[str, int, bool]:
        """`ADDRESS:PORT` as IP address, port, and whether it is a loopback address."""
        host, colon, port = value.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not port.isascii() or not port.isdigit() or int(port[:6]) > PORT_MAX:
            raise self.bad(key, f'{key} = "{value[:80]}" must be ADDRESS:PORT, e.g. {example}')
        host = "127.0.0.1" if host == "localhost" else host
        try:
            return host, int(port), ipaddress.ip_address(host).is_loopback
        except ValueError:
            raise self.bad(key, f'{key} = "{value[:80]}": {host!r} is no IP address') from None

    def _type(self, key: str, value: object, wanted: str) -> BadConfig:
        return self.bad(key, f"{key} = {_shown(value)} must be {wanted}")

    def _unknown(self, key: str, known: tuple[str, ...]) -> BadConfig:
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        hint = f'Did you mean "{near[0]}"?' if near else f"Known keys: {', '.join(known)}."
        return self.bad(key, f"unknown key {_shown(key)}. {hint}")


def _shown(value: object) -> str:
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"

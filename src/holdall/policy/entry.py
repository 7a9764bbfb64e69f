"""One table of a policy's file, read strictly. Each refusal names file, line, rule, and what to write instead."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, cast

from holdall.model.errors import BadConfig
from holdall.model.names import is_name
from holdall.model.terms import DURATION
from holdall.policy.conditions import FIELDS
from holdall.policy.rules import EXPRESSION_BYTES_MAX, PATTERN_RE, covers

_SHOWN_MAX = 60
_TEXT_MAX = 4096
_FIELD_RE = re.compile(r"(?<![\w.])(agent|now|request)\s*\.\s*([A-Za-z_]\w*)")
_STRING_RE = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_COMMENT_RE = re.compile(r"//[^\n]*")
_LOOP_RE = re.compile(r"\.\s*(all|exists|exists_one|existsOne|filter|map)\s*\(")
LOOPS_MAX = 2
"""Loops of one expression. Lists in 2 KiB are short, so that two of them, one in the other, end soon for any request."""


class Entry:
    """The `index`-th table below `header`; `header` "" is the top of the file."""

    def __init__(self, file: str, text: str, header: str, values: Mapping[str, Any], index: int = 0) -> None:
        self._file, self._header, self._values = file, header, values
        self.index = index
        self.line = _line_of(text, header, index)
        self._lines = text.splitlines()

    def bad(self, key: str, what: str) -> NoReturn:
        """Refuse the file because of `key`."""
        line = self._line_of_key(key) if key else self.line
        place = f"{self._file}:{line}" if line else self._file
        name = self._values.get("name")
        rule = f' "{name[:_SHOWN_MAX]}"' if isinstance(name, str) and self._header.startswith("[[") else ""
        of = f"{self._header}{rule} " if self._header else ""
        # What the file says may move the cursor of whoever reads the error.
        said = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in f"{of}{what}")
        raise BadConfig(f"{place}: {said}")

    def _line_of_key(self, key: str) -> int:
        """Where `key` stands below the header; the header's line when that is not to be seen."""
        wanted = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[.=]""")
        for number, line in enumerate(self._lines[self.line :], start=self.line + 1):
            if wanted.match(line):
                return number
            if line.lstrip().startswith("["):
                break
        return self.line

    def has(self, key: str) -> bool:
        """Whether the file says it."""
        return key in self._values

    def raw(self, key: str) -> Any:
        """Whatever stands there."""
        return self._values.get(key)

    def only(self, *known: str) -> None:
        """Refuse other keys."""
        for key in self._values:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
                hint = f'Did you mean "{near[0]}"?' if near else f"Here may stand: {', '.join(known)}."
                self.bad(key, f'unknown key "{key[:_SHOWN_MAX]}". {hint}')

    def text(self, key: str, default: str) -> str:
        """One line of text."""
        value = self._values.get(key, default)
        if not isinstance(value, str) or len(value) > _TEXT_MAX or not value.isprintable():
            self.bad(key, f"{key} must be one line of text in quotes")
        return value

    def choice(self, key: str, default: str, choices: Sequence[str]) -> Any:
        """One of the words."""
        value = self.text(key, default)
        if value not in choices:
            words = ", ".join(f'"{one}"' for one in choices if one)
            self.bad(key, f'{key} = "{value[:_SHOWN_MAX]}": write one of {words}')
        return value

    def boolean(self, key: str) -> bool:
        """True or false; false when nothing is said."""
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            self.bad(key, f"{key} must be true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(
            isinstance(one, str) and one.isprintable() for one in cast("list[object]", value)
        ):
            self.bad(key, f'{key} must be a list of texts, e.g. ["gpu"]')
        return tuple(cast("list[str]", value))

    def table(self, key: str) -> dict[str, Any]:
        """A table; empty when nothing is said."""
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            self.bad(key, f"{key} must be a table")
        return cast("dict[str, Any]", value)

    def tables(self, key: str) -> list[dict[str, Any]]:
        """All `[[key]]`."""
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(
            isinstance(one, dict) for one in cast("list[object]", value)
        ):
            self.bad(key, f"write [[{key}]] on a line of its own, once for each")
        return cast("list[dict[str, Any]]", value)

    def name(self, default: str = "") -> str:
        """The rule's name."""
        name = self.text("name", default)
        if not is_name(name):
            self.bad(
                "name", f'name = "{name[:64]}": each rule has a name (a-z, 0-9, ".", "_", "-"; at most 63)'
            )
        return name

    def pattern(self, key: str, pattern: str) -> None:
        """Refuse what stands for no term."""
        if pattern == DURATION:
            self.bad(key, 'duration is no term; bound it with limit = "duration"')
        if not PATTERN_RE.fullmatch(pattern):
            self.bad(key, f'"{pattern[:64]}" stands for no term; write "gpu", "net.*" or "*"')

    def known_pattern(self, pattern: str, terms: Iterable[str]) -> bool:
        """Whether it stands for one of the terms at least."""
        return pattern == "*" or any(covers(pattern, term) for term in terms)

    def expression(self, key: str) -> str:
        """A condition that is short, and reads only what there is."""
        value = self._values.get(key)
        if not isinstance(value, str) or not value.strip():
            self.bad(key, f"""{key} must be a condition in quotes, e.g. {key} = 'agent.role == "student"'""")
        size = len(value.encode("utf-8", "surrogatepass"))
        if size > EXPRESSION_BYTES_MAX:
            self.bad(
                key,
                f"{key} has {size:,} bytes; at most {EXPRESSION_BYTES_MAX:,}. Write several rules instead",
            )
        code = _COMMENT_RE.sub(" ", _STRING_RE.sub('""', value))
        if len(_LOOP_RE.findall(code)) > LOOPS_MAX:
            self.bad(
                key,
                f"{key} has more than {LOOPS_MAX} loops (all, exists, filter, map); write x in [...], or several rules",
            )
        reads: list[tuple[str, str]] = _FIELD_RE.findall(code)
        for root, field in reads:
            if field not in FIELDS[root]:
                near = difflib.get_close_matches(field, FIELDS[root], n=1)
                hint = f"did you mean {root}.{near[0]}?" if near else f"there are {', '.join(FIELDS[root])}"
                self.bad(key, f"{key} reads {root}.{field}: {hint}")
        return value


def _line_of(text: str, header: str, index: int) -> int:
    """Line from 1 of the `index`-th such header, 0 when it is written in another way."""
    seen = -1
    for number, line in enumerate(text.splitlines() if header else (), start=1):
        if re.sub(r"\s", "", line.partition("#")[0]) == header:
            seen += 1
            if seen == index:
                return number
    return 0

"""`when`: a condition on what became of other tasks, e.g. `build.ok and not (lint.failed or lint.status == 3)`.

condition = and-part { "or" and-part }        and-part = part { "and" part }
part      = "not" part | "(" condition ")" | "always" | NAME "." QUALITY | NAME "." "status" ("==" | "!=") NUMBER
QUALITY   = "ok" | "failed" | "skipped" | "cancelled"
"""

import itertools
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from holdall.jobs.spec import Verdict

LENGTH_MAX = 1_000
DEPTH_MAX = 50
QUALITIES: tuple[Verdict, ...] = ("ok", "failed", "skipped", "cancelled")
_NAMES_TRIED_MAX = 5
_TOKEN = re.compile(r"\s*(?:(==|!=|[().])|([A-Za-z0-9_-]+))")


class BadCondition(ValueError):
    """A text that is no condition; `at` is the place in it, from 0."""

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text)
        self.text = text
        self.at = at


class Fate(msgspec.Struct, frozen=True):
    """What became of a task; `status`: exit status of its last attempt, if it had one."""

    verdict: Verdict
    status: int | None = None


class Is(msgspec.Struct, frozen=True):
    """`NAME.QUALITY`."""

    task: str
    quality: Verdict
    at: int = 0


class StatusIs(msgspec.Struct, frozen=True):
    """`NAME.status == NUMBER`; never true of a task that has none."""

    task: str
    status: int
    equal: bool = True
    at: int = 0


class Always(msgspec.Struct, frozen=True):
    """`always`."""


class Not(msgspec.Struct, frozen=True):
    """`not …`."""

    part: "Condition"


class All(msgspec.Struct, frozen=True):
    """`… and …`."""

    parts: tuple["Condition", ...]


class AnyOf(msgspec.Struct, frozen=True):
    """`… or …`."""

    parts: tuple["Condition", ...]


Condition: TypeAlias = Is | StatusIs | Always | Not | All | AnyOf


def parse_condition(text: str) -> Condition:
    """Raises BadCondition, which says what was expected and where."""
    if len(text) > LENGTH_MAX:
        raise BadCondition(f"a condition has at most {LENGTH_MAX} letters", 0)
    return _Parser(text).whole()


def names_in(condition: Condition) -> tuple[tuple[str, int], ...]:
    """Each task that it names, once, with the place of its first mention."""
    found: dict[str, int] = {}
    _collect(condition, found)
    return tuple(found.items())


def holds(condition: Condition, fates: Mapping[str, Fate]) -> bool:
    """Whether it is true; `fates` has every task that it names."""
    match condition:
        case Always():
            return True
        case Is(task, quality):
            return fates[task].verdict == quality
        case StatusIs(task, status, equal):
            known = fates[task].status
            return known is not None and (known == status) == equal
        case Not(part):
            return not holds(part, fates)
        case All(parts):
            return all(holds(part, fates) for part in parts)
        case AnyOf(parts):
            return any(holds(part, fates) for part in parts)


def can_hold(condition: Condition) -> bool:
    """False when nothing that can become of the named tasks makes it true; more than five names are not tried."""
    names = [name for name, _ in names_in(condition)]
    if len(names) > _NAMES_TRIED_MAX:
        return True
    statuses = sorted(_statuses(condition))
    other = next(number for number in range(1, 257) if number not in statuses)
    possible = [
        Fate("ok", 0),
        *(Fate("failed", status) for status in (*statuses, other) if status),
        Fate("failed"),
        Fate("skipped"),
        Fate("cancelled"),
    ]
    return any(
        holds(condition, dict(zip(names, fates, strict=True)))
        for fates in itertools.product(possible, repeat=len(names))
    )


def _statuses(condition: Condition) -> set[int]:
    match condition:
        case StatusIs(_, status):
            return {status}
        case Not(part):
            return _statuses(part)
        case All(parts) | AnyOf(parts):
            return set[int]().union(*(_statuses(part) for part in parts))
        case _:
            return set()


def _collect(condition: Condition, found: dict[str, int]) -> None:
    match condition:
        case Is(task, _, at):
            found.setdefault(task, at)
        case StatusIs(task, _, _, at):
            found.setdefault(task, at)
        case Not(part):
            _collect(part, found)
        case All(parts) | AnyOf(parts):
            for part in parts:
                _collect(part, found)
        case Always():
            pass


class _Parser:
    """Recursive descent over the words."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: list[tuple[str, int]] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                raise BadCondition(f"{text[at]!r} has no meaning in a condition", at)
            self._words.append((found[1] or found[2], found.start(1) if found[1] else found.start(2)))
            at = found.end()
        self._next = 0
        self._depth = 0

    def whole(self) -> Condition:
        condition = self._any()
        if self._next < len(self._words):
            word, at = self._words[self._next]
            raise BadCondition(f"{word!r} is too much here; expected 'and', 'or' or the end", at)
        return condition

    def _any(self) -> Condition:
        return self._joined("or", self._all, AnyOf)

    def _all(self) -> Condition:
        return self._joined("and", self._part, All)

    def _joined(
        self, word: str, part: Callable[[], Condition], make: Callable[[tuple[Condition, ...]], Condition]
    ) -> Condition:
        parts = [part()]
        while self._peek() == word:
            self._next += 1
            parts.append(part())
        return parts[0] if len(parts) == 1 else make(tuple(parts))

    def _part(self) -> Condition:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise BadCondition(f"more than {DEPTH_MAX} parentheses or nots within each other", self._at())
        try:
            match self._peek():
                case "not":
                    self._next += 1
                    return Not(self._part())
                case "(":
                    self._next += 1
                    inner = self._any()
                    self._expect(")")
                    return inner
                case "always":
                    self._next += 1
                    return Always()
                case _:
                    return self._quality()
        finally:
            self._depth -= 1

    def _quality(self) -> Condition:
        name, at = self._take("the name of a task, 'not', '(' or 'always'")
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name) or name in {"and", "or"}:
            raise BadCondition(f"{name!r} where the name of a task, 'not', '(' or 'always' is expected", at)
        self._expect(".")
        quality, quality_at = self._take(f"one of {', '.join(QUALITIES)}, status")
        for known in QUALITIES:
            if quality == known:
                return Is(name, known, at)
        if quality != "status":
            raise BadCondition(f"{quality!r} is none of {', '.join(QUALITIES)}, status", quality_at)
        sign, sign_at = self._take("'==' or '!='")
        if sign not in {"==", "!="}:
            raise BadCondition(f"{sign!r} where '==' or '!=' is expected", sign_at)
        number, number_at = self._take("an exit status from 0 to 255")
        if not (number.isascii() and number.isdigit() and len(number) <= 3 and int(number) <= 255):
            raise BadCondition(f"{number!r} is no exit status from 0 to 255", number_at)
        return StatusIs(name, int(number), sign == "==", at)

    def _peek(self) -> str:
        return self._words[self._next][0] if self._next < len(self._words) else ""

    def _at(self) -> int:
        return self._words[self._next][1] if self._next < len(self._words) else len(self._text)

    def _take(self, expected: str) -> tuple[str, int]:
        if self._next >= len(self._words):
            raise BadCondition(f"it ends where {expected} is expected", len(self._text))
        self._next += 1
        return self._words[self._next - 1]

    def _expect(self, word: str) -> None:
        found, at = self._take(f"{word!r}")
        if found != word:
            raise BadCondition(f"{found!r} where {word!r} is expected", at)

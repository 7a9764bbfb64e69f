"""Durations as people write them: `30s`, `10m` or `10min`, `1h30m`, `500ms`, `2d`, `inf`, or a number of seconds."""

import math
import re

from holdall.model.errors import BadSpec

DURATION_MS_MAX = 366 * 24 * 3600 * 1000
"""A year: longer ones are mistakes."""

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART_RE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s|min|m|h|d)")
_NUMBER_RE = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?\Z")


def parse_duration(value: str | float, *, what: str = "duration") -> int | None:
    """Milliseconds, or None for `inf`. Raises BadSpec with an example when `value` is no duration.

    A plain number counts seconds. Parts go from large to small or in any order, each once or more: `1h30m`.
    """
    if isinstance(value, bool):
        raise _bad(value, what)
    if isinstance(value, (int, float)):
        if math.isinf(value) and value > 0:
            return None
        if math.isnan(value) or value < 0:
            raise _bad(value, what)
        return _bounded(value * 1000, value, what)
    text = value.strip().lower()
    if text in {"inf", "forever"}:
        return None
    if _NUMBER_RE.match(text):
        return _bounded(float(text) * 1000, value, what)
    total, end = 0.0, 0
    for part in _PART_RE.finditer(text):
        if part.start() != end:
            raise _bad(value, what)
        total += float(part[1]) * _UNIT_MS[part[2]]
        end = part.end()
    if end == 0 or end != len(text):
        raise _bad(value, what)
    return _bounded(total, value, what)


def finite_duration(value: str | float, *, what: str = "duration") -> int:
    """Milliseconds; BadSpec for `inf` too."""
    milliseconds = parse_duration(value, what=what)
    if milliseconds is None:
        raise BadSpec(f"{what} can't be without end. Write for instance 30s, 10m or 2h.")
    return milliseconds


def show_duration(milliseconds: float) -> str:
    """For people, two units at most: `41 s`, `2 h 5 min`, `350 ms`."""
    if milliseconds < 1000:
        return f"{max(0, round(milliseconds))} ms"
    seconds = round(milliseconds / 1000)
    if seconds < 120:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min" + (f" {seconds} s" if seconds and minutes < 10 else "")
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h" + (f" {minutes} min" if minutes else "")
    days, hours = divmod(hours, 24)
    return f"{days} d" + (f" {hours} h" if hours else "")


def _bounded(milliseconds: float, value: str | float, what: str) -> int:
    if milliseconds > DURATION_MS_MAX:
        raise BadSpec(f"{what} {value!r} is longer than a year. Write for instance 30s, 10m, 2h, or inf.")
    return round(milliseconds)


def _bad(value: object, what: str) -> BadSpec:
    return BadSpec(
        f"{what} {value!r} is not a duration. Write for instance 500ms, 30s, 10m, 1h30m, 2d, or inf."
    )

"""Instants as XML writes them (xs:dateTime), as Unix time in ms; for display and for upper bounds, never for safety."""

import re

from holdall.model.refusals import Refusal

_SHAPE = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_DAY_MS = 86_400_000
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EPOCH_DAYS = 719_468
"""From 1 March of year 0 to 1 January 1970."""
_OFFSET_HOURS_MAX = 14


def instant_ms(text: str) -> int:
    """Unix time in ms. Raises Refusal `wsag.date`: the shape is wrong, the day does not exist, or the zone is missing."""
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        raise Refusal("wsag.date", f"{text[:40]!r} is no instant; write for instance 2026-11-28T18:30:00Z")
    if shape[8] is None:
        raise Refusal("wsag.date", f"{text[:40]!r} names no time zone; write Z or an offset at its end")
    year, month, day, hour, minute, second = (int(shape[one]) for one in range(1, 7))
    is_there = year > 0 and 1 <= month <= 12 and 1 <= day <= _days(year, month)
    if not is_there or hour > 23 or minute > 59 or second > 59:
        raise Refusal("wsag.date", f"{text[:40]!r} is an instant that does not exist")
    fraction = int((shape[7] or "").ljust(3, "0")[:3])
    of_day = ((hour * 60 + minute) * 60 + second) * 1000 + fraction
    return _day_number(year, month, day) * _DAY_MS + of_day - _offset_ms(shape[8], text)


def instant_text(unix_ms: int) -> str:
    """In UTC with ms, from year 1 to 9999; what lies beyond is shown as the last instant before."""
    days, of_day = divmod(max(0, min(unix_ms, 253_402_300_799_999)), _DAY_MS)
    year, month, day = _date(days)
    second, ms = divmod(of_day, 1000)
    return (
        f"{year:04}-{month:02}-{day:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{ms:03}Z"
    )


def _offset_ms(text: str, whole: str) -> int:
    if text == "Z":
        return 0
    hours, minutes = int(text[1:3]), int(text[4:6])
    if hours > _OFFSET_HOURS_MAX or minutes > 59 or (hours == _OFFSET_HOURS_MAX and minutes):
        raise Refusal("wsag.date", f"{whole[:40]!r} has an offset that no zone has")
    return (1 if text[0] == "+" else -1) * (hours * 60 + minutes) * 60_000


def _days(year: int, month: int) -> int:
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and is_leap else _MONTHS[month - 1]


def _day_number(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01. Years begin in March here, so that the leap day is their last."""
    year -= month <= 2
    of_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + of_year - _EPOCH_DAYS


def _date(days: int) -> tuple[int, int, int]:
    """The inverse."""
    days += _EPOCH_DAYS
    era, of_era = divmod(days, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = (shifted + 2) % 12 + 1
    return era * 400 + year + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1

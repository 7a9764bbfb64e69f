"""Twice the history takes about twice the work: counted in executed lines of the checker, not in time.

Sorting is done by the interpreter and counts as one line; it is known to be O(n log n).
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from checker import lines
from checker.lines import (
    Said,
    audit,
    claim,
    crash,
    end,
    fault,
    grant,
    meta,
    queued,
    reading,
    release,
    renew,
    use,
)

import holdall.checker
from holdall.checker.judging import judge_reading

FOLDER = str(Path(holdall.checker.__file__).parent)


@contextmanager
def counting_lines() -> Generator[list[int]]:
    """Counts every line that is executed in the checker's files."""
    count = [0]

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "call" and not frame.f_code.co_filename.startswith(FOLDER):
            return None
        count[0] += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


def lines_of_work(history: list[Said]) -> int:
    read = reading(history)
    with counting_lines() as count:
        judge_reading(read)
    return count[0]


def everything_overlaps(number: int) -> list[Said]:
    """Every lease is held with every other: the most double holds, and all over capacity."""
    said: list[Said] = [meta({"p": {"units": ["x"]}, "n": {"capacity": 1}})]
    for index in range(number):
        said += [
            claim(f"a{index}", {"p": 1, "n": 1}, 0),
            grant(f"a{index}", [f"p/x#{number - index}", "n*1"], 10 + index, 10**9),
        ]
    return [*said, end(10**9)]


def everybody_waits(number: int) -> list[Said]:
    """All ask first and are served last, so each is passed by all that asked later, bound after bound."""
    said: list[Said] = [meta({"p": {"units": ["x"]}, "n": {"capacity": 3}}, max_wait=1, max_reclaim=1)]
    for index in range(number):
        said += [
            claim(f"a{index}", {"p": 1}, index),
            queued(f"a{index}", index, bound=0),
            queued(f"a{index}", number + index, bound=0),
            claim(f"b{index}", {"n": 1}, index),
            grant(
                f"a{index}",
                [f"p/x#{number - index}"],
                10 * (2 * number - index),
                10 * (2 * number - index) + 5,
            ),
            grant(f"b{index}", ["n*1"], 10 * (2 * number - index), 10 * (2 * number - index) + 5),
        ]
    return [*said, end(10**9)]


def one_lease_of_many_renewals(number: int) -> list[Said]:
    """One lease with a gap before each renewal, many releases, crashes and returns."""
    said: list[Said] = [meta(), claim("a1", {"psu": 1}, 0), grant("a1", ["psu/a#1"], 1, 2)]
    for index in range(number):
        at = 10 + 20 * index
        said += [
            renew("a1", at, at + 5, by="b" if index % 3 else None),
            crash("a", at + 2),
            lines.resume("a1", at + 4, at + 8),
            release("a1", at + 6, at + 7, ok=bool(index % 2)),
            fault("pause", at, at + 9, excuse=True, client="a"),
            fault("kill", at, at + 3, excuse=True),
        ]
    return [*said, end(10**9)]


def one_client_of_many_lives(number: int) -> list[Said]:
    said: list[Said] = [meta({"p": {"units": [str(index) for index in range(number)]}})]
    for index in range(number):
        said += [
            claim(f"a{index}", {"p": 1}, 10 * index),
            grant(f"a{index}", [f"p/{index}#1"], 10 * index + 1),
            crash("a", 10 * index + 5),
        ]
    return [*said, end(10**9)]


def many_uses_and_audits(number: int) -> list[Said]:
    said: list[Said] = [meta(), claim("a1", {"psu": 1}, 0), grant("a1", ["psu/a#1"], 1)]
    for index in range(number):
        said += [
            use(f"psu/a#{number - index}", index, 10**6 - index),
            audit("psu", index, total=1, free=0, held=1, fences={"a": number - index}, quiesced=True),
        ]
    return [*said, end(10**9)]


def the_same_ids_again(number: int) -> list[Said]:
    """Everything that can be said twice is said many times."""
    said: list[Said] = [meta()]
    for index in range(number):
        said += [
            claim("a1", {"psu": 1}, index),
            grant("a1", ["psu/a#1"], index, index + 5, lease="l"),
            grant(f"b{index}", ["psu/a#1"], index, index + 5, lease="l"),
            lines.fail("a1", index),
            queued("a1", index, bound=1),
        ]
    return [*said, end(10**9)]


def one_grant_of_many_units(number: int) -> list[Said]:
    units = [str(index) for index in range(number)]
    return [
        meta({"p": {"units": units}}),
        claim("a1", {"p": number}, 0),
        grant("a1", [f"p/{unit}#1" for unit in units], 1, 9),
        end(10),
    ]


@pytest.mark.parametrize(
    "history_of",
    [
        everything_overlaps,
        everybody_waits,
        one_lease_of_many_renewals,
        one_client_of_many_lives,
        many_uses_and_audits,
        the_same_ids_again,
        one_grant_of_many_units,
    ],
)
def test_the_work_grows_hardly_faster_than_the_history(history_of: Callable[[int], list[Said]]) -> None:
    small, large = lines_of_work(history_of(100)), lines_of_work(history_of(800))
    assert small > 200
    assert large / small < 8 * 1.7  # O(n log n): 8 times log(800) by log(100) is 8 times 1.45

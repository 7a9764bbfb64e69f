"""What is wrong with a job, each with its place in the file."""

from collections.abc import Sequence
from difflib import get_close_matches

import msgspec

from holdall.model.errors import BadConfig

SHOWN_MAX = 20
PROBLEMS_MAX = 100
"""Nobody reads on after so many, and each takes its time to be told well."""
NAME_LETTERS_MAX = 64
NEAREST_AMONG = 500


class Enough(Exception):
    """PROBLEMS_MAX are known: the rest of the job is not looked at."""


class Problem(msgspec.Struct, frozen=True):
    """One mistake; line and column from 1, 0 where the job came from no file."""

    text: str
    line: int = 0
    column: int = 0


class BadJob(BadConfig):
    """A job that can't be started, with all its problems in the order of the file. Nothing has begun."""

    code = "bad-job"

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(problems, key=lambda one: (one.line, one.column)))
        lines = [_line(source, problem) for problem in self.problems[:SHOWN_MAX]]
        more = len(self.problems) - len(lines)
        if more:
            lines.append(f"{source}: and {more} more")
        super().__init__("\n".join(lines))


def _line(source: str, problem: Problem) -> str:
    place = f":{problem.line}:{problem.column}" if problem.line else ""
    return f"{source}{place}: {problem.text}"


def nearest(name: str, known: Sequence[str]) -> str:
    """` Did you mean "…"?`, or what there is."""
    close = get_close_matches(name[:NAME_LETTERS_MAX], known[:NEAREST_AMONG], n=1)
    if close:
        return f' Did you mean "{close[0]}"?'
    return f" There is: {', '.join(known[:12])}{' …' if len(known) > 12 else ''}." if known else ""

"""`holdall lab explore`: search a closed world exhaustively and say what was found.

Exit status: 0 clean, 1 a property is violated, 3 cut before the end, 64 a world or fault that can't be read.
"""

import sys
import time

from holdall.lab.explore_all import run_all
from holdall.lab.explore_lists import list_mutants, list_worlds
from holdall.lab.explore_report import Report, explored, print_json, print_text
from holdall.lab.explore_worlds import Asked, task_of
from holdall.world.plan import BadWorld

__all__ = ["Asked", "run_explore"]

CLEAN, VIOLATED, CUT, USAGE = 0, 1, 3, 64


def run_explore(asked: Asked) -> int:
    """Explore, print, write the trace of a violation; the exit status."""
    if asked.world == "list":
        return list_worlds(asked)
    if asked.mutant == "list":
        list_mutants(asked)
        return CLEAN
    try:
        if asked.world in {"all", "long"}:
            return run_all(asked)
        said = task_of(asked).said
        progress = _Progress(time.monotonic()) if sys.stderr.isatty() else None
        report = explored(asked, progress)
    except BadWorld as error:
        print(f"holdall: {error}", file=sys.stderr)
        return USAGE
    if progress is not None:
        progress.clear()
    if asked.json:
        print_json(report)
    else:
        print_text(report, said)
    return _status(report)


def _status(report: Report) -> int:
    if report.violations:
        return VIOLATED
    return CLEAN if report.complete else CUT


class _Progress:
    """One live line on a terminal."""

    def __init__(self, begun: float) -> None:
        self._begun = begun
        self._shown = begun

    def __call__(self, states: int, waiting: int) -> None:
        now = time.monotonic()
        if now - self._shown < 0.5:
            return
        self._shown = now
        rate = states / (now - self._begun)
        text = f"\r{states:,} states, {waiting:,} to look at, {rate:,.0f} states/s\x1b[K"
        print(text, end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)

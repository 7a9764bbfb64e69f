"""Runs in processes of their own: as many at once as asked for, and a line about how far it is."""

import multiprocessing
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

Job = TypeVar("Job")
Found = TypeVar("Found")

PLAIN_EVERY_S = 10.0
"""Where stderr is no terminal, a line of progress comes so often."""
LIVE_EVERY_S = 0.2


class Progress:
    """How many of the runs are over: one live line on a terminal, else a line now and then. On stderr."""

    def __init__(self, count: int, *, what: str = "runs") -> None:
        self._count = count
        self._what = what
        self._done = 0
        self._begun_s = time.monotonic()
        self._told_s = self._begun_s
        self._live = sys.stderr.isatty()

    def done(self, text: str) -> None:
        """One more is over; `text` says which."""
        self._done += 1
        now_s = time.monotonic()
        if now_s - self._told_s >= (LIVE_EVERY_S if self._live else PLAIN_EVERY_S):
            self._told_s = now_s
            left_s = (now_s - self._begun_s) / self._done * (self._count - self._done)
            line = f"{self._done} of {self._count} {self._what}, about {left_s:.0f} s left; last: {text}"
            sys.stderr.write(f"\r\x1b[K{line}" if self._live else f"{line}\n")
            sys.stderr.flush()

    def known(self) -> None:
        """One need not be run."""
        self._count -= 1

    def close(self) -> None:
        """The live line goes away."""
        if self._live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class WorkFailed(RuntimeError):
    """A run's process broke down; the text is its traceback."""


def each(
    jobs: Sequence[Job], work: Callable[[Job], Found], *, processes: int, fresh: bool = False
) -> Iterator[tuple[int, Found]]:
    """(place in `jobs`, what `work` found) as they are done, each in a process of its own, `processes` at once.

    With one process everything runs in this one, unless `fresh` wants processes, so that the memory of a run is its own.
    Raises WorkFailed.
    """
    if processes == 1 and not fresh:
        for place, job in enumerate(jobs):
            yield place, work(job)
        return
    # a copy of this process: it begins at once, and leaves nothing behind
    context = multiprocessing.get_context("fork")
    todo = iter(enumerate(jobs))
    running: dict[Connection, tuple[BaseProcess, int]] = {}
    try:
        while True:
            while len(running) < processes and (following := next(todo, None)) is not None:
                place, job = following
                ours, theirs = context.Pipe(duplex=False)
                started = context.Process(target=_work, args=(theirs, work, job), daemon=True)
                started.start()
                theirs.close()
                running[ours] = (started, place)
            if not running:
                return
            for over in wait(list(running)):
                if isinstance(over, Connection):
                    process, place = running.pop(over)
                    yield place, _outcome(over, process)
    finally:
        for process, _ in running.values():
            process.terminate()
            process.join()


def _work(out: Connection, work: Callable[[Job], object], job: Job) -> None:
    """All that a process of a run does."""
    try:
        out.send((True, work(job)))
    except Exception:  # noqa: BLE001  # whatever it is, it is told where the run was asked for
        out.send((False, traceback.format_exc()))
    out.close()


def _outcome(over: Connection, process: BaseProcess) -> Any:
    """What `work` returned: the pipe does not know its type."""
    try:
        well, found = over.recv()
    except EOFError:
        process.join()
        raise WorkFailed(f"the process of a run ended with exit code {process.exitcode}") from None
    over.close()
    process.join()
    if not well:
        raise WorkFailed(str(found))
    return found

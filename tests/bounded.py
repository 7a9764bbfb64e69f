"""A test that does not end fails, and says what it waited for: a build server that is stopped from outside says nothing.

The bound interrupts the test and shows its asyncio tasks. If it can't be interrupted (it waits in code that is not
Python's), or its end hangs after that, a thread below Python shows where all threads are, and the run's process ends.
"""

import asyncio
import faulthandler
import io
import os
import signal
from collections.abc import Generator
from types import FrameType

import pytest

BOUND_S = 600
"""Ten times what the slowest test takes on a busy machine; tests marked `long` have none."""
END_S = 60
"""For what a test that was interrupted still has to clear away."""
_shown_to = pytest.StashKey[int]()


class DoesNotEnd(BaseException):
    """Not an Exception: code under test that goes on after any trouble must not go on after this."""


def what_waits() -> str:
    """The stacks of all tasks of the loop that runs now, the newest frame last; empty without one."""
    try:
        tasks: set[asyncio.Task[object]] = asyncio.all_tasks()
    except RuntimeError:
        return ""
    shown = io.StringIO()
    for task in sorted(tasks, key=lambda one: one.get_name()):
        task.print_stack(file=shown)
    return shown.getvalue()


def pytest_configure(config: pytest.Config) -> None:
    """Now, as what a test writes to this file later is kept from the terminal."""
    config.stash[_shown_to] = os.dup(2)


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[_shown_to])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Sets the alarm for one test, its fixtures included."""
    if item.get_closest_marker("long") is not None:
        return (yield)

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise DoesNotEnd(f"{item.nodeid} has not ended within {BOUND_S} s; its tasks:\n{what_waits()}")

    before = signal.signal(signal.SIGALRM, interrupt)
    _end_after(item.config, BOUND_S + END_S)
    signal.setitimer(signal.ITIMER_REAL, BOUND_S)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """pytest itself takes the timer back at a failure, for debuggers; what is cleared away after it may hang all the same."""
    if isinstance(node, pytest.Item) and node.get_closest_marker("long") is None:
        _end_after(node.config, BOUND_S + END_S)


def _end_after(config: pytest.Config, seconds: float) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True, file=config.stash[_shown_to])

"""Signals of the small lab: once, and never while a thread starts."""

import os
import signal

import pytest

from holdall.cli.demo import Stopped, Stopping


def test_a_signal_while_threads_start_stops_it_when_they_have_started() -> None:
    began: list[str] = []

    def starting() -> None:
        with Stopping() as stopping, stopping.held_back():
            os.kill(os.getpid(), signal.SIGINT)
            began.append("all of it")

    with pytest.raises(Stopped) as stopped:
        starting()
    assert began == ["all of it"]
    assert stopped.value.exit_status == 130


@pytest.mark.parametrize("number", Stopping.NUMBERS)
def test_a_signal_stops_it_once_and_the_handlers_of_before_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    cleared: list[str] = []

    def interrupted() -> None:
        with Stopping():
            try:
                os.kill(os.getpid(), number)
            finally:
                os.kill(os.getpid(), number)  # it must not break off what is cleared away
                cleared.append("all of it")

    with pytest.raises(Stopped) as stopped:
        interrupted()
    assert cleared == ["all of it"]
    assert stopped.value.exit_status == 128 + number
    assert signal.getsignal(number) == before

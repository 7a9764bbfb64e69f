"""A strike at another thread, and what it leaves behind: nothing."""

import subprocess
import sys
import threading

from holdall.client.interrupt import strike, take_back
from holdall.model.errors import LeaseLost


def test_what_is_taken_back_is_not_raised() -> None:
    strike_and_take_back()
    assert [number * 2 for number in range(1000)][-1] == 1998


def test_taking_back_when_nothing_is_there_any_more_does_no_harm() -> None:
    try:
        strike(threading.get_ident(), LeaseLost("lease A lost"))
        while True:
            pass
    except LeaseLost:
        take_back()
    assert sum(range(1000)) == 499_500


WATCHED = """
import sys
from client.test_interrupt import strike_and_take_back
strike_and_take_back()

def one(): return 1

sys.setprofile(lambda *told: None)
one()
sys.setprofile(None)
sys.settrace(lambda *told: None)
one()
sys.settrace(None)
print("ended")
"""


def test_a_profiler_and_a_debugger_can_watch_a_program_whose_strike_was_taken_back() -> None:
    ended = subprocess.run(  # the interpreter itself
        [sys.executable, "-c", WATCHED],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.stdout, ended.returncode) == ("ended\n", 0), ended.stderr


def strike_and_take_back() -> None:
    """As a `with` does whose body ends in the moment of the loss: a lock keeps the strike from being raised before."""
    struck = threading.Event()

    def from_beside() -> None:
        strike(main, LeaseLost("lease A lost"))
        struck.set()

    main = threading.get_ident()
    beside = threading.Thread(target=from_beside)
    try:
        beside.start()
        struck.wait()
        take_back()
    except LeaseLost:
        take_back()
    beside.join()

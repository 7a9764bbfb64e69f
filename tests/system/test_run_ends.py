"""Ends of a run that nobody asked for: nothing of the command is left before its units can go to somebody else."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from guardian.guarded import alive
from node.lab import Lab, lab
from node.waiting import until
from system.runs import FILES, all_free, free_units, guardian_of, none_alive, numbers_in, running, stubborn

pytestmark = [pytest.mark.system, pytest.mark.requires("linux")]

SHORT_TTL = "10500ms"
"""A little more than 2 x (grace 5 s + the lab's margin): the shortest for a command."""


@pytest.fixture
def node() -> Iterator[Lab]:
    with lab() as made:
        made.start("--new")
        yield made


def files(folder: Path) -> list[int]:
    return numbers_in(*(folder / name for name in FILES))


def test_c2_a_killed_command_frees_its_units_when_its_grandchildren_have_ended(
    node: Lab, tmp_path: Path
) -> None:
    with running(node, "--need", "psu:2", "--", *stubborn(tmp_path)) as run:
        main, *others = files(tmp_path)
        os.kill(main, signal.SIGKILL)
        assert run.wait(30) == 128 + signal.SIGKILL
        assert none_alive(others)
        assert free_units(node, "psu") == 2


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_c9_a_signal_to_the_wrapper_reaches_the_command_and_its_whole_group_ends(
    node: Lab, tmp_path: Path, number: signal.Signals
) -> None:
    # A shell that runs a script ignores INT and QUIT for its background jobs: they are found as leftovers.
    with running(node, "--need", "psu:2", "--", *stubborn(tmp_path)) as run:
        pids = files(tmp_path)
        run.send_signal(number)
        assert run.wait(30) == 128 + number
        assert none_alive(pids)
        assert free_units(node, "psu") == 2


def test_c9_a_command_that_ignores_term_goes_on_holding_until_it_is_killed(node: Lab, tmp_path: Path) -> None:
    with running(node, "--need", "psu:2", "--", *stubborn(tmp_path, ignores="TERM")) as run:
        pids = files(tmp_path)
        run.send_signal(signal.SIGTERM)
        until((tmp_path / "heard").exists, "the signal has been passed on")
        assert alive(pids[0])
        assert free_units(node, "psu") == 0
        run.kill()
        until(lambda: free_units(node, "psu") == 2, "the guardian has ended everything and said so")
        assert none_alive(pids)


def test_c9_killing_the_wrapper_stops_the_command_before_its_units_are_free(
    node: Lab, tmp_path: Path
) -> None:
    with running(node, "--need", "psu:2", "--", *stubborn(tmp_path)) as run:
        pids = files(tmp_path)
        guardian = guardian_of(run)
        os.kill(run.pid, signal.SIGKILL)
        until(lambda: free_units(node, "psu") == 2, "the units are free")
        assert none_alive(pids)
        until(lambda: not alive(guardian), "the guardian has ended, too")


def test_c9_killing_the_guardian_ends_the_command_and_frees_the_units(node: Lab, tmp_path: Path) -> None:
    with running(node, "--need", "psu:2", "--", *stubborn(tmp_path)) as run:
        pids = files(tmp_path)
        os.kill(guardian_of(run), signal.SIGKILL)
        assert run.wait(30) == 79
        assert none_alive(pids)
        assert free_units(node, "psu") == 2
        assert run.stderr is not None
        assert "was killed" in run.stderr.read()


def test_c9_when_wrapper_and_guardian_are_killed_at_once_the_units_stay_held_until_expiry(
    node: Lab, tmp_path: Path
) -> None:
    """Documented as not protected: what the command has started outlives it."""
    with running(node, "--ttl", "12s", "--need", "psu:2", "--", *stubborn(tmp_path)) as run:
        main, child, far = files(tmp_path)
        guardian = guardian_of(run)
        try:
            for pid in (run.pid, guardian):  # neither may act on the other's end
                os.kill(pid, signal.SIGSTOP)
            # The kernel lets a stopped process go on when its parent's end leaves its group without one: guardian first.
            for pid in (guardian, run.pid):
                os.kill(pid, signal.SIGKILL)
            until(lambda: not alive(main), "the kernel has killed the command")
            assert (alive(child), alive(far)) == (True, True)
            assert free_units(node, "psu") == 0
            until(lambda: free_units(node, "psu") == 2, "the lease has expired")
            assert (alive(child), alive(far)) == (True, True)
        finally:
            for pid in (child, far):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    until(lambda: none_alive([child, far]), "nothing is left")
    with node.client() as client:
        assert client.listing("log").log[-1].kind == "expired"


def test_c8_a_stopped_wrapper_loses_its_command_before_the_units_are_free(node: Lab, tmp_path: Path) -> None:
    with running(node, "--need", "psu:2", "--ttl", SHORT_TTL, "--", *stubborn(tmp_path)) as run:
        pids = files(tmp_path)
        run.send_signal(signal.SIGSTOP)
        until(lambda: free_units(node, "psu") == 2, "the guardian has noticed, ended all and released")
        assert none_alive(pids)
        run.send_signal(signal.SIGCONT)
        assert run.wait(30) == 79


def test_c8_a_stopped_guardian_is_replaced_by_its_wrapper_at_the_deadline(node: Lab, tmp_path: Path) -> None:
    with running(node, "--need", "psu:2", "--ttl", SHORT_TTL, "--", *stubborn(tmp_path)) as run:
        pids = files(tmp_path)
        os.kill(guardian_of(run), signal.SIGSTOP)
        assert run.wait(40) == 79
        assert none_alive(pids)
        until(lambda: free_units(node, "psu") == 2, "the units are free")


def test_c9_a_stopped_node_ends_commands_at_their_deadline(node: Lab, tmp_path: Path) -> None:
    assert node.process is not None
    with running(
        node, "--need", "psu:2", "--ttl", SHORT_TTL, "--", *stubborn(tmp_path, ignores="TERM")
    ) as run:
        pids = files(tmp_path)
        node.process.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        try:
            until(lambda: none_alive(pids), "the command has ended")
            # It ends within the ttl after the last renewal that the node confirmed; a second is for this test to notice.
            assert time.monotonic() - stopped < 10.5 + 1
            assert run.wait(40) == 79
            assert run.stderr is not None
            assert "no renewal was confirmed" in run.stderr.read()
            assert (tmp_path / "heard").exists()  # TERM came first, and was not enough
        finally:
            node.process.send_signal(signal.SIGCONT)
        until(lambda: all_free(node), "the node has ended the lease, too")


def test_c1_a_node_that_is_killed_and_comes_back_finds_the_run_where_it_was(
    node: Lab, tmp_path: Path
) -> None:
    with running(node, "--need", "psu:2", "--", *stubborn(tmp_path)) as run:
        pids = files(tmp_path)
        with node.client() as client:
            before = client.listing("who").leases[0]
        node.kill()
        node.start()
        with node.client() as client:
            after = client.listing("who").leases[0]
        assert (after.lease, after.units) == (before.lease, before.units)
        assert run.poll() is None
        run.send_signal(signal.SIGTERM)
        assert run.wait(30) == 128 + signal.SIGTERM
        until(lambda: all_free(node), "released at the node that came back")
        assert none_alive(pids)


def test_a_kicked_run_stops_and_confirms(node: Lab, tmp_path: Path) -> None:
    from holdall.model import frames

    with running(node, "--need", "psu:2", "--", *stubborn(tmp_path)) as run:
        pids = files(tmp_path)
        with node.client() as client:
            lease = client.listing("who").leases[0]
            client.send(frames.Kick(n=client.n(), lease=lease.lease, reason="bench is needed"))
            client.wait(frames.Released)
            assert none_alive(pids)
        assert run.wait(30) == 79
        assert run.stderr is not None
        assert "bench is needed" in run.stderr.read()


def test_the_hard_end_stops_the_command_with_its_reason(node: Lab, tmp_path: Path) -> None:
    with running(node, "--need", "psu:2", "--for", "3s", "--", *stubborn(tmp_path)) as run:
        pids = files(tmp_path)
        assert run.wait(30) == 79
        assert none_alive(pids)
        assert run.stderr is not None
        assert "hard end" in run.stderr.read()
    until(lambda: all_free(node), "the units are free")

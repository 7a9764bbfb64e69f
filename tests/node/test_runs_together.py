"""Commands on other nodes as clients ask for them that are none of ours: every frame is answered, refused or counted."""

import os
from collections.abc import Iterator

import pytest
from node.test_together import acquainted
from node.together import Together, pool, together
from node.waiting import until

from holdall.model import frames
from holdall.model.run_frames import (
    WINDOW,
    RunBeat,
    RunFed,
    RunOn,
    RunOver,
    RunPlace,
    RunSaid,
    RunWhere,
    RunWishes,
    RunWord,
)
from holdall.model.spec import parse_needs

PSU = parse_needs(["psu"])
TTL = 20_000
LETS = 'run_from = ["lab1"]\n' + ('run_as = "root"\n' if os.geteuid() == 0 else "")


@pytest.fixture
def nodes() -> Iterator[Together]:
    with together() as made:
        yield made


def wishes(*command: bytes) -> RunWishes:
    return RunWishes(command, PSU)


def letting(nodes: Together) -> None:
    """lab2 lets lab1 start commands."""
    nodes.start("lab1", "")
    nodes.start("lab2", pool("psu", "psu-1"), node=LETS)
    for name in ("lab1", "lab2"):
        with nodes.client(name) as client:
            until(lambda client=client: client.listing("pools").pools, f"{name} knows the pool")  # type: ignore[misc]


def free(nodes: Together) -> int:
    with nodes.client("lab2") as client:
        return sum(row.free for row in client.listing("pools").pools)


def test_each_wrong_frame_has_its_answer(nodes: Together) -> None:
    acquainted(nodes, lab1=pool("board", "board-1"), lab2=pool("psu", "psu-1"))
    with nodes.client("lab1") as client:
        for frame, code in (
            (RunFed(1, 1, b"x"), "not-holder"),
            (RunBeat(2), "not-holder"),
            (RunOn(3, "nowhere", TTL, wishes(b"true")), "unreachable"),
            (RunOn(4, "lab1", TTL, wishes(b"true")), "bad-spec"),
            (RunOn(5, "lab2", TTL, wishes(b"x" * 40_000)), "bad-spec"),
            (RunOn(6, "lab2", TTL, wishes(b"true")), "refused"),
            (RunWhere(7, ()), "bad-spec"),
        ):
            client.send(frame)
            denied = client.wait(frames.Denied)
            assert (denied.n, denied.code) == (frame.n, code)
        client.send(RunWhere(8, PSU))
        assert client.wait(RunPlace) == RunPlace(8, "lab1")
    assert nodes.nodes["lab2"].health()["ok"]


def test_a_client_that_sends_more_than_its_window_is_not_heard_and_the_node_goes_on(nodes: Together) -> None:
    letting(nodes)
    with nodes.client("lab1") as client:
        client.send(RunOn(1, "lab2", TTL, wishes(b"sh", b"-c", b"echo on; sleep 600")))
        client.wait(RunWord)
        # Nobody reads: what the pipe and its buffer take is used up, then a window's worth, then nothing.
        for number in range(1, 60):
            client.send(RunFed(1, number, b"x" * 16_000))
        until(lambda: "more than 4 pieces of input" in nodes.logs["lab2"].getvalue(), "it is refused")
        client.send(RunBeat(1, heard=99))
        until(lambda: "piece 99 is used up" in nodes.logs["lab2"].getvalue(), "it is refused")
        client.send(RunBeat(1, ask=True, fed=59))
        word = client.wait(RunWord)
        while not word.again:
            word = client.wait(RunWord)
        assert word.taken < 59 - WINDOW
        until(lambda: free(nodes) == 0, "the command has its unit")
    until(lambda: free(nodes) == 1, "its connection is closed, so the command ends")


def test_a_client_that_uses_nothing_up_gets_one_window_and_no_more(nodes: Together) -> None:
    letting(nodes)
    with nodes.client("lab1") as client:
        client.send(RunOn(1, "lab2", TTL, wishes(b"sh", b"-c", b"cat /dev/zero")))
        pieces = 0
        while pieces < WINDOW:
            client.wait(RunSaid)
            pieces += 1
        for _ in range(3):
            client.send(RunBeat(1, ask=True))
            assert client.wait(RunWord).said == WINDOW
        assert not [one for one in client.other if isinstance(one, RunSaid | RunOver)]
    until(lambda: free(nodes) == 1, "its connection is closed, so the command ends")

"""Streams of a command on another node, as this end sees them; and what is told to the other one."""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import msgspec
import pytest
from client.scripted_node import ScriptedNode
from parties.test_remote_runs import Known

from holdall.cli.elsewhere import Elsewhere, run_wishes
from holdall.cli.elsewhere_streams import Input, Output
from holdall.cli.running import Wishes
from holdall.client.scope import FACTS_ENV
from holdall.jobs.facts import Facts, Got, read_facts
from holdall.machine.contract import Address, Received, Send
from holdall.model import frames
from holdall.model.errors import BadSpec, WouldDeadlock
from holdall.model.run_frames import (
    PIECE_BYTES_MAX,
    WINDOW,
    FromRun,
    RunBeat,
    RunFed,
    RunLease,
    RunOn,
    RunOver,
    RunSaid,
    RunWishes,
    RunWord,
)
from holdall.model.spec import parse_needs
from holdall.parties.runs.machine import RemoteRuns
from holdall.parties.runs.messages import (
    COMMANDS,
    RUNS,
    CreditJob,
    FeedJob,
    JobBegan,
    JobEnded,
    JobSaid,
    JobTook,
    RunPassed,
    RunStart,
    RunTold,
)
from holdall.parties.runs.state import RunSettings


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """(reading end, writing end)"""
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        for file in (reading, writing):
            try:
                os.close(file)
            except OSError:
                continue


def said(piece: int, data: bytes) -> RunSaid:
    return RunSaid(1, piece, 1, data)


def test_output_is_written_in_order_once_and_used_up_then(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    output = Output({1: writing, 2: writing})
    for piece in (said(1, b"a"), said(1, b"a"), RunSaid(1, 2, 2, b"b"), said(2, b"x")):
        output.take(piece)
    output.write()
    assert os.read(reading, 100) == b"ab"
    assert output.used == 2
    output.take(RunOver(1, 3, 9))
    assert output.used == 2
    output.write()
    assert (output.ended, output.used) == (9, 3)


def test_a_gap_is_asked_for_once_and_then_with_each_beat(pipe: tuple[int, int]) -> None:
    output = Output({1: pipe[1], 2: pipe[1]})
    assert not output.take_lost(ask=True)
    output.take(said(2, b"b"))
    assert output.take_lost(ask=False)
    assert not output.take_lost(ask=False)
    assert output.take_lost(ask=True)
    output.take(said(1, b"a"))
    assert not output.take_lost(ask=True)
    output.sent_there(1)
    assert not output.take_lost(ask=True)
    output.sent_there(2)
    assert output.take_lost(ask=False)


def test_a_full_pipe_holds_up_nothing_but_itself(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    output = Output({1: writing, 2: writing})
    whole = b""
    for number in range(1, WINDOW + 2):
        data = bytes([64 + number]) * PIECE_BYTES_MAX
        whole += data
        output.take(said(number, data))
    output.write()
    assert output.used < WINDOW + 1
    assert output.file == writing
    got = b""
    while len(got) < len(whole):
        got += os.read(reading, 5000)
        output.write()
    assert got == whole
    assert output.used == WINDOW + 1
    assert output.file is None


def test_output_that_nobody_reads_is_used_up_and_told(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.close(reading)
    output = Output({1: writing, 2: writing})
    output.take(said(1, b"a"))
    output.write()
    output.take(said(2, b"b"))
    output.write()
    assert (output.used, output.deaf) == (2, (1,))


def test_no_more_input_is_read_than_may_be_under_way(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    given = Input(reading)
    for number in range(1, WINDOW + 1):
        os.write(writing, b"%d" % number)
        assert given.wants
        assert given.is_ready({reading})
        assert given.read() == RunFed(1, number, b"%d" % number)
    os.write(writing, b"more")
    assert not given.wants
    assert not given.is_ready({reading})
    assert [piece.piece for piece in given.taken(1, again=True)] == [2, 3, 4]
    assert not given.taken(1, again=False)
    assert given.read() == RunFed(1, 5, b"more")
    os.close(writing)
    given.taken(5, again=False)
    assert given.read() == RunFed(1, 6, b"")
    assert not given.wants
    assert given.sent == 6


def test_input_that_is_closed_is_at_its_end(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    given = Input(pipe[0])
    assert not given.wants
    assert given.is_ready(())
    assert given.read() == RunFed(1, 1, b"")
    assert not given.is_ready(())


class Echo:
    """The other end: the machine, and a driver whose command writes out what it reads; frames may be lost in bursts."""

    def __init__(self, chance: Random) -> None:
        self.machine = RemoteRuns(RunSettings("b" * 20, run_from=("*",)), Known("b" * 20, "a" * 20))
        self.chance = chance
        self.here: deque[RunTold] = deque()
        self.there: deque[FromRun] = deque()
        self.credit = WINDOW
        self.unsaid: deque[bytes] = deque()
        self.untold = False
        self._hear(
            "a" * 20, RUNS, RunStart(1, 1, "eva", True, 10_000, RunWishes((b"cat",), parse_needs(["gpu"])))
        )
        self._hear("b" * 20, COMMANDS, JobBegan(1))

    def _hear(self, node: str, part: str, message: msgspec.Struct) -> None:
        for effect in self.machine.handle(Received(Address(node, part), message)):
            match effect:
                case Send(_, RunPassed(_, _, frame)):
                    self.there.append(frame)
                case Send(_, FeedJob(_, data)):
                    if data:
                        self.unsaid.append(data)
                    else:
                        self.untold = True
                    self._hear("b" * 20, COMMANDS, JobTook(1))
                case Send(_, CreditJob(_, pieces)):
                    self.credit += pieces
                case _:
                    pass

    def step(self) -> None:
        """One thing happens."""
        if self.here and self.chance.random() < 0.5:
            self._hear("a" * 20, RUNS, self.here.popleft())
        if self.unsaid and self.credit and self.chance.random() < 0.5:
            self.credit -= 1
            self._hear("b" * 20, COMMANDS, JobSaid(1, 1, self.unsaid.popleft()))
        if self.untold and not self.unsaid and self.credit:
            self.untold = False
            self._hear("b" * 20, COMMANDS, JobEnded(1, 42))


@pytest.mark.parametrize("seed", range(60))
def test_whatever_the_link_gives_up_comes_through_once_and_in_order(seed: int) -> None:
    chance = Random(seed)
    echo = Echo(chance)
    source, sink = os.pipe(), os.pipe()
    data = chance.randbytes(chance.randrange(1, 60_000))
    os.write(source[1], data)
    os.close(source[1])
    given, output = Input(source[0]), Output({1: sink[1], 2: sink[1]})
    got, steps = b"", 0
    try:
        while output.ended is None:
            steps += 1
            assert steps < 50_000
            if chance.random() < 0.02:
                # What is under way both ways is lost, as when a link has given its peer up.
                echo.here.clear()
                echo.there.clear()
            if given.is_ready({source[0]}) and chance.random() < 0.3:
                echo.here.append(RunTold(1, 1, given.read()))
            if echo.there:
                match echo.there.popleft():
                    case RunWord() as word:
                        output.sent_there(word.said)
                        echo.here.extend(
                            RunTold(1, 1, one) for one in given.taken(word.taken, again=word.again)
                        )
                    case piece:
                        output.take(piece)
            output.write()
            ask = chance.random() < 0.1
            beat = RunBeat(1, output.used, given.sent, output.take_lost(ask=ask), ask)
            if ask or beat.again or chance.random() < 0.2:
                echo.here.append(RunTold(1, 1, beat))
            echo.step()
            os.set_blocking(sink[0], False)
            try:
                got += os.read(sink[0], 100_000)
            except BlockingIOError:
                continue
        assert output.ended == 42
        assert got == data
    finally:
        for file in (source[0], *sink):
            os.close(file)


WELCOME = frames.Welcome(1, "lab-a", "s", "x", False, 30_000, 300_000, 500, 20_000)
WISHES = Wishes(
    command=("make", "-j2"),
    needs=parse_needs(["gpu:2"]),
    wait_ms=None,
    wait_given=False,
    now=False,
    ttl_ms=None,
    for_ms=None,
    reason="night",
    on="lab-b",
    settings=(),
    not_granted_status=75,
    history="",
    independent=False,
    allow_future=False,
    json=False,
    url="",
    patient=False,
)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDALL_LEASE", "HOLDALL_AGENT", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("alone")
def test_what_is_told_is_the_command_line_the_holder_s_name_and_the_kind_of_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = RunWishes((b"make", b"-j2"), parse_needs(["gpu:2"]), reason="night")
    assert run_wishes(WISHES, WELCOME) == told
    monkeypatch.setenv("HOLDALL_AGENT", "ci@runner")
    monkeypatch.setenv("TERM", "xterm")
    changed = msgspec.structs.replace(WISHES, wait_given=True, wait_ms=600_000, ttl_ms=20_000, for_ms=90_000)
    assert run_wishes(changed, WELCOME) == msgspec.structs.replace(
        told, agent="ci@runner", term="xterm", wait="600000ms", ttl="20000ms", hold_for="90000ms"
    )


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("given", "default", "told"),
    [
        ({"patient": True}, None, "inf"),
        ({"patient": True}, 5000, "5000ms"),
        ({"patient": True, "now": True}, None, ""),
        ({"patient": False}, 5000, ""),
        ({"patient": True, "wait_given": True, "wait_ms": 1000}, None, "1000ms"),
        ({"patient": False, "wait_given": True, "wait_ms": None}, 5000, "inf"),
    ],
)
def test_who_sits_at_a_terminal_here_waits_without_limit_there(
    given: dict[str, object], default: int | None, told: str
) -> None:
    welcome = msgspec.structs.replace(WELCOME, wait_ms=default)
    assert run_wishes(msgspec.structs.replace(WISHES, **given), welcome).wait == told


@pytest.mark.usefixtures("alone")
def test_what_can_t_go_to_another_node(monkeypatch: pytest.MonkeyPatch) -> None:
    for changes, said_ in (
        ({"command": ()}, "nothing to run"),
        ({"command": ("x" * 40_000,)}, "at most 32,768"),
        ({"reason": "x" * 600}, "Shorten it"),
    ):
        with pytest.raises(BadSpec, match=said_):
            run_wishes(msgspec.structs.replace(WISHES, **changes), WELCOME)
    monkeypatch.setenv("HOLDALL_LEASE", "key")
    with pytest.raises(WouldDeadlock, match="--now, or --independent"):
        run_wishes(WISHES, WELCOME)
    for allowed in ({"now": True}, {"independent": True}):
        run_wishes(msgspec.structs.replace(WISHES, **allowed), WELCOME)


def test_the_lease_of_a_command_whose_other_words_were_lost_comes_with_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FACTS_ENV, str(tmp_path / "facts"))
    Facts(tmp_path / "facts").close()
    lease = RunLease("L" * 26, ("gpu/0@lab-b#7",))
    with ScriptedNode() as node, ThreadPoolExecutor(1) as thread:
        said = thread.submit(lambda: node.say(RunOver(node.hear(RunOn).n, 1, 9, lease)))
        assert Elsewhere(msgspec.structs.replace(WISHES, url=node.url), "lab-b").run() == 9
        said.result()
    assert read_facts(tmp_path / "facts") == [Got(lease.lease, lease.units)]

"""Commands of other nodes: how each is started, and its streams in bounded pieces."""

import asyncio
import functools
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from node.waiting import until, until_async

from holdall.model.errors import BadConfig, Refused
from holdall.model.run_frames import GRANT_ENV, LEASE_BYTES_MAX, PIECE_BYTES_MAX, WINDOW, RunLease, RunWishes
from holdall.model.spec import parse_needs
from holdall.node import command_line, commands
from holdall.node.command_line import Line, Surroundings
from holdall.node.commands import Commands
from holdall.node.settings import parse_settings
from holdall.parties.runs.messages import (
    BeginJob,
    CreditJob,
    DeafenJob,
    FeedJob,
    JobBegan,
    JobEnded,
    JobFailed,
    JobLeased,
    JobReport,
    JobSaid,
    JobTook,
    SignalJob,
    StopJob,
)

WISHES = RunWishes((b"make", b"-j2", b"\xff"), parse_needs(["gpu:2", ["a,x=1", "b:all"]]), agent="eva@lab-a")
PLACE = Surroundings(Path("/run/holdall/holdall.sock"), "", "/etc/holdall.toml")


def line(place: Surroundings = PLACE, **changes: object) -> Line:
    return command_line.command_line(msgspec.structs.replace(WISHES, **changes), place)


@pytest.fixture
def nobody_special(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a node of a plain user sees it."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setenv("HOME", "/home/eva")


# ------------------------------------------------------------ how it is started


@pytest.mark.usefixtures("nobody_special")
def test_an_ordinary_run_with_what_the_caller_said() -> None:
    words = line(
        wait="5000ms",
        ttl="20s",
        hold_for="90s",
        reason="--now or never",
        settings=(("V", "gpu"),),
        not_granted_status=3,
        now=True,
        independent=True,
        allow_future=True,
        json=True,
    ).arguments
    options = "--need gpu:2 --need a,x=1:1 --or b:all --wait=5000ms --ttl=20s --for=90s"
    assert words == [
        *(os.fsencode(word) for word in (sys.executable, "-P", "-m", "holdall.cli", "run")),
        *options.encode().split(),
        b"--reason=--now or never",
        b"--set=V=gpu",
        b"-E",
        b"3",
        b"--now",
        b"--independent",
        b"--allow-future",
        b"--json",
        b"--",
        b"make",
        b"-j2",
        b"\xff",
    ]


@pytest.mark.usefixtures("nobody_special")
def test_of_the_node_s_environment_nothing_that_concerns_holdall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDALL_LEASE", "secret")
    monkeypatch.setenv("HOLDALL_HISTORY", "/tmp/x")
    monkeypatch.setenv("MAKEFLAGS", "-j")
    monkeypatch.setenv("TERM", "node's")
    found = line(term="xterm").environment
    assert {name for name in found if name.startswith("HOLDALL_")} == {"HOLDALL_URL", "HOLDALL_AGENT"}
    assert found["HOLDALL_URL"] == "unix:///run/holdall/holdall.sock"
    assert found["HOLDALL_AGENT"] == "eva@lab-a"
    assert (found["MAKEFLAGS"], found["TERM"]) == ("-j", "xterm")
    for term in ("", "x\x1b[2J"):
        assert "TERM" not in line(term=term).environment
    assert line().folder == "/"  # there is no /home/eva
    assert line().identity == {}


def test_a_node_of_root_starts_nothing_before_it_says_as_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(Refused, match=r'write run_as = "USER" in \[node\] of /etc/holdall.toml'):
        line()
    root = line(msgspec.structs.replace(PLACE, run_as="root"))
    assert root.identity == {}
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    other = next(user for user in pwd.getpwall() if user.pw_uid)
    found = line(msgspec.structs.replace(PLACE, run_as=other.pw_name))
    assert (found.identity["user"], found.identity["group"]) == (other.pw_uid, other.pw_gid)
    assert 0 not in found.identity["extra_groups"]
    assert "SECRET" not in found.environment
    assert found.environment["LC_ALL"] == "C.UTF-8"
    assert found.environment["HOME"] == other.pw_dir
    assert found.environment["USER"] == found.environment["LOGNAME"] == other.pw_name


@pytest.mark.usefixtures("nobody_special")
def test_a_user_that_can_t_be_is_named() -> None:
    with pytest.raises(Refused, match="'no-such-user' is no user of that host"):
        line(msgspec.structs.replace(PLACE, run_as="no-such-user"))
    with pytest.raises(Refused, match="only a node that runs as root"):
        line(msgspec.structs.replace(PLACE, run_as="root"))


def test_the_configuration_names_who_may_and_as_whom() -> None:
    node = parse_settings('[node]\nrun_from = ["lab-1", "ci@lab-2", "*@*"]\nrun_as = "lab"\n').node
    assert (node.run_from, node.run_as) == (("lab-1", "ci@lab-2", "*@*"), "lab")
    assert parse_settings("").node.run_from == ()
    for text, said in (
        ('run_from = ["Lab 1"]', r'holdall.toml:2: \[node\] "Lab 1" is no name of a node: write "NODE"'),
        ('run_from = ["a b@lab"]', '"a b" is no name of a user'),
        ('run_from = "*"', "run_from = "),
        ('run_as = ""', "must be the name of a user"),
        ('run_as = "ci@lab-1"', "must be the name of a user"),
        ('run_form = ["*"]', 'Did you mean "run_from"'),
    ):
        with pytest.raises(BadConfig, match=said):
            parse_settings(f"[node]\n{text}\n")


# ------------------------------------------------------------ its streams


class Silent:
    def info(self, event: str, **values: object) -> None:
        pass


class Bench:
    """The driver's part with a program of a test in place of `holdall run`."""

    def __init__(self) -> None:
        self.reports: list[JobReport] = []
        self.commands = Commands(self.reports.append, Silent(), PLACE)

    def out(self, stream: int = 1) -> bytes:
        return b"".join(one.data for one in self.reports if isinstance(one, JobSaid) and one.stream == stream)

    def pieces(self) -> int:
        return sum(isinstance(one, JobSaid) for one in self.reports)

    def has_taken(self, pieces: int) -> bool:
        return sum(isinstance(one, JobTook) for one in self.reports) == pieces

    async def ended(self) -> int:
        await until_async(lambda: self.reports and isinstance(self.reports[-1], JobEnded), "it ends")
        last = self.reports[-1]
        assert isinstance(last, JobEnded)
        return last.status


Course = Callable[[Bench], Coroutine[Any, Any, None]]


def instead(started: Line) -> Callable[[RunWishes, Surroundings], Line]:
    """Of what `command_line` would make."""

    def line_of(wishes: RunWishes, place: Surroundings) -> Line:
        del wishes, place
        return started

    return line_of


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Course], None]:
    """Run this Python program as job 1 through a course of events."""

    def played(program: str, course: Course) -> None:
        started = Line([os.fsencode(sys.executable), b"-c", program.encode()], dict(os.environ), "/", {})
        monkeypatch.setattr(commands, "command_line", instead(started))

        async def whole() -> None:
            bench = Bench()
            try:
                bench.commands.take(BeginJob(1, "eva@lab-a", WISHES))
                await course(bench)
            finally:
                await bench.commands.close()

        asyncio.run(whole())

    return played


Play = Callable[[str, Course], None]


LEASE = RunLease("L" * 26, ("gpu/0@lab-b#7",))


@pytest.mark.parametrize(
    ("told", "known"),
    [
        (msgspec.json.encode(LEASE), [JobLeased(1, LEASE)]),
        (b"", []),
        (b"nonsense", []),
        (b'{"lease": 1}', []),
        (b'{"lease": "\xff"}', []),
        (b'{"else": ' + b"[" * 4000, []),
        (b"x" * (LEASE_BYTES_MAX + 1), []),
    ],
    ids=["told", "nothing", "no-json", "another-type", "no-text", "too-deep", "too-long"],
)
def test_the_lease_of_a_run_is_told_once_before_its_end_whatever_else_is_written_there(
    play: Play, told: bytes, known: list[JobReport]
) -> None:
    async def course(bench: Bench) -> None:
        assert await bench.ended() == 4
        assert bench.reports == [JobBegan(1), *known, JobEnded(1, 4)]

    play(f"import os, sys; os.write(int(os.environ['{GRANT_ENV}']), {told!r}); sys.exit(4)", course)


def test_no_more_output_is_read_than_there_is_credit_for(play: Play) -> None:
    async def course(bench: Bench) -> None:
        await until_async(lambda: bench.pieces() == WINDOW, "the first window")
        given = WINDOW
        while not isinstance(bench.reports[-1], JobEnded):
            assert bench.pieces() <= given
            if bench.pieces() == given:
                bench.commands.take(CreditJob(1, 1))
                given += 1
            await asyncio.sleep(0)
        assert bench.reports[0] == JobBegan(1)
        assert bench.out(1) == b"o" * 400_000
        assert bench.out(2) == b"e" * 200_000
        assert all(len(one.data) <= PIECE_BYTES_MAX for one in bench.reports if isinstance(one, JobSaid))
        assert bench.reports[-1] == JobEnded(1, 6)

    program = "import os, sys; sys.stdout.write('o' * 400_000); sys.stderr.write('e' * 200_000); sys.exit(6)"
    play(program, course)


def test_input_comes_in_order_and_its_end_is_told(play: Play) -> None:
    async def course(bench: Bench) -> None:
        for data in (b"one ", b"two ", b""):
            bench.commands.take(FeedJob(1, data))
        assert await bench.ended() == 0
        assert bench.out() == b"b'one two '"
        assert bench.has_taken(3)

    play("import sys; print(sys.stdin.buffer.read(), end='')", course)


def test_a_command_that_reads_nothing_takes_everything(play: Play) -> None:
    async def course(bench: Bench) -> None:
        await until_async(lambda: bench.out() == b"deaf\n", "it has closed its input")
        for number in range(1, 40):
            bench.commands.take(FeedJob(1, b"x" * PIECE_BYTES_MAX))
            await until_async(functools.partial(bench.has_taken, number), "taken")
        bench.commands.take(SignalJob(1, signal.SIGTERM))
        assert await bench.ended() == 128 + signal.SIGTERM

    play("import os, signal; os.close(0); print('deaf', flush=True); signal.pause()", course)


def test_a_signal_that_comes_before_the_process_reaches_it(play: Play) -> None:
    async def course(bench: Bench) -> None:
        bench.commands.take(SignalJob(1, signal.SIGTERM))
        assert await bench.ended() == 128 + signal.SIGTERM

    play("import signal; signal.pause()", course)


def test_a_stream_that_nobody_reads_is_closed_for_the_command(play: Play) -> None:
    async def course(bench: Bench) -> None:
        await until_async(lambda: bench.pieces() == WINDOW, "it writes")
        bench.commands.take(DeafenJob(1, 1))
        for _ in range(20):
            bench.commands.take(CreditJob(1, 1))
        assert await bench.ended() == 128 + signal.SIGPIPE
        assert bench.out(2) == b"still heard"

    program = (
        "import os, signal, sys; sys.stderr.write('still heard'); sys.stderr.flush(); "
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\nwhile True: os.write(1, b'x' * 50_000)"
    )
    play(program, course)


def test_a_stopped_job_is_killed_and_says_no_more(play: Play) -> None:
    async def course(bench: Bench) -> None:
        await until_async(lambda: bench.pieces() == WINDOW, "it writes and is held up")
        bench.commands.take(StopJob(1, "its caller is gone"))
        assert await bench.ended() == 128 + signal.SIGKILL
        assert bench.pieces() == WINDOW
        for late in (StopJob(1, "again"), FeedJob(1, b"x"), CreditJob(1, 1), SignalJob(1, 2)):
            bench.commands.take(late)

    program = "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: os.write(1, b'x' * 50_000)"
    play(program, course)


def test_a_job_that_is_stopped_before_it_has_a_process_is_killed_all_the_same(play: Play) -> None:
    async def course(bench: Bench) -> None:
        bench.commands.take(StopJob(1, "its caller is gone"))
        assert await bench.ended() == 128 + signal.SIGKILL

    play("import signal; signal.pause()", course)


def test_the_end_of_the_node_ends_its_jobs(play: Play) -> None:
    pids: list[int] = []

    async def course(bench: Bench) -> None:
        await until_async(lambda: bench.out().endswith(b"\n"), "it runs")
        pids.append(int(bench.out()))

    play("import os, signal; print(os.getpid(), flush=True); signal.pause()", course)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_what_can_t_be_started_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def said(place: Surroundings | None) -> list[JobReport]:
        reports: list[JobReport] = []
        made = Commands(reports.append, Silent(), place)
        made.take(BeginJob(1, "eva@lab-a", WISHES))
        await until_async(lambda: bool(reports), "it is told")
        await made.close()
        return reports

    assert asyncio.run(said(None)) == [JobFailed(1, "refused", "this node starts no commands.")]
    missing = Line([b"/no/such/python"], {}, "/", {})
    monkeypatch.setattr(commands, "command_line", instead(missing))
    (failed,) = asyncio.run(said(PLACE))
    assert isinstance(failed, JobFailed)
    assert "/no/such/python" in failed.text
    zero = Line([os.fsencode(sys.executable), b"a\0b"], {}, "/", {})
    monkeypatch.setattr(commands, "command_line", instead(zero))
    (failed,) = asyncio.run(said(PLACE))
    assert isinstance(failed, JobFailed)
    assert "null byte" in failed.text


@pytest.mark.requires("other-user")
def test_a_command_of_another_user_has_that_user_s_rights_only(monkeypatch: pytest.MonkeyPatch) -> None:
    program = [b"/bin/sh", b"-c", b"id -u; id -g; id -G; cat /proc/self/status | grep CapEff"]
    started = Line(program, {}, "/", {"user": 65534, "group": 65534, "extra_groups": [65534]})
    monkeypatch.setattr(commands, "command_line", instead(started))

    async def whole() -> bytes:
        bench = Bench()
        bench.commands.take(BeginJob(1, "eva@lab-a", WISHES))
        assert await bench.ended() == 0
        await bench.commands.close()
        return bench.out()

    assert asyncio.run(whole()).split() == [b"65534", b"65534", b"65534", b"CapEff:", b"0" * 16]


KILLED_NODE = """
import asyncio, os, sys
from pathlib import Path
from holdall.model.run_frames import RunWishes
from holdall.node import commands
from holdall.node.command_line import Line, Surroundings
from holdall.parties.runs.messages import BeginJob

class Silent:
    def info(self, event, **values):
        pass

identity = {"user": 65534, "group": 65534, "extra_groups": []} if sys.argv[1:] else {}
line = Line([b"/bin/sh", b"-c", b"trap '' TERM; echo $$; exec sleep 600"], {"PATH": os.environ["PATH"]}, "/", identity)
commands.command_line = lambda wishes, place: line

async def whole():
    def told(report):
        if hasattr(report, "data"):
            print(int(report.data), flush=True)
    made = commands.Commands(told, Silent(), Surroundings(Path("/x")))
    made.take(BeginJob(1, "eva@lab-a", RunWishes((b"x",), ())))
    await asyncio.sleep(600)

asyncio.run(whole())
"""


def dies_with_its_node(*arguments: str) -> None:
    node = subprocess.Popen([sys.executable, "-c", KILLED_NODE, *arguments], stdout=subprocess.PIPE)
    try:
        assert node.stdout is not None
        pid = int(node.stdout.readline())
        assert is_there(pid)
    finally:
        node.kill()
        node.communicate()
    until(lambda: not is_there(pid), "the kernel kills it")


def is_there(pid: int) -> bool:
    """Whether it runs; a zombie of somebody else's has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_kernel_kills_the_children_of_a_node_that_is_killed() -> None:
    dies_with_its_node()


@pytest.mark.requires("other-user")
def test_the_kernel_kills_them_when_they_are_another_user_s_too() -> None:
    dies_with_its_node("other")

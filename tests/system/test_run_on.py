"""`holdall run --on`: real nodes, real nats-servers, real commands on the other one."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from node.together import Together, pool, together
from node.waiting import until
from system.many_nodes import HOLDALL, NodeProcess, System, is_alive, system
from system.test_join import sees

pytestmark = pytest.mark.system

PYTHON = sys.executable
GPU = '[[pool]]\nname = "gpu"\ncount = 1\nreach = "host"\n'


@pytest.fixture
def hosts() -> Iterator[System]:
    with system() as made:
        yield made


def allow(node: NodeProcess, *entries: str) -> None:
    """Let these start commands at the node; in tests it may run as root, and says so."""
    listed = ", ".join(f'"{entry}"' for entry in entries)
    extra = f"run_from = [{listed}]\n"
    if os.geteuid() == 0:
        extra += 'run_as = "root"\n'
    text = node.config.read_text()
    node.config.write_text(text.replace('listen = "off"\n', f'listen = "off"\n{extra}', 1))


def pair(hosts: System, *entries: str) -> tuple[NodeProcess, NodeProcess]:
    """lab-a and lab-b as one system; lab-b lets `entries` start commands, and has the only GPU."""
    a, b = hosts.node("a", "lab-a", "psu-a"), hosts.node("b", "lab-b", "psu-b")
    b.config.write_text(b.config.read_text() + GPU)
    if entries:
        allow(b, *entries)
    a.serve("--new")
    b.join(a.join_line())
    until(lambda: sees(a, "lab-a", "lab-b") and sees(b, "lab-a", "lab-b"), "both know each other")
    return a, b


def begin(node: NodeProcess, *arguments: str, stdin: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*HOLDALL, *arguments],
        cwd=node.folder,
        env=node.environment,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@contextlib.contextmanager
def running(process: "subprocess.Popen[bytes]") -> Generator["subprocess.Popen[bytes]"]:
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=60)


def held(node: NodeProcess) -> int:
    """Units in use at this node itself."""
    with node.client() as client:
        return sum(row.total - row.free for row in client.listing("pools").pools if row.node == node.name)


def pid_in(path: Path) -> int:
    until(lambda: path.exists() and path.read_text().endswith("\n"), "the command tells its pid")
    return int(path.read_text())


def test_streams_status_signals_and_surroundings_are_those_of_the_command_over_there(hosts: System) -> None:
    a, b = pair(hosts, "lab-a")

    # A pool of reach `host`, which a command of lab-a could not use.
    done = a.command("run", "--need", "gpu", "--now", "--", "true")
    assert done.returncode == 65
    assert "--on lab-b" in done.stderr
    done = a.command("run", "--on", "lab-b", "--need", "gpu", "--reason", "a trip", "--", "env")
    assert done.returncode == 0, done.stderr
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert found["HOLDALL_UNITS_GPU"] == "0"
    assert found["HOLDALL_URL"] == f"unix://{b.socket}"
    assert found["HOLDALL_AGENT"].endswith("@lab-a")
    assert "granted   lease" in done.stderr
    assert held(b) == 0

    # The place follows the needs.
    for need, name in (("gpu", b.socket), ("psu", a.socket)):
        done = a.command("run", "--on", "any", "--need", need, "--", "sh", "-c", "echo $HOLDALL_URL")
        assert (done.returncode, done.stdout.strip()) == (0, f"unix://{name}"), done.stderr
    done = a.command("run", "--on", "lab-a", "--need", "psu", "--", "sh", "-c", "echo $HOLDALL_URL")
    assert (done.returncode, done.stdout.strip()) == (0, f"unix://{a.socket}"), done.stderr

    # Statuses, of the command and of those that never ran.
    for command, status in ((("sh", "-c", "exit 3"), 3), (("no-such-command",), 127)):
        assert a.command("run", "--on", "lab-b", "--need", "gpu", "--", *command).returncode == status
    assert a.command("run", "--on", "lab-b", "--need", "gpu:9", "--", "true").returncode == 65
    assert a.command("run", "--on", "lab-x", "--need", "gpu", "--", "true").returncode == 69
    done = a.command("run", "--on", "lab-b", "--need", "gpu", "--", "true", "x" * 40_000)
    assert done.returncode == 64
    assert "32,768" in done.stderr

    # More than a mebibyte each way, and both streams whole.
    code = (
        "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data[::-1]); "
        "sys.stderr.buffer.write(b'E' * 300_000)"
    )
    sent = os.urandom(3 << 20)
    with running(
        begin(a, "run", "--on", "lab-b", "--need", "gpu", "--", PYTHON, "-c", code, stdin=subprocess.PIPE)
    ) as run:
        out, errors = run.communicate(sent, timeout=120)
    assert run.returncode == 0, errors[-2000:]
    assert out == sent[::-1]
    assert b"E" * 300_000 in errors

    # A signal reaches the command, and tells in the status.
    with running(
        begin(a, "run", "--on", "lab-b", "--need", "gpu", "--", "sh", "-c", "echo on; exec sleep 600")
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"on\n"
        run.send_signal(signal.SIGINT)
        assert run.wait(60) == 128 + signal.SIGINT
    # Nobody reads any more: the command ends as in a pipeline here.
    with running(begin(a, "run", "--on", "lab-b", "--need", "gpu", "--", "yes")) as run:
        assert run.stdout is not None
        assert run.stdout.read(2) == b"y\n"
        run.stdout.close()
        assert run.wait(60) == 128 + signal.SIGPIPE
        run.stdout = None
    until(lambda: held(b) == 0, "all is free")


def test_waiting_over_there_is_told_here_and_can_be_interrupted(hosts: System) -> None:
    a, b = pair(hosts, "lab-a")
    with b.client() as holder:
        lease = holder.lease("gpu", ttl_ms=20_000)
        done = a.command("run", "--on", "lab-b", "--need", "gpu", "--now", "-E", "9", "--", "true")
        assert done.returncode == 9
        assert "not free now: gpu:1 busy" in done.stderr
        with running(begin(a, "run", "--on", "lab-b", "--need", "gpu", "--wait", "1m", "--", "true")) as run:
            assert run.stderr is not None
            assert run.stderr.readline().startswith(b"waiting   gpu:1 busy 1/1")
            run.send_signal(signal.SIGINT)
            assert run.wait(60) == 130
        with running(begin(a, "run", "--on", "lab-b", "--need", "gpu", "--wait", "1m", "--", "true")) as run:
            assert run.stderr is not None
            assert run.stderr.readline().startswith(b"waiting   gpu:1 busy 1/1")
            holder.release(lease.key)
            assert run.wait(60) == 0
            assert b"granted   lease" in run.stderr.read()


def test_nobody_starts_commands_at_a_node_that_does_not_say_so(hosts: System) -> None:
    a, b = pair(hosts)
    done = a.command("run", "--on", "lab-b", "--need", "gpu", "--", "touch", str(hosts.folder / "done"))
    assert done.returncode == 77
    assert 'add "lab-a" to run_from in [node] of' in done.stderr
    assert str(b.config) in done.stderr
    assert not (hosts.folder / "done").exists()
    assert held(b) == 0


@pytest.mark.requires("root")
def test_a_node_of_root_that_does_not_say_as_whom_starts_nothing(hosts: System) -> None:
    a, b = hosts.node("a", "lab-a"), hosts.node("b", "lab-b", "psu-b")
    b.config.write_text(b.config.read_text().replace('listen = "off"', 'listen = "off"\nrun_from = ["*"]', 1))
    a.serve("--new")
    b.join(a.join_line())
    until(lambda: sees(a, "lab-a", "lab-b"), "they know each other")
    done = a.command("run", "--on", "lab-b", "--need", "psu", "--", "touch", str(hosts.folder / "done"))
    assert done.returncode == 77
    assert f'write run_as = "USER" in [node] of {b.config}' in done.stderr
    assert "no command of another node can be started" in b.said()
    assert not (hosts.folder / "done").exists()


def test_a_caller_that_is_killed_takes_its_command_along(hosts: System) -> None:
    a, b = pair(hosts, "*")
    told = hosts.folder / "pid"
    line = f"echo $$ > {told}.new; mv {told}.new {told}; exec sleep 600"
    with running(begin(a, "run", "--on", "lab-b", "--need", "gpu", "--", "sh", "-c", line)) as run:
        pid = pid_in(told)
        assert held(b) == 1
        run.kill()
    until(lambda: not is_alive(pid), "the command is ended")
    until(lambda: held(b) == 0, "its units are free")


def test_the_death_of_the_node_over_there_is_told_with_when_the_command_ends(hosts: System) -> None:
    a, b = pair(hosts, "*")
    told = hosts.folder / "pid"
    line = f"echo $$ > {told}.new; mv {told}.new {told}; exec sleep 600"
    options = ("--ttl", "11s", "--need", "gpu")
    with running(begin(a, "run", "--on", "lab-b", *options, "--", "sh", "-c", line)) as run:
        pid = pid_in(told)
        b.kill()
        until(lambda: not is_alive(pid), "its guardian ends the command")
        assert run.wait(60) == 79
        assert run.stderr is not None
        said = run.stderr.read().decode()
    assert "lab-b unreachable since" in said
    assert "the command there is stopped by its guardian at the latest" in said


def test_the_death_of_the_node_here_ends_the_command_over_there(hosts: System) -> None:
    a, b = pair(hosts, "lab-a")
    told = hosts.folder / "pid"
    line = f"echo $$ > {told}.new; mv {told}.new {told}; exec sleep 600"
    with running(
        begin(a, "run", "--on", "lab-b", "--ttl", "11s", "--need", "gpu", "--", "sh", "-c", line)
    ) as run:
        pid = pid_in(told)
        a.kill()
        assert run.wait(60) == 79
        assert run.stderr is not None
        assert "lab-a, through which lab-b was reached, has ended" in run.stderr.read().decode()
    until(lambda: not is_alive(pid), "nothing is heard of its caller")
    until(lambda: held(b) == 0, "its units are free")


def test_a_node_that_is_stopped_in_order_ends_the_commands_of_others(hosts: System) -> None:
    a, b = pair(hosts, "lab-a")
    told = hosts.folder / "pid"
    line = f"echo $$ > {told}.new; mv {told}.new {told}; exec sleep 600"
    with running(
        begin(a, "run", "--on", "lab-b", "--ttl", "11s", "--need", "gpu", "--", "sh", "-c", line)
    ) as run:
        pid = pid_in(told)
        assert b.stop() == 0
        until(lambda: not is_alive(pid), "its guardian ends it")
        assert run.wait(60) == 79
        assert run.stderr is not None
        assert "lab-b has been stopped" in run.stderr.read().decode()


# ------------------------------------------------------------ over a bus that can be cut off


@pytest.fixture
def nodes() -> Iterator[Together]:
    """lab1 and lab2 in one process; lab2 lets lab1 start commands, and has the board."""
    lets = 'run_from = ["lab1"]\n' + ('run_as = "root"\n' if os.geteuid() == 0 else "")
    with together() as made:
        made.start("lab1", pool("psu", "psu-1"))
        made.start("lab2", pool("board", "board-1").replace("units", 'reach = "host"\nunits'), node=lets)
        for name in ("lab1", "lab2"):
            until(lambda name=name: seen(made, name) == {"lab1", "lab2"}, "both know each other")  # type: ignore[misc]
        yield made


def seen(nodes: Together, name: str) -> set[str]:
    with nodes.client(name) as client:
        return {row.node for row in client.listing("pools").pools}


def free_at(nodes: Together, name: str) -> int:
    with nodes.client(name) as client:
        return sum(row.free for row in client.listing("pools").pools if row.node == name)


def begin_at(nodes: Together, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
    url = f"unix://{nodes.nodes[name].settings.socket}"
    return subprocess.Popen(
        [*HOLDALL, "run", *arguments],
        env={**os.environ, "HOLDALL_URL": url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_bus_that_is_away_for_a_moment_neither_loses_nor_doubles_anything(nodes: Together) -> None:
    code = (
        "import sys\n"
        "for line in sys.stdin:\n"
        "    print(line.strip() * 2000, flush=True)\n"
        "print('end', flush=True)\n"
        "sys.exit(7)\n"
    )
    arguments = ("--on", "lab2", "--need", "board", "--ttl", "15s", "--", PYTHON, "-u", "-c", code)
    with running(begin_at(nodes, "lab1", *arguments)) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        run.stdin.write(b"0\n")
        run.stdin.flush()
        assert run.stdout.readline() == b"0" * 2000 + b"\n"
        posted = nodes.buses["lab1"].senders["runs"]
        nodes.lose("lab2")
        for number in range(1, 400):
            run.stdin.write(b"%d\n" % number)
        run.stdin.close()
        until(lambda: nodes.buses["lab1"].senders["runs"] > posted + 3, "frames are sent into the void")
        nodes.find("lab2")
        rest = run.stdout.read().splitlines()
        assert rest == [*(b"%d" % number * 2000 for number in range(1, 400)), b"end"]
        assert run.wait(60) == 7
        run.stdin = None
    until(lambda: free_at(nodes, "lab2") == 1, "its unit is free")


def test_a_partition_ends_the_command_there_and_tells_the_caller_here(
    nodes: Together, tmp_path: Path
) -> None:
    told = tmp_path / "pid"
    line = f"trap '' TERM; echo $$ > {told}.new; mv {told}.new {told}; while :; do sleep 1; done"
    with running(
        begin_at(nodes, "lab1", "--on", "lab2", "--need", "board", "--ttl", "11s", "--", "sh", "-c", line)
    ) as run:
        pid = pid_in(told)
        nodes.lose("lab1")
        # Both sides of the partition come to an end by themselves; the command was deaf to TERM.
        until(lambda: not is_alive(pid), "the command is ended")
        until(lambda: free_at(nodes, "lab2") == 1, "its unit is free")
        assert run.wait(60) == 79
        assert run.stderr is not None
        assert b"lab2 unreachable since" in run.stderr.read()

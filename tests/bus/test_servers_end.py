"""What happens when nats-servers die, hang or outlive their node; against the real program."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from bus.nodes import FACTS, HOST, Lines, Node, all_hear_all, free_port, no_frames, no_state, system_of, until

from holdall.bus.entry import make_bus
from holdall.bus.keys import new_seed
from holdall.bus.nats import NatsBus
from holdall.bus.service import OwnBus
from holdall.model.errors import BadConfig

pytestmark = pytest.mark.system


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_any_server_killed_frames_flow_again_within_two_seconds_without_help(victim: int) -> None:
    async def run() -> None:
        async with system_of(4) as nodes:
            starts = nodes[victim].bus.status().server_starts
            os.kill(nodes[victim].server_pid, signal.SIGKILL)
            await all_hear_all(nodes, bound_s=2.0)
            status = nodes[victim].bus.status
            await until(
                lambda: status().server_starts == starts + 1 and not status().server_problem, "it runs"
            )
            assert all(node.bus.status().dropped == 0 for node in nodes)

    asyncio.run(run())


def test_all_servers_down_for_five_seconds_then_frames_flow_and_the_outage_was_told() -> None:
    async def run() -> None:
        async with system_of(3) as nodes:
            servers = [node.bus.server for node in nodes]
            loop = asyncio.get_running_loop()
            end = loop.time() + 5.0
            while loop.time() < end:
                for server in servers:
                    if server is not None and server.pid is not None:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(server.pid, signal.SIGKILL)
                for node in nodes:
                    node.bus.post(nodes[0].id, b"into the void")
                await asyncio.sleep(0.02)
            for node in nodes:
                assert (False in [connected for connected, _ in node.states]) is True
            await all_hear_all(nodes)
            assert all(node.is_connected for node in nodes)

    asyncio.run(run())


def test_a_server_that_keeps_dying_is_started_with_growing_pauses() -> None:
    async def run() -> None:
        async with system_of(1) as (node,):
            for lives in range(1, 5):
                await has_run(node, lives)
                os.kill(node.server_pid, signal.SIGKILL)
            await has_run(node, 5)
            pauses = [values["in_s"] for values in told(node, "nats-server ended")]
            assert pauses == [0.1, 0.2, 0.4, 0.8]

    asyncio.run(run())


async def has_run(node: Node, times: int) -> None:
    await until(lambda: len(told(node, "nats-server runs")) == times, f"its server runs, life {times}")


def told(node: Node, beginning: str) -> list[dict[str, object]]:
    """The values of the log's lines that begin so."""
    return [values for _, event, values in node.log.lines if event.startswith(beginning)]


def test_a_server_that_hangs_is_left_by_its_clients_and_then_replaced() -> None:
    async def run() -> None:
        async with system_of(3) as nodes:
            hung = nodes[0].server_pid
            os.kill(hung, signal.SIGSTOP)
            await all_hear_all(nodes)
            await until(
                lambda: nodes[0].bus.status().server_pid not in {None, hung}, "another one runs", bound_s=40
            )
            assert not is_alive(hung)
            assert "did not greet anybody" in nodes[0].log.text()
            await all_hear_all(nodes)

    asyncio.run(run())


def start_lonely(folder: Path, port: int) -> tuple[subprocess.Popen[str], int]:
    """(the node's process, the pid of its server)."""
    folder.mkdir(exist_ok=True)
    if not (folder / "seed").exists():
        (folder / "seed").write_text(new_seed(), encoding="ascii")
    tests = Path(__file__).parents[1]
    node = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("lonely_node.py")), str(folder), str(port)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{tests}{os.pathsep}{tests.parent / 'src'}"},
    )
    assert node.stdout is not None
    return node, int(node.stdout.readline())


def test_no_server_outlives_a_node_that_is_killed(tmp_path: Path) -> None:
    async def run() -> None:
        port = free_port()
        process, server = start_lonely(tmp_path / "one", port)
        assert is_alive(server)
        process.kill()
        process.wait()
        await until(lambda: not is_alive(server), "the kernel ended the server with its node")
        # The same node comes back to the same port at once.
        again, fresh = start_lonely(tmp_path / "one", port)
        assert fresh != server
        again.kill()
        again.wait()
        await until(lambda: not is_alive(fresh), "and again")
        for one in (process, again):
            assert one.stdout is not None
            one.stdout.close()

    asyncio.run(run())


def test_a_server_of_an_earlier_life_is_recognised_ended_and_reported() -> None:
    async def run() -> None:
        async with system_of(1) as (node,):
            await node.close()
            # A server that nobody's death ends, as on a system without the parent-death signal.
            stray = leave_stray(node.home)
            port = node.bus_port
            await until(lambda: is_taken(port), "it listens")
            await node.open()
            assert stray.wait(timeout=10) == -signal.SIGKILL
            assert "of an earlier start of this node still ran; it is ended" in node.log.text()
            await until(lambda: node.is_connected, "the node is on its bus")

    asyncio.run(run())


def leave_stray(home: Path) -> "subprocess.Popen[bytes]":
    """A server of this node, with the note that its node would have left of it."""
    stray = subprocess.Popen(
        [Path(sys.executable).with_name("nats-server"), "--config", home / "nats-server.conf"],
        stderr=subprocess.DEVNULL,
    )
    born = int(Path(f"/proc/{stray.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    note = home / "nats-server.running"
    note.write_text(f'{{"pid": {stray.pid}, "born": {born}}}', encoding="ascii")
    note.chmod(0o600)
    return stray


def is_taken(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex((HOST, port)) == 0


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_a_port_in_use_is_a_clear_error_that_names_owner_and_next_step(tmp_path: Path, offset: int) -> None:
    async def run() -> None:
        port = free_port()
        with socket.socket() as occupant:
            occupant.bind((HOST, port + offset))
            occupant.listen()
            node = Node(tmp_path / "one", "lab-1")
            with pytest.raises(BadConfig) as caught:
                await node.found(port)
            assert f"port {port + offset}" in caught.value.text
            assert f"(process {os.getpid()})" in caught.value.text
            assert f"set [bus].listen to another port than {port}" in caught.value.text
            await node.close()
        # Nothing is left in the way: with the port free the same node starts.
        await node.open((HOST, port))
        await node.close()

    asyncio.run(run())


def test_a_program_that_is_no_server_is_a_clear_error(tmp_path: Path) -> None:
    async def run() -> None:
        node = Node(tmp_path / "one", "lab-1")

        def bus_with(program: Path) -> OwnBus | NatsBus | None:
            return make_bus(
                node.folder,
                node.key,
                name="lab-1",
                facts=FACTS,
                log=Lines(),
                listen=(HOST, free_port()),
                program=program,
            )

        with pytest.raises(BadConfig, match="no program"):
            bus_with(tmp_path / "nothing")
        bus = bus_with(Path("/bin/false"))
        assert bus is not None
        with pytest.raises(BadConfig, match="nats-server does not start"):
            await bus.open(no_frames, no_state)
        await bus.close()

    asyncio.run(run())

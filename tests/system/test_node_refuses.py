"""Starts that must not be: each ends with status 78, a text with the next step, and changes nothing."""

import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from node.lab import CONFIG, Client, Lab, lab
from node.waiting import until

from holdall.model import frames
from holdall.node import paths

pytestmark = pytest.mark.system


@pytest.fixture
def node() -> Iterator[Lab]:
    with lab() as made:
        yield made


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("[node]", "[node"), "not TOML"),
        (('units = ["psu-1", "psu-2"]', 'unit = ["psu-1"]'), 'unknown key "unit". Did you mean "units"?'),
        (('ttl = "20s"', "ttl = 0"), "ttl = 0 must be between"),
        (('ttl = "20s"', 'ttl = "365d"'), "must be between"),
        (('name = "psu"', 'name = "' + "p" * 300 + '"'), "is no pool name"),
        (('listen = "off"', 'listen = "0.0.0.0:7420"'), "only loopback"),
    ],
)
def test_a_bad_configuration_is_refused_before_anything_is_made(
    node: Lab, change: tuple[str, str], said: str
) -> None:
    node.configure(CONFIG.replace(*change))
    status, text = node.refused()
    assert status == 78
    assert said in text
    assert "Traceback" not in text
    assert not node.state.exists()


def test_a_missing_configuration_names_init(node: Lab) -> None:
    node.config.unlink()
    status, text = node.refused()
    assert (status, "holdall init" in text) == (78, True)


def test_a_taken_port_is_refused(node: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        node.configure(CONFIG.replace('listen = "off"', f'listen = "127.0.0.1:{port}"'))
        status, text = node.refused()
    assert status == 78
    assert f"127.0.0.1:{port} is in use" in text
    assert "[node].listen" in text


def test_a_state_folder_that_cannot_be_made_is_refused(node: Lab) -> None:
    (node.folder / "state").write_text("a file")
    status, text = node.refused()
    assert status == 78
    assert "[node].state" in text
    assert (node.folder / "state").read_text() == "a file"


@pytest.mark.requires("mountns")
def test_a_read_only_state_folder_is_refused(node: Lab) -> None:
    node.state.mkdir()
    node.prefix = _mounted(node, "ro,size=1m")
    status, text = node.refused()
    assert status == 78
    assert "[node].state" in text
    assert "Traceback" not in text


@pytest.mark.requires("mountns")
def test_a_full_disk_at_the_start_is_refused(node: Lab) -> None:
    node.state.mkdir()
    node.prefix = _mounted(node, "size=8k")
    status, text = node.refused("--new")
    assert status == 78
    assert "space" in text
    assert "Traceback" not in text


@pytest.mark.requires("mountns")
def test_on_a_disk_that_becomes_full_nothing_is_granted_that_is_not_journalled(node: Lab) -> None:
    node.state.mkdir()
    node.prefix = _mounted(node, "size=2m")
    node.start("--new")
    assert node.process is not None
    inside = Path(f"/proc/{node.process.pid}/root{node.state}")
    with Client(inside / paths.SOCKET_NAME) as client:
        _lives_through_a_full_disk(node, client, inside)
    assert node.stop() == 0


def _lives_through_a_full_disk(node: Lab, client: Client, inside: Path) -> None:
    held = client.lease("psu:1")
    filler = inside / "filler"
    _fill(filler)
    with pytest.raises(TimeoutError):
        _claim_and_release(client, 1000)
    until(lambda: "the disk is full" in node.said(), "the node says that the disk is full")
    filler.unlink()
    until(lambda: "going on" in node.said(), "the node goes on")
    who = {lease.lease for lease in client.listing("who").leases}
    assert held.lease.lease in who


def test_a_state_folder_of_a_newer_version_is_refused_and_not_changed(node: Lab) -> None:
    node.start("--new")
    assert node.stop() == 0
    journal = node.state / paths.JOURNAL_NAME
    db = sqlite3.connect(journal)
    db.execute("PRAGMA user_version=7")
    db.close()
    before = journal.read_bytes()
    status, text = node.refused()
    assert status == 78
    assert "newer holdall" in text
    assert journal.read_bytes() == before


def test_a_damaged_journal_is_refused_and_not_changed(node: Lab) -> None:
    node.start("--new")
    assert node.stop() == 0
    journal = node.state / paths.JOURNAL_NAME
    damaged = b"\0garbage" + journal.read_bytes()[8:]
    journal.write_bytes(damaged)
    status, text = node.refused()
    assert status == 78
    assert "damaged" in text
    assert "Move the journal" in text
    assert journal.read_bytes() == damaged


def test_a_state_folder_in_use_is_refused_and_the_node_in_it_goes_on(node: Lab) -> None:
    node.start("--new")
    first, said = node.process, node.said()
    node.errors = node.folder / "stderr-2"
    status, text = node.refused()
    assert status == 78
    assert first is not None
    assert f"in use by another node (process {first.pid})" in text
    node.process = first
    with node.client() as client:
        client.lease("board:1")
    assert said


def test_a_socket_on_which_another_node_answers_is_refused(node: Lab) -> None:
    node.state.mkdir()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(node.socket))
        other.listen()
        status, text = node.refused()
    assert status == 78
    assert "another node answers" in text


def test_a_host_pool_of_another_node_is_refused(node: Lab) -> None:
    text = CONFIG.replace('name = "board"', 'name = "board"\nreach = "host"')
    node.configure(text)
    node.start("--new")
    with lab() as other:
        other.environment[paths.RUN_ENV] = node.environment[paths.RUN_ENV]
        other.configure(text.replace('name = "lab-1"', 'name = "lab-2"'))
        status, said = other.refused("--new")
        assert status == 78
        assert 'is served by node "lab-1"' in said
        assert node.stop() == 0
        other.start()
        assert "quarantine" in other.said()


def test_a_state_folder_of_another_node_is_refused(node: Lab) -> None:
    node.start("--new")
    node.stop()
    node.configure(CONFIG.replace('name = "lab-1"', 'name = "lab-2"'))
    status, text = node.refused()
    assert (status, 'belongs to node "lab-1"' in text) == (78, True)


def test_a_failpoint_that_nobody_knows_is_refused(node: Lab) -> None:
    status, text = node.refused(environment={"HOLDALL_FAIL": "nowhere:kill"})
    assert (status, "turn-before-commit" in text) == (78, True)


@pytest.mark.requires("other-user")
def test_the_socket_of_a_users_node_is_closed_to_others(node: Lab) -> None:
    node.start("--new")
    os.chmod(node.folder, 0o755)  # noqa: S103, PTH101
    script = f"import socket; socket.socket(socket.AF_UNIX).connect({str(node.socket)!r})"
    ended = subprocess.run(
        ["setpriv", "--reuid", "65534", "--clear-groups", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "PermissionError" in ended.stderr


def _mounted(node: Lab, options: str) -> tuple[str, ...]:
    script = f'mount -t tmpfs -o {options} tmpfs {node.state} && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", script, "sh")


def _claim_and_release(client: Client, times: int) -> None:
    for _ in range(times):
        client.claim("board:1", now=True)
        client.release(client.wait(frames.Granted, within_s=3).key)


def _fill(file: Path) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(descriptor, b"\0" * 4096)
    except OSError:
        return
    finally:
        os.close(descriptor)


@pytest.mark.requires("root", "other-user")
def test_roots_node_without_a_state_of_its_own_is_the_systems_and_open_to_all(node: Lab) -> None:
    node.folder.chmod(0o755)
    node.config.write_text(CONFIG.replace("{ttl_max}", "60s").replace("{durability}", "process"))
    node.environment["STATE_DIRECTORY"] = str(node.state)
    node.start("--new")
    socket_path = node.folder / "run" / paths.SOCKET_NAME
    assert socket_path.stat().st_mode & 0o777 == 0o666
    assert node.socket.resolve() == socket_path
    assert node.state.stat().st_mode & 0o777 == 0o700
    assert f"socket     {socket_path}" in node.said()
    with node.client() as client:
        client.lease("board:1")
    script = f"import socket; socket.socket(socket.AF_UNIX).connect({str(socket_path)!r})"
    ended = subprocess.run(
        ["setpriv", "--reuid", "65534", "--clear-groups", "/usr/bin/env", "python3", "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.requires("strace")
def test_a_failing_disk_ends_the_node_and_what_it_told_is_there_after_the_next_start(node: Lab) -> None:
    node.configure(durability="power")
    node.prefix = ("strace", "-f", "-o", "/dev/null", "-e", "inject=fdatasync,fsync:error=EIO:when=25+")
    node.start("--new")
    told: list[frames.Granted] = []
    with node.client() as client, pytest.raises(OSError):
        _claim_until_it_ends(client, told)
    assert node.ended() == 70
    assert "can't be written" in node.said()
    assert told
    node.prefix = ()
    node.start()
    with node.client() as client:
        rows = {row.lease for row in client.listing("log").log if row.kind == "granted"}
        assert {granted.lease.lease for granted in told} <= rows


def _claim_until_it_ends(client: Client, told: list[frames.Granted]) -> None:
    for _ in range(500):
        told.append(client.lease("psu:1"))
        client.release(told[-1].key)

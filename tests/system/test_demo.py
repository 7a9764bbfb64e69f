"""The demonstration runs as it stands, keeps its promises, and leaves nothing behind, however it ends."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.many_nodes import is_alive

ROOT = Path(__file__).resolve().parents[2]
DEMO = (sys.executable, "-m", "scripts.demo")
SECONDS_MAX = 75
"""It gives up after 58 s by itself; to end everything takes some more on a busy machine."""
MARK = "HD_TEST_OF_THE_DEMO"


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """With a mark that everything inherits which the demonstration starts; all of that must be gone at the end."""
    mark = uuid.uuid4().hex
    place = Path(tempfile.mkdtemp(dir="/tmp", prefix="hd"))
    try:
        yield {**os.environ, MARK: mark, "TMPDIR": str(place)}
        assert processes_with(mark) == []
        assert [*place.iterdir()] == []
    finally:
        shutil.rmtree(place, ignore_errors=True)


def processes_with(mark: str) -> list[str]:
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "environ").read_bytes().split(b"\0")
            if f"{MARK}={mark}".encode() in told and is_alive(int(process.name)):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.mark.system
@pytest.mark.requires("linux")
def test_the_demonstration_ends_within_a_minute(environment: dict[str, str]) -> None:
    ended = subprocess.run(
        DEMO, capture_output=True, text=True, check=False, timeout=SECONDS_MAX, cwd=ROOT, env=environment
    )
    told = ended.stdout
    assert ended.returncode == 0, told + ended.stderr
    assert ended.stderr == ""
    flat = re.sub(r"\s+", " ", told)
    assert re.search(
        r"units board/board-\d#1 on lab-1, psu/\S+ psu/\S+ on lab-2, scope/scope-1#1 on lab-3", flat
    )
    assert len(re.findall(r"\$ kill -9 \d+", told)) == 2
    again = re.findall(r"(\S+) +of (lab-\d): ann #(\d+), \d+\.\d s after the kill (\w+) #(\d+)", told)
    assert {node for _, node, *_ in again} == {"lab-1", "lab-2", "lab-3"}
    assert len(again) == 4
    assert all(int(later) > int(earlier) for _, _, earlier, _, later in again)
    (granted,) = re.findall(r"lab-1 was away for [\d.]+ s: (\d+) claims were granted meanwhile", flat)
    assert int(granted) >= 6
    assert "not asked: lab-1" in told
    assert re.search(
        r"granted over all three, [\d.]+ s after lab-1 is back: lab-1 \S+, lab-2 \S+, lab-3 \S+", flat
    )
    assert "CLEAN: no violation" in told
    assert "nothing is left running" in told


@pytest.mark.system
@pytest.mark.requires("linux")
@pytest.mark.parametrize(
    ("after", "number", "status"),
    [
        (r"ann +granted", signal.SIGINT, 130),
        (r"kill +\$ kill -9 \d+ +\(lab-1\)", signal.SIGINT, 130),
        (r"holdall join", signal.SIGTERM, 143),
    ],
    ids=["a-holder-lives", "a-node-is-dead", "nodes-are-joining"],
)
def test_ctrl_c_in_the_middle_ends_everything(
    environment: dict[str, str], after: str, number: signal.Signals, status: int
) -> None:
    with subprocess.Popen(
        DEMO, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment, start_new_session=True
    ) as demo:
        assert demo.stdout is not None
        told = [*lines_until(demo.stdout, after)]
        # As a terminal does: to all processes of the foreground. A second one must not leave half of them behind.
        os.killpg(demo.pid, number)
        told += lines_until(demo.stdout, r"is ended now")
        os.killpg(demo.pid, number)
        told += demo.stdout
        assert demo.wait(timeout=SECONDS_MAX) == status, "".join(told)
    assert any("nothing is left running" in line for line in told)
    assert not any("FAILED" in line for line in told), "".join(told)


def lines_until(stream: Iterator[str], pattern: str) -> Iterator[str]:
    for line in stream:
        yield line
        if re.search(pattern, line):
            return


@pytest.mark.system
@pytest.mark.requires("linux")
def test_who_stops_reading_ends_everything(environment: dict[str, str]) -> None:
    with subprocess.Popen(DEMO, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as demo:
        assert demo.stdout is not None
        assert [*lines_until(demo.stdout, r"lab-1 is up")] != []
        demo.stdout.close()
        assert demo.wait(timeout=SECONDS_MAX) == 128 + signal.SIGPIPE


@pytest.mark.system
@pytest.mark.requires("linux")
def test_a_failure_is_told_with_the_logs_and_everything_is_ended(
    environment: dict[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "nats-server"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    broken = {**environment, "PATH": f"{tmp_path}:{environment['PATH']}"}
    ended = subprocess.run(
        DEMO, capture_output=True, text=True, check=False, timeout=SECONDS_MAX, cwd=ROOT, env=broken
    )
    assert ended.returncode == 1, ended.stdout
    assert "FAILED: " in ended.stdout
    assert "nats-server" in ended.stdout
    assert "nothing is left running" in ended.stdout


@pytest.mark.system
@pytest.mark.requires("linux")
def test_the_small_lab_tells_its_story_with_small_fences_every_time_and_leaves_no_trace(
    environment: dict[str, str],
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "holdall.cli", "demo"],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
        env=environment | {"HOLDALL_RUN_DIR": f"{environment['TMPDIR']}/run"},
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    told = ended.stdout.partition("\n\n")[0].splitlines()
    assert [line for line in told if not re.match(r" *\d+\.\d\d s  \w+ +\S", line)] == []
    assert re.search(r"gus +holds scope-1#1, and is cut off", ended.stdout)
    # The table of a terminal has 80 columns.
    assert [line for line in told if len(line) > 80] == []
    assert "all is free again: board 2/2 · psu 3/3 · scope 1/1" in ended.stdout
    _, *next_commands = re.findall(r"^(?:next)? +(holdall .+?)(?:   |$)", ended.stdout, re.MULTILINE)
    assert len(next_commands) == 2


@pytest.mark.system
@pytest.mark.requires("linux")
@pytest.mark.parametrize(
    ("after", "number", "status"),
    [
        (r"3 pools", signal.SIGTERM, 143),
        (r"gus +holds scope-1", signal.SIGINT, 130),
        (r"gus's lease \S+ ended", signal.SIGINT, 130),
    ],
    ids=["it-begins", "a-holder-is-silent", "it-goes-on"],
)
def test_ctrl_c_ends_the_small_lab_without_a_trace(
    environment: dict[str, str], after: str, number: signal.Signals, status: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "holdall.cli", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        assert [*lines_until(demo.stdout, after)] != []
        for _ in range(2):  # a second one must not leave half of it behind
            os.killpg(demo.pid, number)
        demo.stdout.read()
        assert demo.wait(timeout=SECONDS_MAX) == status
        assert demo.stderr.read() == "\nstopped, and nothing is left of it\n"


@pytest.mark.system
@pytest.mark.requires("linux")
def test_who_stops_reading_ends_the_small_lab(environment: dict[str, str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "holdall.cli", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        assert demo.stdout.readline() != ""
        demo.stdout.close()
        assert demo.stderr.read() == ""
        assert demo.wait(timeout=SECONDS_MAX) == 141  # as every command whose reader has gone

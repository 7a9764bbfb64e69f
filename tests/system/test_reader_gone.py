"""Commands whose output nobody reads to its end (`holdall log | head`): they end as other programs do, and say nothing of it."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
from node.lab import lab
from node.waiting import until
from system.job_runs import HOLDALL, JobLab, job_lab

pytestmark = pytest.mark.system

GONE = 128 + signal.SIGPIPE
WITHIN_S = 60.0


@pytest.fixture
def jobs() -> Iterator[JobLab]:
    with lab() as node, job_lab(node.folder, node.socket, node.environment) as made:
        node.start("--new")
        yield made


def unread(jobs: JobLab, *arguments: str) -> tuple[int, str]:
    """Status and standard error of a command whose reader has gone before it begins."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*HOLDALL, *arguments],
            env=jobs.environment,
            cwd=jobs.folder,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr


def test_whatever_a_command_writes_it_ends_quietly_when_its_reader_has_gone(jobs: JobLab) -> None:
    job = jobs.begin("[task.a]\nrun = 'echo said'\n")
    until(lambda: jobs.is_over(job), "the job is over")
    assert jobs.holdall("run", "--need", "board", "--", "true").returncode == 0
    for command in (
        ("--help",),
        ("--version",),
        ("completion", "bash"),
        ("examples", "pytest"),
        ("init", "--print"),
        ("pools",),
        ("pools", "--json"),
        ("log",),
        ("usage", "--csv"),
        ("usage",),
        ("job", "list"),
        ("job", "show", job),
        ("job", "show", job, "--log"),
        ("job", "show", job, "--svg", "-"),
        ("job", "show", job, "--follow", "--json"),
        ("job", "logs", job),
        ("lab", "explore", "--world", "list"),
    ):
        assert (command, *unread(jobs, *command)) == (command, GONE, "")


def test_more_than_a_pipe_holds_is_broken_off(jobs: JobLab) -> None:
    job = jobs.begin("[task.a]\nrun = 'seq 1000000'\n")
    until(lambda: jobs.is_over(job), "the job is over")
    with subprocess.Popen(
        [*HOLDALL, "job", "logs", job],
        env=jobs.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as logs:
        assert logs.stdout is not None
        assert logs.stderr is not None
        assert logs.stdout.readline() == b"1\n"
        logs.stdout.close()
        assert logs.wait(WITHIN_S) == GONE
        assert logs.stderr.read() == b""


def test_who_watches_for_nobody_ends_with_the_next_line(jobs: JobLab) -> None:
    with subprocess.Popen(
        [*HOLDALL, "watch"],
        env=jobs.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as watch:
        assert watch.stdout is not None
        assert watch.stderr is not None

        def happens() -> bool:
            assert jobs.holdall("run", "--need", "board", "--", "true").returncode == 0
            return watch.poll() is not None

        watch.stdout.close()
        until(happens, "it has written and ended")
        assert watch.returncode == GONE
        assert watch.stderr.read() == b""


def test_a_node_serves_although_nobody_reads_its_line(jobs: JobLab) -> None:
    folder = jobs.folder / "second"
    folder.mkdir()
    config = folder / "holdall.toml"
    config.write_text(f'[node]\nname = "lab-2"\nlisten = "off"\nstate = "{folder}"\n')
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [*HOLDALL, "serve", str(config), "--new"],
        env=jobs.environment,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    ) as node:
        os.close(writing)
        try:
            assert node.stderr is not None
            assert any('"serving"' in line for line in node.stderr)
            look = [*HOLDALL, "pools", "--json", "--url", f"unix://{folder}/holdall.sock"]
            assert subprocess.run(look, env=jobs.environment, check=False, timeout=WITHIN_S).returncode == 0
        finally:
            node.terminate()
        assert node.wait(WITHIN_S) == 0

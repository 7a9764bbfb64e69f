"""The rules of tests/conftest.py, tried on small test files in a pytest of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


def run_pytest(folder: Path, source: str, *, ci: bool) -> subprocess.CompletedProcess[str]:
    """Run one test file under this project's conftest, in or outside of CI."""
    (folder / "conftest.py").write_text((TESTS / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "test_sample.py").write_text(source, encoding="utf-8")
    ini = "[pytest]\nmarkers =\n    requires(*capabilities): x\naddopts = --strict-markers -p no:cacheprovider\n"
    (folder / "pytest.ini").write_text(ini, encoding="utf-8")
    environment = {name: text for name, text in os.environ.items() if name != "CI"}
    environment |= {"PYTHONPATH": str(TESTS)} | ({"CI": "true"} if ci else {})
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
        env=environment,
    )


ASKS_FOR_A_MISSING_THING = """
import capabilities, pytest
capabilities.CAPABILITIES = {**capabilities.CAPABILITIES, "moon": capabilities.Capability(lambda: False, "go there")}
import conftest
conftest.CAPABILITIES = capabilities.CAPABILITIES

@pytest.mark.requires("moon")
def test_on_the_moon(): pass

@pytest.mark.requires("linux")
def test_here(): pass
"""


def test_an_unmet_requirement_is_not_run_and_listed_with_its_remedy(tmp_path: Path) -> None:
    ended = run_pytest(tmp_path, ASKS_FOR_A_MISSING_THING, ci=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 passed, 1 skipped" in ended.stdout
    assert "not run: 1" in ended.stdout
    assert "test_sample.py::test_on_the_moon: this machine does not offer: moon (go there)" in ended.stdout


def test_in_ci_an_unmet_requirement_fails(tmp_path: Path) -> None:
    ended = run_pytest(tmp_path, ASKS_FOR_A_MISSING_THING, ci=True)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "moon (go there) - in CI every requirement must be met" in ended.stdout


def test_a_requirement_nobody_knows_is_refused_before_any_test_runs(tmp_path: Path) -> None:
    source = 'import pytest\n@pytest.mark.requires("telepathy")\ndef test_it(): pass\n'
    ended = run_pytest(tmp_path, source, ci=False)
    assert ended.returncode == 4, ended.stdout + ended.stderr
    assert "which tests/capabilities.py does not know" in ended.stderr


@pytest.mark.requires("linux")
def test_a_process_left_behind_is_ended_and_reported(tmp_path: Path) -> None:
    source = (
        "import subprocess, sys\n"
        "def test_it():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "    print('child', child.pid)\n"
        "    child.returncode = 0\n"
    )
    ended = run_pytest(tmp_path, source, ci=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "tests left these processes running" in ended.stdout


NEVER_ENDS = """
import asyncio, bounded
bounded.BOUND_S, bounded.END_S = 0.5, 1 if not CAN_BE_ENDED else 60  # its end comes in time on a busy machine, too

async def stubborn():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if CAN_BE_ENDED:
                raise

async def wait_for_nothing():
    task = asyncio.create_task(stubborn(), name="a stubborn one")
    await asyncio.wait((task,))

def test_it():
    asyncio.run(wait_for_nothing())

def test_after():
    pass
"""


def test_a_test_that_never_ends_fails_with_what_its_tasks_wait_for_and_the_next_one_runs(
    tmp_path: Path,
) -> None:
    ended = run_pytest(tmp_path, f"CAN_BE_ENDED = True\n{NEVER_ENDS}", ci=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "test_it has not ended within 0.5 s" in ended.stdout
    assert "await asyncio.wait((task,))" in ended.stdout
    assert "1 failed, 1 passed" in ended.stdout


def test_where_not_even_its_end_comes_all_threads_are_shown_and_the_run_ends(tmp_path: Path) -> None:
    ended = run_pytest(tmp_path, f"CAN_BE_ENDED = False\n{NEVER_ENDS}", ci=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "Timeout (0:00:01.500000)!" in ended.stderr
    assert "in test_it" in ended.stderr


HANGS_BELOW_PYTHON = """
import bounded, sys
bounded.BOUND_S, bounded.END_S = 0.5, 1
sys.set_int_max_str_digits(0)

def test_it():
    int("9" * 4_000_000)
"""


def test_what_no_signal_interrupts_is_shown_and_ended_too(tmp_path: Path) -> None:
    ended = run_pytest(tmp_path, HANGS_BELOW_PYTHON, ci=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "Timeout (0:00:01.500000)!" in ended.stderr
    assert "in test_it" in ended.stderr


HANGS_AFTER_A_FAILURE = """
import bounded, pytest, threading
bounded.BOUND_S, bounded.END_S = 0.5, 1

@pytest.fixture
def stuck():
    yield
    while True:
        try:
            threading.Event().wait()
        except BaseException:
            pass

def test_it(stuck):
    raise ValueError
"""


def test_a_fixture_that_hangs_after_a_failure_is_shown_and_ended_too(tmp_path: Path) -> None:
    ended = run_pytest(tmp_path, HANGS_AFTER_A_FAILURE, ci=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "in stuck" in ended.stderr
